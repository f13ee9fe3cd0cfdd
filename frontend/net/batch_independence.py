"""May the batch be divided? Only if no sample of any output depends on another sample of an input.

The batch is followed through the loops: a tensor that carries it has it as the outermost part of one dimension, and a
loop that reads such tensors must read all of them along one and the same axis, and write along it too. What else it
reads must be the same for every sample. Of host kernels, the caller knows more.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping

import numpy as np

from ...ir.graph import Host
from .linear import Linear
from .net import Loop, Net, NetStep, Ref

BatchDims = Callable[[Host, Mapping[int, int]], Mapping[int, int] | None]
"""Which parameters of a host kernel (inputs, then outputs) hold the batch and along which dimension, given that of
inputs; ``None`` if samples may meet."""


def is_independent(net: Net, divided: set[str], batch_dims: BatchDims) -> bool:
    """Whether each sample of every output is computed from the same sample of the ``divided`` inputs.

    The batch of the net must be two at least, or there is nothing to tell it by.
    """
    carries = dict.fromkeys(divided, 0)
    for step in net.steps:
        if not any(i in carries for i in step.inputs):
            continue
        if step.host:
            names = (*step.host_inputs, *step.outputs)
            dims = batch_dims(step.host, {p: carries[n] for p, n in enumerate(step.host_inputs) if n in carries})
            if dims is None:
                return False
            carries |= {names[position]: dim for position, dim in dims.items()}
            continue
        dim = _through(step, net, carries)
        if dim is None:
            return False
        carries[step.output] = dim
    return all(carries.get(o) == 0 for o in net.outputs)


def _through(step: NetStep, net: Net, carries: dict[str, int]) -> int | None:
    """The dimension of the step's output that carries the batch, or ``None`` if samples meet."""
    local = ChainMap(dict[str, int](), carries)
    same: list[Loop] = []
    for loop in step.loops:
        axes = {_batch_axis(loop, r, local[r.tensor], _shape(step, net, r)) for r in loop.reads if r.tensor in local}
        if not axes:
            if loop.write.tensor == step.output:
                same.append(loop)
            continue
        axis = axes.pop()
        if axes or axis is None or loop.axes[axis].reduce:
            return None
        if not all(_same_for_all(r, axis, net) for r in loop.reads if r.tensor not in local):
            return None
        places = [d for d, i in enumerate(loop.write.index) if axis in i.axes]
        if len(places) != 1 or _batch_axis(loop, loop.write, places[0], _shape(step, net, loop.write)) != axis:
            return None
        if local.setdefault(loop.write.tensor, places[0]) != places[0]:
            return None
    dim = local.get(step.output)
    shape = net.tensors[step.output].shape
    return dim if dim is not None and all(_for_every_sample(loop, dim, shape, net) for loop in same) else None


def _shape(step: NetStep, net: Net, ref: Ref) -> tuple[int, ...]:
    return (step.temps.get(ref.tensor) or net.tensors[ref.tensor]).shape


def _for_every_sample(loop: Loop, dim: int, shape: tuple[int, ...], net: Net) -> bool:
    """Whether a loop writes the same to every sample, such as a token that is put in front of all."""
    axis = _batch_axis(loop, loop.write, dim, shape)
    return axis is not None and all(_same_for_all(ref, axis, net) for ref in loop.reads)


def _same_for_all(ref: Ref, axis: str, net: Net) -> bool:
    """Whether what is read, which holds no batch, is the same at every point of an axis."""
    return all(
        axis not in index.axes or (index == Linear.axis(axis) and _repeats(net, ref.tensor, d))
        for d, index in enumerate(ref.index)
    )


def _repeats(net: Net, name: str, dim: int) -> bool:
    """Whether a tensor is a constant that is the same all along a dimension."""
    values = net.constants.get(name)
    return values is not None and bool((values == values.take([0], axis=dim)).all())


def _batch_axis(loop: Loop, ref: Ref, dim: int, shape: tuple[int, ...]) -> str | None:
    """The axis along which ``ref`` runs through the whole batch of a tensor of this shape, by whole samples."""
    index = ref.index[dim]
    if not index.terms:
        return None
    axis = max(index.terms, key=lambda t: t[1])[0]
    elsewhere = any(axis in i.axes for d, i in enumerate(ref.index) if d != dim)
    whole = loop.extents[axis] * index.coefficient(axis) == shape[dim]
    return axis if whole and _outermost(index, axis, loop) and not elsewhere else None


def _outermost(index: Linear, axis: str, loop: Loop) -> bool:
    """Whether the other terms stay within one step of ``axis``."""
    step = index.coefficient(axis)
    rest = Linear(tuple(t for t in index.terms if t[0] != axis), index.const)
    lo, hi = rest.bounds(loop.extents)
    return step > 0 and lo >= 0 and hi < step


def is_alike(net: Net, larger: Net) -> bool:
    """Whether two nets of one network, which differ in the size of their batch, compute the same with each sample.

    They do not if that size, or what is left of one sample in another, is a number that they compute with.
    """
    return len(net.steps) == len(larger.steps) and all(
        _functions(a) == _functions(b) and _reads_alike(a, b, net, larger)
        for a, b in zip(net.steps, larger.steps, strict=True)
    )


def _functions(step: NetStep) -> tuple[object, ...]:
    """What a step computes, without the extents of its loops; compared as text, as NaN is not equal to itself."""
    operands = [[repr(o.fill if isinstance(o, Ref) else o) for o in loop.operands] for loop in step.loops]
    return step.outputs, [(loop.func, loop.combine) for loop in step.loops], operands


def _reads_alike(step: NetStep, same: NetStep, net: Net, larger: Net) -> bool:
    """Whether two steps read the same tensors, and constants that are equal but for how often they repeat."""
    pairs = list(zip(step.inputs, same.inputs, strict=False))
    return len(step.inputs) == len(same.inputs) and all(
        _equal(net.constants[a], larger.constants[b]) if a in net.constants and b in larger.constants else a == b
        for a, b in pairs
    )


def _equal(array: np.ndarray, larger: np.ndarray) -> bool:
    if array.shape != larger.shape:
        array, larger = _once(array), _once(larger)
    return array.shape == larger.shape and array.tobytes() == larger.tobytes()


def _once(array: np.ndarray) -> np.ndarray:
    """An array without the dimensions along which it repeats."""
    for dim in reversed(range(array.ndim)):
        first = array.take(0, axis=dim)
        array = first if bool((array == np.expand_dims(first, dim)).all()) else array
    return array
