"""Cells of many cuts at once: which share of a result each of them has, as arrays.

A *row* is one cell (instance, core) of one cut. Rows of a cut are neighbours, so that a maximum over the cells of each
cut is one reduction. Most cells are copies of one another, shifted; :func:`representative_cells` are those at the
corners and in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

import numpy as np

from ...ir.box import full, part
from ...ir.semantics.box_arrays import Boxes, Int
from .splits import SegmentSplit, Splits

MOST_SPLITS = 2
"""Of cores, and usually of instances, in the cuts that rows are made of. Chosen, not measured."""

Coordinates = tuple[int, ...]


@dataclass(frozen=True)
class BatchedCells:
    """``dims[c, s]`` and ``parts[c, s]``: the splits of cut c (dimension -1: none), those of cores last.

    ``coordinates[r, s]`` is the part of row r, ``split_of[r]`` its cut, and ``first_cell[c]`` the first row of a cut.
    """

    dims: Int
    parts: Int
    coordinates: Int
    split_of: Int
    first_cell: Int

    @cached_property
    def instances(self) -> Int:
        """How many each cut has."""
        return np.prod(self.parts[:, :-MOST_SPLITS], axis=1)

    def columns_first(self, rank: int) -> Int:
        """For each cut of a result of so many dimensions, as :func:`~.splits.columns_first`."""
        dims, parts = self.dims[:, :-MOST_SPLITS], self.parts[:, :-MOST_SPLITS]
        used = dims >= 0
        outermost = np.arange(len(dims)), np.argmax(used, axis=1)
        return np.where((np.sum(used, axis=1) > 1) & (dims[outermost] == rank - 1), parts[outermost], 1)

    @cached_property
    def cores(self) -> Int:
        """How many each cut uses."""
        return np.prod(self.parts[:, -MOST_SPLITS:], axis=1)

    def core_groups(self) -> Int:
        """A number for each cut, equal for those that are cut over the cores in the same way."""
        over_cores = np.concatenate([self.dims[:, -MOST_SPLITS:], self.parts[:, -MOST_SPLITS:]], axis=1)
        return np.unique(over_cores, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def largest(self, values: Int) -> Int:
        """For each cut, the largest value among its rows."""
        return np.maximum.reduceat(values, self.first_cell)

    def select(self, splits: Int) -> tuple[BatchedCells, Int]:
        """The rows of some cuts (indices, ascending), and their indices among the rows before."""
        counts = np.diff(np.append(self.first_cell, len(self.split_of)))
        kept = np.flatnonzero(np.isin(self.split_of, splits))
        sizes = counts[splits]
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        numbers = np.repeat(np.arange(len(splits), dtype=np.int64), sizes)
        return BatchedCells(self.dims[splits], self.parts[splits], self.coordinates[kept], numbers, first), kept


def batched_cells(splits: Sequence[SegmentSplit], coordinates: Sequence[Sequence[Coordinates]]) -> BatchedCells:
    """The rows with these ``coordinates`` of each cut."""
    width = max([MOST_SPLITS, *(len(c.instances) for c in splits)])
    slots = [(*_padded(c.instances, width), *_padded(c.cores)) for c in splits]
    counts = np.array([len(d) for d in coordinates], dtype=np.int64)
    return BatchedCells(
        np.array([[dim for dim, _ in s] for s in slots], dtype=np.int64),
        np.array([[parts for _, parts in s] for s in slots], dtype=np.int64),
        np.array([(0,) * (width + MOST_SPLITS - len(d)) + d for of_cut in coordinates for d in of_cut], dtype=np.int64),
        np.repeat(np.arange(len(splits), dtype=np.int64), counts),
        np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64),
    )


def _padded(splits: Splits, width: int = MOST_SPLITS) -> list[tuple[int, int]]:
    """As many (dimension, parts); the last one is nearest to the right, as in the row-major order of parts."""
    return [*[(-1, 1)] * (width - len(splits)), *((s.dim, s.parts) for s in splits)]


CORNER_CELLS = 3
"""The first rows of :func:`representative_cells` are cores 0, the last along the inner split, and the last of all."""


def representative_cells(split: SegmentSplit, shape: tuple[int, ...]) -> list[Coordinates]:
    """A large instance on cores at the corners and on a large core, and the first and the last cell of all.

    Of these, the corners are always there, and the others if they are other cells.
    Large means the largest part of each dimension (they differ by one), as near to the middle as there is one; of two
    the second, because windows that do not divide an extent reach further there.
    ``shape`` is that of the root operator's result.
    """
    extents = list(shape)
    large: list[int] = []
    slots = [*_padded(split.instances), *_padded(split.cores)]
    for dim, parts in slots:
        number, size = _large_part(extents[dim] if dim >= 0 else 1, parts)
        large.append(number)
        if dim >= 0:
            extents[dim] = size
    outer, inner = slots[-2][1], slots[-1][1]
    instance = tuple(large[:-MOST_SPLITS])
    corners = [(*instance, 0, 0), (*instance, 0, inner - 1), (*instance, outer - 1, inner - 1)]
    first, last = (0,) * len(slots), tuple(parts - 1 for _, parts in slots)
    others = dict.fromkeys(((*instance, large[-2], large[-1]), first, last))
    return [*corners, *(cell for cell in others if cell not in corners)]


@cache
def _large_part(extent: int, parts: int) -> tuple[int, int]:
    """A largest part as near to the middle as there is one, of two the second; and its size."""
    sizes = [part(extent, parts, i).size for i in range(parts)]
    return min(range(parts), key=lambda i: (-sizes[i], abs(2 * i + 1 - parts), -i)), max(sizes)


def middle_cells(split: SegmentSplit) -> list[Coordinates]:
    """The middle cell as each of the corners: it fits, or the split does not."""
    slots = [*_padded(split.instances), *_padded(split.cores)]
    return [tuple(parts // 2 for _, parts in slots)] * CORNER_CELLS


def all_cells(split: SegmentSplit) -> list[Coordinates]:
    """Every cell."""
    slots = [*_padded(split.instances), *_padded(split.cores)]
    return list(product(*(range(parts) for _, parts in slots)))


def owned_boxes(cells: BatchedCells, shape: tuple[int, ...], followed: Mapping[int, int | None]) -> Boxes:
    """The array twin of :func:`girih.ir.semantics.cell.shard`: the share of each row in a result of ``shape``."""
    count = len(cells.split_of)
    spans = np.tile(np.array(full(shape), dtype=np.int64).reshape(1, len(shape), 2), (count, 1, 1))
    present = np.ones(count, dtype=np.bool_)
    for slot in range(cells.dims.shape[1]):
        dims, parts, digit = (
            cells.dims[cells.split_of, slot],
            cells.parts[cells.split_of, slot],
            cells.coordinates[:, slot],
        )
        for root_dim in np.unique(dims).tolist():
            if root_dim < 0:
                continue
            splits_dim = dims == root_dim
            dim = followed.get(root_dim)
            if dim is None:
                present &= ~(splits_dim & (digit > 0))
                continue
            lo, hi = spans[:, dim, 0].copy(), spans[:, dim, 1].copy()
            size = hi - lo
            spans[:, dim, 0] = np.where(splits_dim, lo + size * digit // parts, lo)
            spans[:, dim, 1] = np.where(splits_dim, lo + size * (digit + 1) // parts, hi)
    present &= np.all(spans[:, :, 1] > spans[:, :, 0], axis=1)
    return Boxes(spans, present)
