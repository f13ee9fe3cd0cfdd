"""Steps that no engine computes become host kernels, and those that only feed a host kernel become part of it.

Vector engines have lanes of at most 32 bits, and immediates of binary32. Wider results, and whole numbers that such an
immediate cannot hold, are computed where they can be; to read a wider tensor is no obstacle. The indices of a gather,
for example, count from the end where they are negative; the kernel that uses them also makes them so:

    negative = less(ids, 0)               on an engine
    shifted = add(ids, 30522)             of int64            becomes    rows = kernel(table, ids)    on the host
    index = where(negative, shifted, ids) of int64
    rows = gather(table, index)           on the host
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heappop, heappush
from typing import Any, TypeAlias

import numpy as np
import tvm

from ..net.dataflow import Dataflow
from ..net.net import Info, Loop, Net, NetStep, Ref
from ..relax.host_kernel import Allocation, Call, as_host, can_join, compute_dtype, host_kernel, joined

Parts: TypeAlias = "Call | Allocation | tuple[Parts, ...]"
"""What a kernel is joined of, nested in the way it was joined."""


def send_to_host(net: Net, dtypes: tuple[str, ...]) -> None:
    """Make host kernels of what no engine computes, and join those that only feed a host kernel to it.

    Before: no movement is left that a reader could take, so that nothing goes to the host for the sake of a copy.
    After: steps that are no host kernels write none of ``dtypes``, and no whole number that they compute with is
    rounded by an immediate of binary32.

        s[i] = add(ids[i], 1)  of int64
        y = kernel(s)  on the host       becomes      y = kernel'(ids)  on the host
    """
    groups = [_Group(step, net, _reason(step, net, dtypes)) for step in net.steps]
    net.steps = [group.step() for group in _merge(groups, net, dtypes)]


def _reason(step: NetStep, net: Net, dtypes: Collection[str]) -> str | None:
    """Why a step is computed on the host; ``None`` if an engine can do it."""
    if step.host:
        return step.host.reason
    infos = _infos(step, net)
    wide = sorted({infos[loop.write.tensor].dtype for loop in step.loops} & set(dtypes))
    if wide:
        return f"no engine computes {wide[0]}"
    if any(_too_wide(loop, infos) for loop in step.loops):
        return "a whole number that no immediate holds"
    return None


def _infos(step: NetStep, net: Net) -> dict[str, Info]:
    """Shape and dtype of all tensors that a step touches: inputs, outputs, temporaries."""
    return {**{n: net.tensors[n] for n in (*step.inputs, *step.outputs)}, **step.temps}


def _too_wide(loop: Loop, infos: Mapping[str, Info]) -> bool:
    numbers = [o for o in loop.operands if not isinstance(o, Ref)]
    return compute_dtype(loop, infos) == "int64" and any(float(np.float32(n)) != n for n in numbers)


class _Group:
    """A step, or steps that become one host kernel under the name of the last one.

    ``reason`` says why it is computed on the host; it is ``None`` for a step that an engine can compute.
    ``for_scalar``: a part of it is written for a scalar engine.
    """

    def __init__(self, step: NetStep, net: Net, reason: str | None) -> None:
        self._step = step
        self._infos = _infos(step, net)
        self._tensors = net.tensors
        self._parts: Parts | None = None
        self._origins: list[tuple[str, ...]] = [step.origin]
        self.inputs: dict[str, None] = dict.fromkeys(step.inputs)
        self.reason = reason
        self.for_scalar = step.host is not None and step.host.engine == "scalar"

    @property
    def outputs(self) -> tuple[str, ...]:
        return self._step.outputs

    @property
    def parts(self) -> Parts:
        """The functions of the steps, as far as they were joined."""
        if self._parts is None:
            step = self._step
            self._parts = Call(self._function(), (*(step.host_inputs or step.inputs), *step.outputs))
        return self._parts

    def _function(self) -> Any:
        if self._step.host is None:
            return host_kernel(self._step, self._infos)
        module: Any = tvm.ir.load_json(self._step.host.tir)
        return module["main"]

    @property
    def can_join(self) -> bool:
        if self._step.template and self.reason is None:
            return False
        return not isinstance(self.parts, Call) or can_join(self.parts.function)

    def absorb(self, first: _Group) -> None:
        """Compute ``first``, whose outputs only this group reads, in front."""
        outputs = set(first.outputs)
        self.inputs = {name: None for name in self.inputs if name not in outputs} | first.inputs
        begin = len(self.inputs) + len(self.outputs)
        between = tuple(
            Allocation(name, self._tensors[name], f"b{number}") for number, name in enumerate(first.outputs, begin)
        )
        self._parts = (first.parts, self.parts, between)
        self._origins = [*first._origins, *self._origins]
        self.for_scalar = self.for_scalar or first.for_scalar

    def step(self) -> NetStep:
        """The group as one step: a host kernel, or the step itself if an engine can compute it."""
        step = self._step
        if self.reason is None or (step.host and isinstance(self.parts, Call)):
            return step
        inputs = tuple(self.inputs)
        if isinstance(self.parts, Call):
            function = self.parts.function
        else:
            infos = {name: self._tensors[name] for name in (*inputs, *step.outputs)}
            function = joined(_flat(self.parts), infos)
        origin = tuple(dict.fromkeys(name for origin in self._origins for name in origin))
        host = as_host(function, self.reason, for_scalar=self.for_scalar)
        return NetStep(step.name, origin, step.unit, step.outputs, host=host, host_inputs=inputs)


def _flat(parts: Parts) -> list[Call | Allocation]:
    """The parts in order. They may be nested deeper than Python calls functions."""
    flat: list[Call | Allocation] = []
    pending = [parts]
    while pending:
        part = pending.pop()
        if isinstance(part, tuple):
            pending += reversed(part)
        else:
            flat.append(part)
    return flat


def _merge(groups: list[_Group], net: Net, dtypes: Collection[str]) -> list[_Group]:
    """Let host kernels compute what they alone read, if it is computed on the host anyway or from ``dtypes`` alone."""
    flow = Dataflow(groups)
    outputs = frozenset(net.outputs)
    pending = list(range(len(groups)))
    while pending:
        first = groups[heappop(pending)]
        second = _reader(first, flow) if flow.contains(first) else None
        if second is None or outputs.intersection(first.outputs):
            continue
        wide = all(net.tensors[name].dtype in dtypes for name in first.inputs)
        if second.reason is None or (first.reason is None and not wide) or not (first.can_join and second.can_join):
            continue
        producers = [p for p in map(flow.writer, first.inputs) if p is not None]
        flow.contract(first, second)
        second.absorb(first)
        for group in (*producers, second):
            heappush(pending, flow.position(group))
    return flow.operations


def _reader(group: _Group, flow: Dataflow[_Group]) -> _Group | None:
    """The only group that reads any result of a group."""
    readers = {flow.position(reader): reader for name in group.outputs for reader in flow.readers(name)}
    return next(iter(readers.values())) if len(readers) == 1 else None
