"""Many boxes at once: :mod:`girih.ir.semantics.region` and the tile walk on arrays, for loops over thousands of tiles.

Each function is the array twin of one on single boxes and must agree with it (a test compares them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..box import Affine, Box, Span, full
from ..graph import Access, Op, Stage, Tensor
from .region import writers_of_parts

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Boxes:
    """``spans[i, d]`` is (lo, hi) of dimension ``d`` of box ``i``; boxes that are not ``present`` hold nothing."""

    spans: Int
    present: Bool

    def __len__(self) -> int:
        return len(self.present)

    @property
    def sizes(self) -> Int:
        """The extents, 0 in boxes that are not present: shape (boxes, dimensions)."""
        return np.where(self.present[:, None], self.spans[:, :, 1] - self.spans[:, :, 0], 0)

    @property
    def volumes(self) -> Int:
        # Dimension by dimension: a reduction along so short an axis takes several times as long.
        volumes = self.present.astype(np.int64)
        for d in range(self.spans.shape[1]):
            volumes *= self.spans[:, d, 1] - self.spans[:, d, 0]
        return volumes

    def box(self, index: int) -> Box:
        """One box; empty spans if it is not present."""
        if not self.present[index]:
            return tuple(Span(0, 0) for _ in range(self.spans.shape[1]))
        return tuple(map(Span._make, self.spans[index].tolist()))

    def select(self, rows: Int | Bool) -> Boxes:
        return Boxes(self.spans[rows], self.present[rows])

    def hull(self) -> Box | None:
        """The smallest box that contains all of them."""
        if not self.present.any():
            return None
        spans = self.spans[self.present]
        lows, highs = spans[:, :, 0].min(axis=0), spans[:, :, 1].max(axis=0)
        return tuple(Span(int(lo), int(hi)) for lo, hi in zip(lows, highs, strict=True))


class SortedBoxes:
    """Boxes by where they begin in the dimension in which most of them differ, so that few are looked at.

    None of them is empty, and they have a dimension at least.
    """

    def __init__(self, boxes: Boxes) -> None:
        lows = boxes.spans[:, :, 0]
        self._dim = max(range(lows.shape[1]), key=lambda dim: len(np.unique(lows[:, dim])))
        self._order = np.argsort(lows[:, self._dim], kind="stable")
        self._spans = boxes.spans[self._order]
        self._begins = self._spans[:, self._dim, 0]

    def within(self, box: Box) -> Int:
        """The numbers of those that lie in ``box``, in no order."""
        first, last = np.searchsorted(self._begins, box[self._dim]).tolist()
        spans = self._spans[first:last]
        holds = np.ones(last - first, dtype=np.bool_)
        # Dimension by dimension: a reduction along so short an axis takes several times as long.
        for dim, (lo, hi) in enumerate(box):
            holds &= (spans[:, dim, 0] >= lo) & (spans[:, dim, 1] <= hi)
        return self._order[first:last][holds]


def stack(boxes: Sequence[Box], rank: int) -> Boxes:
    """Boxes of one rank as arrays; empty boxes are not present."""
    spans = np.array(boxes, dtype=np.int64).reshape(len(boxes), rank, 2)
    return Boxes(spans, _non_empty(spans))


def concatenate(parts: Sequence[Boxes]) -> Boxes:
    return Boxes(np.concatenate([p.spans for p in parts]), np.concatenate([p.present for p in parts]))


def tile_walk(box: Box, sizes: tuple[int, ...], order: tuple[int, ...]) -> Boxes:
    """The array twin of :func:`girih.ir.semantics.cell.tile_boxes`."""
    cuts = [_cut(box[d], sizes[d]) for d in order]
    counts = [len(cut) for cut in cuts]
    loops = np.empty((*counts, len(box), 2), dtype=np.int64)
    for place, (d, cut) in enumerate(zip(order, cuts, strict=True)):
        loops[..., d, :] = cut.reshape(*(-1 if i == place else 1 for i in range(len(cuts))), 2)
    count = prod(counts)
    return Boxes(loops.reshape(count, len(box), 2), np.ones(count, dtype=np.bool_))


def op_boxes_many(op: Op, tensors: Mapping[str, Tensor], targets: Boxes) -> tuple[list[Boxes], dict[str, Boxes]]:
    """The array twin of :func:`girih.ir.semantics.region.op_boxes`: points of each stage, and boxes of each tensor."""
    shapes = {b.name: b.shape for b in op.buffers}
    shapes |= {name: tensors[name].shape for name in (*op.inputs, *op.outputs)}
    boxes = {op.output: targets}
    points: list[Boxes] = []
    writers = writers_of_parts(op)
    for stage in reversed(op.stages):
        name = stage.write.tensor
        if name in boxes and name in writers:
            boxes[name] = _closed(writers.pop(name), boxes[name], shapes[name])
        wanted = boxes.get(name)
        if wanted is None:
            nothing = np.zeros((len(targets), len(stage.axes), 2), dtype=np.int64)
            points.append(Boxes(nothing, np.zeros(len(targets), dtype=np.bool_)))
            continue
        stage_points = _points_for(stage, wanted)
        points.append(stage_points)
        boxes[name] = hull_many(wanted, _accessed(stage.write, stage_points, shapes[name]))
        for read in stage.reads:
            need = _accessed(read, stage_points, shapes[read.tensor])
            known = boxes.get(read.tensor)
            boxes[read.tensor] = need if known is None else hull_many(known, need)
    return points[::-1], boxes


def _closed(writers: Sequence[Stage], wanted: Boxes, shape: tuple[int, ...]) -> Boxes:
    """The boxes, grown by what each writer computes besides, until none computes more."""
    while True:
        grown = wanted
        for stage in writers:
            grown = hull_many(grown, _accessed(stage.write, _points_for(stage, grown), shape))
        if np.array_equal(grown.sizes, wanted.sizes):
            return wanted
        wanted = grown


def stationary_walk(op: Op, tensors: Mapping[str, Tensor], points: Boxes, reduce: tuple[int, ...]) -> Boxes:
    """The boxes of the anchor's right operand, one for each tile in ``points`` and, inside it, each reduce tile.

    ``points`` are those of the anchor stage. Reduce axes are cut by ``reduce``, row-major; all tiles have the same
    reduce extents, because no reduce axis depends on the tile.
    """
    assert op.contraction is not None
    stage = op.stages[op.contraction]
    shapes = {b.name: b.shape for b in op.buffers} | {name: tensors[name].shape for name in op.inputs}
    axes = [a for a, axis in enumerate(stage.axes) if axis.reduce]
    cuts = tile_walk(tuple(full((stage.axes[a].extent,))[0] for a in axes), reduce, tuple(range(len(axes))))
    spans = np.repeat(points.spans, len(cuts), axis=0)
    spans[:, axes] = np.tile(cuts.spans, (len(points), 1, 1))
    tile_points = Boxes(spans, np.repeat(points.present, len(cuts)))
    right = stage.reads[1]
    return _accessed(right, tile_points, shapes[right.tensor])


def beyond_many(op: Op, points: Sequence[Boxes], bounds: Mapping[str, Boxes | Box]) -> Int:
    """The array twin of :func:`girih.ir.semantics.region.beyond`: a row for each part, without columns of zeros alone.

    ``bounds`` may have one box of a tensor for all parts.
    """
    columns: list[Int] = []
    for stage, at in zip(op.stages, points, strict=True):
        for read in stage.reads:
            bound = bounds.get(read.tensor)
            if read.fill is None or bound is None:
                continue
            spans = bound.spans if isinstance(bound, Boxes) else np.array([bound], dtype=np.int64)
            for d, index in enumerate(read.index):
                low, high = _over(index, at)
                for far in (spans[:, d, 0] - low, high - spans[:, d, 1]):
                    column = np.where(at.present, np.maximum(far, 0), 0)
                    if column.any():
                        columns.append(column)
    return np.stack(columns, axis=1) if columns else np.zeros((len(points[0]), 0), dtype=np.int64)


def _cut(span: Span, size: int) -> Int:
    lows = np.arange(span.lo, span.hi, size, dtype=np.int64)
    cuts = np.empty((len(lows), 2), dtype=np.int64)
    cuts[:, 0] = lows
    np.minimum(lows + size, span.hi, out=cuts[:, 1])
    return cuts


def _non_empty(spans: Int) -> Bool:
    present = np.ones(len(spans), dtype=np.bool_)
    for d in range(spans.shape[1]):
        present &= spans[:, d, 1] > spans[:, d, 0]
    return present


def _over(index: Affine, points: Boxes) -> tuple[Int, Int]:
    """The array twin of :meth:`girih.ir.box.Affine.over`: lowest values, and one more than the highest."""
    if not index.terms:
        low = np.full(len(points), index.const, dtype=np.int64)
        return low, low + 1
    if len(index.terms) == 1 and index.terms[0][1] == 1:
        axis, _ = index.terms[0]
        return points.spans[:, axis, 0] + index.const, points.spans[:, axis, 1] + index.const
    terms = [(c, points.spans[:, axis, 0], points.spans[:, axis, 1] - 1) for axis, c in index.terms]
    low = sum([c * (first if c > 0 else last) for c, first, last in terms], start=np.int64(index.const))
    high = sum([c * (last if c > 0 else first) for c, first, last in terms], start=np.int64(index.const + 1))
    return np.asarray(low), np.asarray(high)


def _accessed(access: Access, points: Boxes, shape: tuple[int, ...]) -> Boxes:
    spans = np.empty((len(points), len(shape), 2), dtype=np.int64)
    for d, (index, extent) in enumerate(zip(access.index, shape, strict=True)):
        low, high = _over(index, points)
        np.maximum(low, 0, out=spans[:, d, 0])
        np.minimum(high, extent, out=spans[:, d, 1])
    return Boxes(spans, points.present & _non_empty(spans))


def _points_for(stage: Stage, target: Boxes) -> Boxes:
    count = len(target)
    points = np.zeros((count, len(stage.axes), 2), dtype=np.int64)
    points[:, :, 1] = [axis.extent for axis in stage.axes]
    present = target.present.copy()
    for d, index in enumerate(stage.write.index):
        lo, hi = target.spans[:, d, 0] - index.const, target.spans[:, d, 1] - index.const
        terms = sorted(((c, a) for a, c in index.terms), reverse=True)
        if len(terms) == 1:
            # Most are, and are told exactly: there is no digit after it.
            ((c, axis),) = terms
            spans = points[:, axis]
            if c == 1:
                np.maximum(spans[:, 0], lo, out=spans[:, 0])
                np.minimum(spans[:, 1], hi, out=spans[:, 1])
                continue
            np.maximum(spans[:, 0], -(-lo // c), out=spans[:, 0])
            np.minimum(spans[:, 1], -(-hi // c), out=spans[:, 1])
            continue
        if not terms:
            present &= (lo <= 0) & (hi > 0)
            continue
        cover_digits(points, terms, [axis.extent for axis in stage.axes], lo, hi)
    return Boxes(points, present & _non_empty(points))


def cover_digits(points: Int, terms: Sequence[tuple[int, int]], extents: Sequence[int], lo: Int, hi: Int) -> None:
    """Narrow ``points`` to what writes positions from ``lo`` to ``hi``, in place; shape (boxes, axes, 2).

    ``terms`` are (coefficient, axis), the largest coefficient first: axes of ``extents`` that write a position
    together, like the digits of a number. Each is narrowed as long as those before it have one value left.
    """
    exact = np.ones(len(points), dtype=np.bool_)
    for position, (c, axis) in enumerate(terms):
        rest = sum(cc * (extents[a] - 1) for cc, a in terms[position + 1 :])
        first = np.where(lo > rest, -((rest - lo) // c), 0)
        last = (hi - 1) // c
        spans = points[:, axis]
        spans[:, 0] = np.where(exact, np.maximum(spans[:, 0], first), spans[:, 0])
        spans[:, 1] = np.where(exact, np.minimum(spans[:, 1], last + 1), spans[:, 1])
        exact &= spans[:, 1] - spans[:, 0] == 1
        lo, hi = lo - c * spans[:, 0], hi - c * spans[:, 0]


def hull_many(a: Boxes, b: Boxes) -> Boxes:
    """The array twin of :func:`girih.ir.box.hull`."""
    spans = np.empty_like(a.spans)
    np.minimum(a.spans[:, :, 0], b.spans[:, :, 0], out=spans[:, :, 0])
    np.maximum(a.spans[:, :, 1], b.spans[:, :, 1], out=spans[:, :, 1])
    only_a, only_b = a.present & ~b.present, b.present & ~a.present
    spans[only_a] = a.spans[only_a]
    spans[only_b] = b.spans[only_b]
    return Boxes(spans, a.present | b.present)
