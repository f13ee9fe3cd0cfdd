"""Copies that only move data are folded into the accesses of their neighbours.

    q[b,s,n] = …            scores[b,h,i,j] = Σ qt[b,h,i,d] · kt[b,h,d,j]
    qt[b,h,s,d] = q[b,s,64*h+d]        becomes  Σ q[b,i,64*h+d] · k[b,j,64*h+d]

Forward, into the reads of all consumers, by composing the index maps; or backward, into the write of the producer, if
the copy is its only consumer. A fold that would split an axis of a consumer waits until the others have failed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..net.dataflow import Dataflow
from ..net.linear import CutAxis, Linear, NotAffine, SplitAxis
from ..net.net import Loop, Net, NetStep, Ref
from ..relax.nests import simplify


def fold_movements(net: Net, *, paddings_only: bool = False) -> None:
    """Fold copies until nothing folds any more. Paddings go first, so that a window and its padding meet.

    Before: any net. After: a copy is left only where a port, a host kernel or a matrix engine needs data as it lies in
    memory, or where its reader has no affine access that says the same. ``paddings_only`` leaves alone what moves data;
    copies in place are gone either way.

        t[i, j] = copy x[j, i]
        y[i, j] = exp t[i, j]       becomes      y[i, j] = exp x[j, i]
    """
    changed = True
    while changed:
        changed = False
        flow = Dataflow(net.steps)
        for step in net.steps:
            if not step.is_movement:
                continue
            users = flow.readers(step.output)
            if _spread_constant(step, users, net):
                _drop(step, users, flow)
                changed = True
                continue
            if not _pure(step, net) or (paddings_only and not _stays(step.loops[0])):
                continue
            copies = all(not s.is_opaque and all(loop.is_movement for loop in s.loops) for s in users)
            if (
                _forward(step, users, net, split=copies)  # Splitting the axes of copies costs nothing.
                or _backward(step, net, flow)
                or _forward(step, users, net, split=True)
            ):
                _drop(step, users, flow)
                changed = True
        net.steps = flow.operations
    net.drop_dead()


def _drop(step: NetStep, users: list[NetStep], flow: Dataflow[NetStep]) -> None:
    """Remove a step whose users were changed."""
    flow.remove(step)
    for user in users:
        flow.update(user)


def _stays(loop: Loop) -> bool:
    """Whether the copy pads, or leaves each element where it is."""
    source = loop.reads[0]
    return source.fill is not None or source.index == loop.write.index


def _spread_constant(step: NetStep, consumers: list[NetStep], net: Net) -> bool:
    """Give the number that ``step`` fills a tensor with to all consumers."""
    loop = step.loops[0]
    value = loop.operands[0]
    if isinstance(value, Ref) or loop.points != net.tensors[step.output].elements or step.output in net.outputs:
        return False
    reads = [r for s in consumers for p in s.loops for r in p.reads if r.tensor == step.output]
    if any(s.is_opaque for s in consumers) or any(r.fill is not None for r in reads):
        return False
    readers = [p for s in consumers for p in s.loops if any(r.tensor == step.output for r in p.reads)]
    if value == 0.0 and any(p.func == "mul" and p.combine for p in readers):
        # TVM would drop the other factor from the sum, and with it what the lower bound counts as loaded.
        return False
    for user in consumers:
        user.loops = [_with_number(p, step.output, value) for p in user.loops]
    return True


def _with_number(loop: Loop, name: str, value: float) -> Loop:
    if all(r.tensor != name for r in loop.reads):
        return loop
    operands = tuple(value if isinstance(o, Ref) and o.tensor == name else o for o in loop.operands)
    if len(operands) == 2 and loop.combine is None:
        simpler = simplify(loop.func, *operands)
        if not isinstance(simpler, tuple):
            return replace(loop, func="copy", operands=(simpler,))
    return replace(loop, operands=operands)


def _pure(step: NetStep, net: Net) -> bool:
    """Whether the step writes the whole of its output once, from another tensor of the same dtype."""
    loop = step.loops[0]
    if not loop.reads:
        return False
    source, target = net.tensors[loop.reads[0].tensor], net.tensors[step.output]
    return source.dtype == target.dtype and loop.points == target.elements


def _forward(move: NetStep, consumers: list[NetStep], net: Net, split: bool) -> bool:
    """Let all consumers read what ``move`` reads."""
    name = move.output
    if name in net.outputs or any(s.is_opaque for s in consumers) or not consumers:
        return False
    try:
        changed = [[_read_through(loop, move, net, split) for loop in s.loops] for s in consumers]
    except (NotAffine, CutAxis):
        return False
    for step, loops in zip(consumers, changed, strict=True):
        step.loops = loops
    return True


def _read_through(loop: Loop, move: NetStep, net: Net, split: bool) -> Loop:
    """``loop`` with its reads of the moved tensor replaced."""
    while True:
        try:
            operands = tuple(
                _compose(loop, o, move.loops[0], net) if isinstance(o, Ref) and o.tensor == move.output else o
                for o in loop.operands
            )
            return replace(loop, operands=operands)
        except SplitAxis as request:
            if not split:
                raise NotAffine("needs a split") from request
            loop = loop.split(request.axis, request.factor)


def _compose(loop: Loop, ref: Ref, move: Loop, net: Net) -> Ref:
    source = move.reads[0]
    fill = _joint_fill(loop, ref, move, net)
    if fill is not None and _is_stationary(loop, ref, net):
        raise NotAffine("a matrix engine reads its stationary operand without padding")
    values = invert(move.write, move.extents, ref.index, loop.extents)
    result = Ref(source.tensor, tuple(i.substitute(values) for i in source.index), fill)
    if loop.is_contraction and _slides(loop, result) and not _slides(loop, ref):
        raise NotAffine("a window would run along the innermost dimension")
    if loop.combine and result.fill is not None and result.contiguous_axes != ref.contiguous_axes:
        raise NotAffine("a padded window would lose its contiguous axis")
    return result


def _is_stationary(loop: Loop, ref: Ref, net: Net) -> bool:
    """Whether ``ref`` will be the second operand of a matrix product: it is now, and the first is no weight."""
    return loop.is_matrix and ref is loop.reads[1] and loop.reads[0].tensor not in net.constants


def _slides(loop: Loop, ref: Ref) -> bool:
    """Whether a window runs along the contiguous dimension: spatial and reduced axes that are not its digits."""
    if not ref.index or len({loop.axes[a].reduce for a in ref.index[-1].axes}) < 2:
        return False
    weight = 1
    for c, a in sorted((c, a) for a, c in ref.index[-1].terms):
        if c != weight:
            return True
        weight *= loop.axes[a].size
    return False


def _joint_fill(loop: Loop, ref: Ref, move: Loop, net: Net) -> float | None:
    """The fill of the composed read; :class:`NotAffine` if one read cannot say it."""
    source = move.reads[0]
    if source.fill is None and ref.fill is None:
        return None
    if source.fill is not None and ref.fill is not None and source.fill != ref.fill:
        raise NotAffine("two different fills")
    if source.fill is not None and not _absorbs(loop, source.fill):
        raise NotAffine("the consumer does not absorb the padding")
    if source.fill is not None and loop.is_contraction and not _finite(loop, ref, net):
        raise NotAffine("padding times what is not finite is not zero")
    if ref.fill is not None:
        # What is outside of the moved tensor must be outside of its source.
        shape, origin = net.tensors[ref.tensor].shape, net.tensors[source.tensor].shape
        extents = loop.extents
        for dim, index in enumerate(ref.index):
            lo, hi = index.bounds(extents)
            if lo >= 0 and hi < shape[dim]:
                continue
            axis = move.write.index[dim].single
            places = [(d, i) for d, i in enumerate(source.index) if axis is not None and axis in i.axes]
            if len(places) != 1:
                raise NotAffine("a guarded dimension is taken apart")
            d, i = places[0]
            if i.terms != ((axis, 1),) or i.const > 0 or shape[dim] + i.const < origin[d]:
                raise NotAffine("a guarded dimension is cropped")
    return source.fill if source.fill is not None else ref.fill


def _finite(loop: Loop, ref: Ref, net: Net) -> bool:
    """Whether the constants that ``ref`` is multiplied by are finite: products with zeros may then be left out."""
    factors = (net.constants.get(read.tensor) for read in loop.reads if read is not ref)
    return all(np.isfinite(factor).all() for factor in factors if factor is not None)


def _absorbs(loop: Loop, fill: float) -> bool:
    """Whether reading ``fill`` adds nothing to the loop's result."""
    if loop.combine == "sum":
        return fill == 0 and loop.func in ("mul", "copy")
    return loop.func == "copy" and (loop.combine, fill) in (("max", -math.inf), ("min", math.inf))


def invert(
    access: Ref, sizes: Mapping[str, int], index: tuple[Linear, ...], extents: Mapping[str, int]
) -> dict[str, Linear]:
    """The axis values at which ``access`` touches ``index``, whose own axes have ``extents``.

    Each dimension of ``access`` must be a dense mixed radix of its axes; each axis must occur once.
    """
    values: dict[str, Linear] = {}
    for dimension, position in zip(access.index, index, strict=True):
        digits = sorted(((c, a) for a, c in dimension.terms), reverse=True)
        rest = position + Linear((), -dimension.const)
        if not digits:
            if rest != Linear():
                raise NotAffine("outside of what is written")
            continue
        weight = 1
        for c, a in reversed(digits):
            if c != weight or a in values:
                raise NotAffine("not a mixed radix")
            values[a] = Linear()
            weight *= sizes[a]
        for c, a in digits:
            if c == 1:
                values[a] = rest
            else:
                values[a], rest = rest.divide(c, extents)
    if any(a not in values for a, n in sizes.items() if n > 1):
        raise NotAffine("an axis that is not in the access")
    return values


def _backward(move: NetStep, net: Net, flow: Dataflow[NetStep]) -> bool:
    """Let the producer of what ``move`` reads write where ``move`` writes."""
    loop = move.loops[0]
    source = loop.reads[0]
    name = source.tensor
    producer = flow.writer(name)
    if producer is None or producer.is_opaque or name in net.outputs or source.fill is not None:
        return False
    if loop.points != net.tensors[name].elements or flow.reader_count(name) != 1:
        return False
    try:
        changed = [write_through(p, source, loop) if p.write.tensor == name else p for p in producer.loops]
    except (NotAffine, CutAxis, SplitAxis):
        return False
    if any(r.tensor == name for p in producer.loops for r in p.reads):
        return False
    producer.loops = changed
    producer.outputs = (move.output,)
    producer.origin = tuple(dict.fromkeys((*producer.origin, *move.origin)))
    flow.update(producer)
    return True


def write_through(producer: Loop, source: Ref, move: Loop) -> Loop:
    """``producer``, which writes what ``move`` reads as ``source``, writing where ``move`` does.

    ``move`` must read all that ``producer`` writes.
    """
    values = invert(source, move.extents, producer.write.index, producer.extents)
    write = Ref(move.write.tensor, tuple(i.substitute(values) for i in move.write.index))
    if any(c < 0 for i in write.index for _, c in i.terms):
        raise NotAffine("a write that runs backwards")
    kept = [a in write.contiguous_axes for a in producer.write.contiguous_axes if producer.axes[a].size > 1]
    if producer.combine is not None and not all(kept):
        raise NotAffine("the innermost dimension would no longer be contiguous")
    return replace(producer, write=write)
