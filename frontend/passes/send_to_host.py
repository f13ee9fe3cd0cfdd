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
from dataclasses import replace
from typing import Any

import numpy as np
import tvm

from ..net.net import Info, Loop, Net, Ref, Step
from ..relax.host_kernel import as_host, can_join, compute_dtype, host_kernel, joined


def send_to_host(net: Net, dtypes: Collection[str]) -> None:
    """Replace, in place, steps that write one of ``dtypes`` or compute with numbers too wide for an immediate."""
    net.steps = [_converted(step, net, dtypes) for step in net.steps]
    _merge_hosts(net, dtypes)


def _converted(step: Step, net: Net, dtypes: Collection[str]) -> Step:
    infos = _infos(step, net)
    wide = sorted({infos[loop.write.tensor].dtype for loop in step.loops} & set(dtypes))
    if wide:
        return _on_host(step, net, f"no engine computes {wide[0]}")
    if any(_too_wide(loop, infos) for loop in step.loops):
        return _on_host(step, net, "a whole number that no immediate holds")
    return step


def _infos(step: Step, net: Net) -> dict[str, Info]:
    """Shape and dtype of all tensors that a step touches: inputs, outputs, temporaries."""
    return {**{n: net.tensors[n] for n in (*step.inputs, *step.outputs)}, **step.temps}


def _too_wide(loop: Loop, infos: Mapping[str, Info]) -> bool:
    numbers = [o for o in loop.operands if not isinstance(o, Ref)]
    return compute_dtype(loop, infos) == "int64" and any(float(np.float32(n)) != n for n in numbers)


def _on_host(step: Step, net: Net, reason: str) -> Step:
    host = as_host(host_kernel(step, _infos(step, net)), reason)
    return Step(step.name, step.origin, step.unit, step.outputs, host=host, host_inputs=step.inputs)


def _merge_hosts(net: Net, dtypes: Collection[str]) -> None:
    """Let host kernels compute what they alone read, if it is computed on the host anyway or from ``dtypes`` alone."""
    while True:
        pair = _feeding(net, dtypes)
        if pair is None:
            return
        first, second = pair
        merged = _joined(first, second, net)
        net.steps = [merged if s is second else s for s in net.steps if s is not first]


def _feeding(net: Net, dtypes: Collection[str]) -> tuple[Step, Step] | None:
    """A step, and the host kernel that can compute it."""
    consumers = net.consumers()
    for step in net.steps:
        readers = {id(s): s for o in step.outputs for s in consumers.get(o, ())}
        reader = next(iter(readers.values()), None)
        if reader is None or len(readers) > 1 or any(o in net.outputs for o in step.outputs):
            continue
        wide = all(net.tensors[i].dtype in dtypes for i in step.inputs)
        if reader.host and (step.host or wide) and all(can_join(_function(s, net)) for s in (step, reader)):
            return step, reader
    return None


def _function(step: Step, net: Net) -> Any:
    if step.host is None:
        return host_kernel(step, _infos(step, net))
    module: Any = tvm.ir.load_json(step.host.tir)
    return module["main"]


def _joined(first: Step, second: Step, net: Net) -> Step:
    """Both steps in one kernel, under the name of the second and with its reason."""
    assert second.host is not None
    inputs = tuple(dict.fromkeys((*(i for i in second.inputs if i not in first.outputs), *first.inputs)))
    infos = {n: net.tensors[n] for n in (*inputs, *second.outputs, *first.outputs)}
    parameters = [(*(s.host_inputs or s.inputs), *s.outputs) for s in (first, second)]
    function = joined([_function(s, net) for s in (first, second)], parameters, infos, first.outputs)
    origin = tuple(dict.fromkeys((*first.origin, *second.origin)))
    host = as_host(function, second.host.reason)
    return replace(second, origin=origin, host=host, host_inputs=inputs)
