"""The net becomes a Graph: private buffers, stages, readable names, ports and constants."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

import numpy as np

from ...ir.box import Affine
from ...ir.graph import Access, Axis, Constant, Graph, Op, Port, Stage, Tensor
from .dataflow import Dataflow
from .linear import Linear
from .net import Extent, Info, Loop, Net, NetStep, Ref


def to_graph(
    net: Net,
    name: str,
    inputs: tuple[Port, ...],
    outputs: tuple[Port, ...],
    replicas: int,
    batch: int | None,
) -> Graph:
    """Freeze the net. ``inputs`` and ``outputs`` are its ports, whose tensors the net names."""
    ops: list[Op] = []
    names = _Names()
    for step in Dataflow(net.steps).topological_order():
        ops.append(_op(step, names.unique(_readable(step.name)), net))
    tensors = tuple(Tensor(n, i.shape, i.dtype) for n, i in net.tensors.items())
    constants: list[Constant] = []
    data: dict[str, np.ndarray] = {}
    for tensor, array in net.constants.items():
        data[tensor] = np.ascontiguousarray(array).reshape(array.shape)
        digest = hashlib.sha256(data[tensor].tobytes()).hexdigest()
        constants.append(Constant(tensor, digest))
    return Graph(name, tensors, tuple(ops), inputs, outputs, tuple(constants), replicas, batch, data)


def _readable(name: str) -> str:
    """An ONNX name without the clutter of exporters: ``/layer1/conv/Conv`` → ``layer1.conv.Conv``."""
    return re.sub(r"[^A-Za-z0-9_.\-]+", ".", name).strip(".") or "op"


class _Names:
    """Gives out names, each once: a name that is taken gets the next free number from 2."""

    def __init__(self, used_names: Iterable[str] = ()) -> None:
        self._used_names = set(used_names)
        self._next: dict[str, int] = {}

    def unique(self, name: str) -> str:
        candidate, number = name, self._next.get(name, 2)
        while candidate in self._used_names:
            candidate, number = f"{name}.{number}", number + 1
        self._next[name] = number
        self._used_names.add(candidate)
        return candidate


def _op(step: NetStep, name: str, net: Net) -> Op:
    if step.host:
        return Op(name, step.origin, step.host_inputs, step.outputs, host=step.host)
    inputs = step.inputs
    private: dict[str, str] = {}
    names = _Names((*inputs, step.output))
    for loop in step.loops:
        target = loop.write.tensor
        if target in step.temps and target not in private:
            private[target] = names.unique(f"{name}:{loop.combine or loop.func}")
    buffers = tuple(Tensor(private[t], step.temps[t].shape, step.temps[t].dtype) for t in private)
    shapes = {step.output: net.tensors[step.output], **step.temps, **{i: net.tensors[i] for i in inputs}}
    stages = tuple(_stage(loop, private, shapes) for loop in step.loops)
    blocks = _numbered(step.blocks)
    return Op(name, step.origin, inputs, step.outputs, buffers, stages, template=step.template, blocks=blocks)


def _numbered(blocks: tuple[str, ...]) -> tuple[str, ...]:
    """Of several stages of one block, the last keeps its name; the others are numbered from 0."""
    last = {name: position for position, name in enumerate(blocks)}
    names = _Names(last)
    counts = dict.fromkeys(last, 0)
    numbered: list[str] = []
    for position, name in enumerate(blocks):
        if position == last[name]:
            numbered.append(name)
            continue
        numbered.append(names.unique(f"{name}_{counts[name]}"))
        counts[name] += 1
    return tuple(numbered)


def _stage(loop: Loop, private: Mapping[str, str], infos: Mapping[str, Info]) -> Stage:
    axes = _sorted_axes(loop)
    names, short = list(axes), _Names()

    def access(ref: Ref) -> Access:
        index = tuple(_affine(i, names) for i in ref.index)
        extents = loop.extents
        shape = infos[ref.tensor].shape
        inside = all(
            i.bounds(extents)[0] >= 0 and i.bounds(extents)[1] < n for i, n in zip(ref.index, shape, strict=True)
        )
        return Access(private.get(ref.tensor, ref.tensor), index, None if inside else ref.fill)

    return Stage(
        tuple(Axis(_short(a, short), axes[a].size, axes[a].reduce) for a in names),
        access(loop.write),
        loop.func,
        tuple(access(o) if isinstance(o, Ref) else o for o in loop.operands),
        loop.combine,
        None if loop.start is None else access(loop.start),
    )


def _affine(index: Linear, names: list[str]) -> Affine:
    return Affine(tuple(index.coefficient(n) for n in names), index.const)


def _sorted_axes(loop: Loop) -> dict[str, Extent]:
    """Spatial axes in the order of the write, then reduced ones in the order of the first read."""
    order = [a for i in loop.write.index for a, _ in sorted(i.terms, key=lambda t: -t[1])]
    order += [a for a in loop.spatial if a not in order]
    for ref in loop.reads:
        for i in ref.index:
            order += [a for a, _ in sorted(i.terms, key=lambda t: -t[1]) if loop.axes[a].reduce and a not in order]
    order += [a for a in loop.reduced if a not in order]
    return {a: loop.axes[a] for a in order}


def _short(name: str, names: _Names) -> str:
    """TVM's names of iterators, shortened: ``yy`` → ``y``, ``ax1`` → ``i1``, ``rv0`` → ``r0``."""
    name = re.sub(r"^ax(?=\d)", "i", name)
    name = re.sub(r"^rv(?=\d)", "r", name)
    name = re.sub(r"^([a-z])\1$", r"\1", name)
    return names.unique(name).replace(".", "_")
