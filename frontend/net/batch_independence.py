"""May the batch be divided? Only if no sample of any output depends on another sample of an input.

The batch is followed through the loops: a tensor that carries it has it as the outermost part of one dimension, and a
loop that reads such tensors must read all of them along one and the same axis, and write along it too.
"""

from __future__ import annotations

from collections import ChainMap

from .linear import Linear
from .net import Loop, Net, NetStep, Ref


def is_independent(net: Net, divided: set[str]) -> bool:
    """Whether each sample of every output is computed from the same sample of the ``divided`` inputs.

    The batch of the net must be two at least, or there is nothing to tell it by.
    """
    carries = dict.fromkeys(divided, 0)
    for step in net.steps:
        if not any(i in carries for i in step.inputs):
            continue
        if step.host:
            batch = {net.tensors[i].shape[carries[i]] for i in step.inputs if i in carries}
            # Opaque: believed to be sample by sample if the shapes look like it.
            if any(net.tensors[o].shape[:1] != (b,) for o in step.outputs for b in batch):
                return False
            carries |= dict.fromkeys(step.outputs, 0)
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
        axes = {_batch_axis(loop, r, local[r.tensor]) for r in loop.reads if r.tensor in local}
        if not axes:
            if loop.write.tensor == step.output:
                same.append(loop)
            continue
        axis = axes.pop()
        if axes or axis is None or loop.axes[axis].reduce:
            return None
        places = [d for d, i in enumerate(loop.write.index) if axis in i.axes]
        if len(places) != 1 or not _outermost(loop.write.index[places[0]], axis, loop):
            return None
        if local.setdefault(loop.write.tensor, places[0]) != places[0]:
            return None
    dim = local.get(step.output)
    return dim if dim is not None and all(_for_every_sample(loop, dim, net) for loop in same) else None


def _for_every_sample(loop: Loop, dim: int, net: Net) -> bool:
    """Whether a loop writes the same to every sample, such as a token that is put in front of all."""
    axis = _batch_axis(loop, loop.write, dim)
    return axis is not None and all(
        axis not in index.axes or (index == Linear.axis(axis) and _repeats(net, ref.tensor, d))
        for ref in loop.reads
        for d, index in enumerate(ref.index)
    )


def _repeats(net: Net, name: str, dim: int) -> bool:
    """Whether a tensor is a constant that is the same all along a dimension."""
    values = net.constants.get(name)
    return values is not None and bool((values == values.take([0], axis=dim)).all())


def _batch_axis(loop: Loop, ref: Ref, dim: int) -> str | None:
    """The axis along which ``ref`` runs through the batch, whole samples at a time."""
    index = ref.index[dim]
    if not index.terms:
        return None
    axis = max(index.terms, key=lambda t: t[1])[0]
    elsewhere = any(axis in i.axes for d, i in enumerate(ref.index) if d != dim)
    return axis if _outermost(index, axis, loop) and not elsewhere else None


def _outermost(index: Linear, axis: str, loop: Loop) -> bool:
    """Whether the other terms stay within one step of ``axis``."""
    step = index.coefficient(axis)
    rest = Linear(tuple(t for t in index.terms if t[0] != axis), index.const)
    lo, hi = rest.bounds(loop.extents)
    return step > 0 and lo >= 0 and hi < step
