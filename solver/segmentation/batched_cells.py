"""Cells of many cuts at once: which share of a result each of them has, as arrays.

A *row* is one cell (instance, core) of one cut. Rows of a cut are neighbours, so that a maximum over the cells of each
cut is one reduction. Most cells are copies of one another, shifted; :func:`representatives` are those at the corners
and in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ...ir.box import full, part
from ...ir.semantics.box_arrays import Boxes, Int
from .splits import Cut, Splits

MOST_SPLITS = 2
"""Of instances, or of cores, in the cuts that rows are made of."""
SLOTS = 2 * MOST_SPLITS
"""Splits of a cut: two for the instances, then two for the cores."""

Digits = tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """``dims[c, s]`` and ``parts[c, s]``: the splits of cut c (dimension -1: none). ``digits[r, s]``: row r's part.

    ``cut[r]`` is the cut of a row and ``first[c]`` the first row of a cut.
    """

    dims: Int
    parts: Int
    digits: Int
    cut: Int
    first: Int

    def most(self, values: Int) -> Int:
        """For each cut, the largest value among its rows."""
        return np.maximum.reduceat(values, self.first)

    def select(self, cuts: Int) -> tuple[Rows, Int]:
        """The rows of some cuts (indices, ascending), and their indices among the rows before."""
        counts = np.diff(np.append(self.first, len(self.cut)))
        kept = np.flatnonzero(np.isin(self.cut, cuts))
        sizes = counts[cuts]
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        numbers = np.repeat(np.arange(len(cuts), dtype=np.int64), sizes)
        return Rows(self.dims[cuts], self.parts[cuts], self.digits[kept], numbers, first), kept


def rows(cuts: Sequence[Cut], digits: Sequence[Sequence[Digits]]) -> Rows:
    """The rows with these ``digits`` of each cut."""
    slots = [(*_padded(c.instances), *_padded(c.cores)) for c in cuts]
    counts = np.array([len(d) for d in digits], dtype=np.int64)
    return Rows(
        np.array([[dim for dim, _ in s] for s in slots], dtype=np.int64).reshape(-1, SLOTS),
        np.array([[parts for _, parts in s] for s in slots], dtype=np.int64).reshape(-1, SLOTS),
        np.array([d for of_cut in digits for d in of_cut], dtype=np.int64).reshape(-1, SLOTS),
        np.repeat(np.arange(len(cuts), dtype=np.int64), counts),
        np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64),
    )


def _padded(splits: Splits) -> list[tuple[int, int]]:
    """As many (dimension, parts); the last one is nearest to the right, as in the row-major order of parts."""
    return [*[(-1, 1)] * (MOST_SPLITS - len(splits)), *((s.dim, s.parts) for s in splits)]


CORNERS = 3
"""The first rows of :func:`representatives` are cores 0, the last along the inner split, and the last of all."""


def representatives(cut: Cut, shape: tuple[int, ...]) -> list[Digits]:
    """A large instance on cores at the corners and on a large core, and the first and the last cell of all.

    Large means the largest part of each dimension (they differ by one), as near to the middle as there is one; of two
    the second, because windows that do not divide an extent reach further there.
    ``shape`` is that of the leader's result.
    """
    extents = list(shape)
    large: list[int] = []
    slots = [*_padded(cut.instances), *_padded(cut.cores)]
    for dim, parts in slots:
        extent = extents[dim] if dim >= 0 else 1
        sizes = [part(extent, parts, i).size for i in range(parts)]
        large.append(min(range(parts), key=lambda i, n=parts, of=sizes: (-of[i], abs(2 * i + 1 - n), -i)))
        if dim >= 0:
            extents[dim] = max(sizes)
    outer, inner = slots[2][1], slots[3][1]
    cores = [(0, 0), (0, inner - 1), (outer - 1, inner - 1), (large[2], large[3])]
    last = (slots[0][1] - 1, slots[1][1] - 1, outer - 1, inner - 1)
    return [*((large[0], large[1], *core) for core in cores), (0, 0, 0, 0), last]


def all_cells(cut: Cut) -> list[Digits]:
    """Every cell."""
    slots = [*_padded(cut.instances), *_padded(cut.cores)]
    return list(product(*(range(parts) for _, parts in slots)))


def shares(rows: Rows, shape: tuple[int, ...], follow: Mapping[int, int | None]) -> Boxes:
    """The array twin of :func:`girih.ir.semantics.cell.share`: the share of each row in a result of ``shape``."""
    count = len(rows.cut)
    spans = np.tile(np.array(full(shape), dtype=np.int64).reshape(1, len(shape), 2), (count, 1, 1))
    present = np.ones(count, dtype=np.bool_)
    for slot in range(SLOTS):
        dims, parts, digit = rows.dims[rows.cut, slot], rows.parts[rows.cut, slot], rows.digits[:, slot]
        for leader_dim in np.unique(dims).tolist():
            if leader_dim < 0:
                continue
            mine = dims == leader_dim
            dim = follow.get(leader_dim)
            if dim is None:
                present &= ~(mine & (digit > 0))
                continue
            lo, hi = spans[:, dim, 0].copy(), spans[:, dim, 1].copy()
            size = hi - lo
            spans[:, dim, 0] = np.where(mine, lo + size * digit // parts, lo)
            spans[:, dim, 1] = np.where(mine, lo + size * (digit + 1) // parts, hi)
    present &= np.all(spans[:, :, 1] > spans[:, :, 0], axis=1)
    return Boxes(spans, present)
