"""What a part of an operator needs: boxes pushed backwards through the affine maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..box import Box, Span, full, hull, intersect, is_empty, volume
from ..graph import Access, Op, Stage, Tensor


def accessed(access: Access, points: Box, shape: tuple[int, ...]) -> Box:
    """The smallest box of a tensor of ``shape`` that holds all in-bounds elements accessed at ``points``."""
    return intersect(tuple(index.over(points) for index in access.index), full(shape))


def points_for(stage: Stage, target: Box) -> Box:
    """A box of axis values that covers every point of ``stage`` which writes into ``target``.

    It is exact where each dimension of the target is written by one axis with coefficient one, and for a mixed-radix
    index such as ``64*h + d`` when the target is aligned to it; otherwise it is a superset (whole trailing digits).
    Reduce axes, and axes that the target does not constrain, keep their full extent. Empty if nothing is written.
    """
    points = [Span(0, axis.extent) for axis in stage.axes]
    for index, wanted in zip(stage.write.index, target, strict=True):
        lo, hi = wanted.lo - index.const, wanted.hi - index.const
        terms = sorted(((c, a) for a, c in enumerate(index.coeffs) if c), reverse=True)
        if not terms:
            if not lo <= 0 < hi:
                return tuple(Span(0, 0) for _ in stage.axes)
            continue
        for position, (c, axis) in enumerate(terms):
            # What the digits after this one can add at most.
            rest = sum(cc * (stage.axes[a].extent - 1) for cc, a in terms[position + 1 :])
            first = -((rest - lo) // c) if lo > rest else 0
            last = (hi - 1) // c
            points[axis] = Span(max(points[axis].lo, first), min(points[axis].hi, last + 1))
            if points[axis].size != 1:
                break
            lo -= c * points[axis].lo
            hi -= c * points[axis].lo
    return tuple(points)


@dataclass(frozen=True)
class OpBoxes:
    """One part of an operator: the points of each stage (empty: it does not run) and the box of each tensor.

    ``tensors`` covers inputs, private buffers and the output; the box of the output can exceed what was asked for
    where :func:`points_for` is a superset.
    """

    points: tuple[Box, ...]
    tensors: Mapping[str, Box]

    @cached_property
    def idle(self) -> frozenset[int]:
        """The stages that have no points."""
        return frozenset(i for i, points in enumerate(self.points) if is_empty(points))


def op_boxes(op: Op, tensors: Mapping[str, Tensor], target: Box) -> OpBoxes:
    """The points and boxes that computing ``target`` of ``op``'s output takes.

    ``tensors`` must hold the operator's inputs and output; private buffers are looked up in the operator. All writers
    of a tensor compute the same box of it, so that to ask for what a part computes asks for no more.
    """
    shapes = {b.name: b.shape for b in op.buffers}
    shapes |= {name: tensors[name].shape for name in (*op.inputs, *op.outputs)}
    boxes: dict[str, Box] = {op.output: target}
    points: list[Box] = []
    writers = writers_of_parts(op)
    for stage in reversed(op.stages):
        name = stage.write.tensor
        if name in boxes and name in writers:
            boxes[name] = _closed(writers.pop(name), boxes[name], shapes[name])
        wanted = boxes.get(name)
        box = points_for(stage, wanted) if wanted is not None else tuple(Span(0, 0) for _ in stage.axes)
        points.append(box)
        if is_empty(box):
            continue
        grown = hull(wanted, accessed(stage.write, box, shapes[name]))
        assert grown is not None
        boxes[name] = grown
        for read in stage.reads:
            need = accessed(read, box, shapes[read.tensor])
            merged = hull(boxes.get(read.tensor), need)
            if merged is not None and not is_empty(merged):
                boxes[read.tensor] = merged
    return OpBoxes(tuple(reversed(points)), boxes)


def beyond(op: Op, points: Sequence[Box], bounds: Mapping[str, Box]) -> tuple[int, ...]:
    """How far each read of what may be padding begins before its tensor's box in ``bounds``, and ends after it.

    Two numbers for each dimension that is read, 0 where all is within. With the extents of ``points`` and ``bounds``
    they tell all that is to be known of where the padding is.
    """
    distances: list[int] = []
    for stage, at in zip(op.stages, points, strict=True):
        for read in stage.reads:
            if read.fill is None or read.tensor not in bounds or is_empty(at):
                continue
            for index, (lo, hi) in zip(read.index, bounds[read.tensor], strict=True):
                low, high = index.over(at)
                distances += (max(lo - low, 0), max(high - hi, 0))
    return tuple(distances)


def writers_of_parts(op: Op) -> dict[str, list[Stage]]:
    """The stages that write a tensor, where several do."""
    writers: dict[str, list[Stage]] = {}
    for stage in op.stages:
        writers.setdefault(stage.write.tensor, []).append(stage)
    return {name: stages for name, stages in writers.items() if len(stages) > 1}


def _closed(writers: Sequence[Stage], wanted: Box, shape: tuple[int, ...]) -> Box:
    """The box, grown by what each writer computes besides, until none computes more."""
    while True:
        grown = wanted
        for stage in writers:
            points = points_for(stage, grown)
            if not is_empty(points):
                grown = hull(grown, accessed(stage.write, points, shape)) or grown
        if grown == wanted:
            return wanted
        wanted = grown


def not_followed(op: Op, tensors: Mapping[str, Tensor], name: str) -> frozenset[int]:
    """The dimensions of the result of ``op`` in which every part needs the same box of the input ``name``."""
    whole = full(tensors[op.output].shape)
    wanted = op_boxes(op, tensors, whole).tensors[name]
    return frozenset(
        d
        for d in range(len(whole))
        # What is padding needs none of it.
        if op_boxes(op, tensors, (*whole[:d], Span(0, 1), *whole[d + 1 :])).tensors.get(name) == wanted
    )


@dataclass(frozen=True)
class Arithmetic:
    """Arithmetic of a part: multiply-accumulates of contractions, and element operations of everything else."""

    macs: int
    elements: int


def work(op: Op, points: tuple[Box, ...]) -> Arithmetic:
    """The arithmetic in ``points`` (see :class:`OpBoxes`); movements count as no element operation."""
    macs = elements = 0
    for stage, box in zip(op.stages, points, strict=True):
        count = 0 if is_empty(box) else volume(box)
        if stage.is_contraction:
            macs += count
        elif not stage.is_movement:
            elements += count
    return Arithmetic(macs, elements)
