"""The data of the tiling model for one operator and one box of its result: see :mod:`.model` for the symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...ir.graph import Op
from ...ir.plan import Tile
from ..cost.operator import OpCost, Rates, Weights
from .candidates import Reduction, Shape

Float = NDArray[np.float64]

DEPTHS = (1, 2, 4, 8)
"""Versions of private buffers that tiles are chosen for; the pipeline decides how many there are in the end."""
WEIGHT_DEPTHS = (1, 2, 3)
"""Versions of the weights that tiles are chosen for, as in the pipeline."""
LEADING = 4
"""By how much less the last tile of a vector operator counts where the next operator's tiles wait for some of it.

An assumption, also that of segmentation: an operator is passed on in so many parts.
"""


@dataclass(frozen=True)
class Mode:
    """One b of B."""

    reduction: Reduction
    depth: int
    weight_depth: int


@dataclass(frozen=True)
class TilingProblem:
    """The sets A and B and the data C_ab of operator ``op`` on ``engine``, for one box.

    ``sums`` and ``weights``: I and W. ``element``: bytes of an element of the stationary operand.
    """

    op: str
    engine: str
    shapes: tuple[Shape, ...]
    modes: tuple[Mode, ...]
    cycles: Float
    sums: int
    weights: int
    element: int
    alignment: int

    def fits(self, shape: Shape, mode: Mode) -> bool:
        """(2) and (3)."""
        return shape.scratch.total(mode.depth) <= self.sums and shape.columns <= self.column_limit(mode)

    def column_limit(self, mode: Mode) -> int:
        """The right side of (3), in elements."""
        if not self.element:
            return 0
        # Each version begins at a multiple of the alignment.
        version = self.weights // mode.weight_depth // self.alignment * self.alignment
        return version // (mode.reduction.points * self.element)

    def tile(self, a: int, b: int) -> Tile:
        """Shape a in mode b."""
        shape, mode = self.shapes[a], self.modes[b]
        return Tile(self.op, shape.sizes, shape.order, mode.reduction.sizes, self.engine, mode.depth, mode.weight_depth)


def tile_modes(op: Op, cost: OpCost, cuts: Sequence[Reduction]) -> tuple[Mode, ...]:
    """B, for these cuts of the reduction."""
    matrix = cost.contraction is not None
    return tuple(
        Mode(cut, depth, versions)
        for cut in cuts
        for depth in (DEPTHS if matrix and op.buffers else DEPTHS[:1])
        for versions in (WEIGHT_DEPTHS if matrix else WEIGHT_DEPTHS[:1])
    )


class ShapeTable:
    """The shapes as arrays."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        def column(values: Sequence[int]) -> Float:
            return np.array(values, dtype=np.float64)

        self.tiles = column([s.tiles for s in shapes])
        self.changes = column([s.changes for s in shapes])
        self.sets = column([s.sets for s in shapes])
        self.columns = column([s.columns for s in shapes])
        self.rows = column([s.rows for s in shapes])
        self.row_loads = column([s.row_loads for s in shapes])
        self.matrix = column([s.work.matrix for s in shapes])
        self.vector = column([s.work.vector for s in shapes])
        self.instructions = column([s.work.matrix_instructions for s in shapes])
        self.fill = column([s.work.matrix_fill for s in shapes])
        self.sums = column([s.work.sums for s in shapes])
        axes = max((len(s.apart) for s in shapes), default=0)
        self.apart = [column([s.apart[a] if s.apart else 0 for s in shapes]) for a in range(axes)]

    def matrix_cycles(self, cut: Reduction, issue: Float) -> Float:
        """M: each part of the reduction issues the instructions (in ``issue`` cycles) and fills the array again.

        Where each has one position of an axis, what finds nothing there but padding is left out.
        """
        again = issue + self.fill
        cycles = self.matrix + (cut.count - 1) * again
        for axis, positions in cut.apart:
            if axis < len(self.apart):
                known = self.apart[axis] > 0
                alone = self.apart[axis] + (cut.count - positions) * again
                cycles = np.where(known, np.minimum(cycles, alone), cycles)
        return cycles

    def loads(self, reduce_tiles: int, versions: int) -> Float:
        """How often a tile of weights is loaded, when ``versions`` are held and replaced in turn."""
        if reduce_tiles > versions:
            return self.tiles * reduce_tiles
        held = self.sets * reduce_tiles <= versions
        return np.where(held, self.sets, self.changes) * reduce_tiles


def cycles(
    cost: OpCost, table: ShapeTable, mode: Mode, weights: Weights, rates: Rates, capacity: int, *, alone: bool = True
) -> Float:
    """C_ab of all shapes for one mode; ``capacity`` of the weight memory in bytes; ``alone``: whatever is next waits
    for the last tile."""
    if cost.contraction is None:
        return np.ceil(table.vector + table.vector / table.tiles / (1 if alone else LEADING))
    parts, issue = mode.reduction.count, table.instructions * cost.matrix.issue
    # Sums are written for each part of the reduction, and read again for all but the first.
    matrix = np.maximum(table.matrix_cycles(mode.reduction, issue), parts * issue + (2 * parts - 1) * table.sums)
    serial = (matrix + table.vector + table.tiles * cost.latency) / mode.depth
    size = table.columns * (mode.reduction.points * cost.element)
    number = table.loads(mode.reduction.count, mode.weight_depth)
    row = table.columns * cost.element
    busy, full = weights.load(size, rates, cost.in_bursts(size, row, rates), cost.spread(size, row, weights))
    moved = number * busy
    if table.rows.any():
        # All cores want the same rows.
        rows_busy, rows_full = Weights(weights.cores, weights.cores).load(table.rows, rates)
        moved = moved + np.where(table.rows > 0, table.row_loads * rows_busy, 0.0)
        matrix = np.maximum(matrix, np.where(table.rows > 0, (matrix + table.row_loads * rows_full) / 2, 0.0))
    time = np.maximum.reduce([matrix, table.vector, serial, moved, (matrix + number * full) / mode.weight_depth])
    first = np.where(2 * size * mode.weight_depth > capacity, full, 0.0)
    return np.ceil(time + table.vector / table.tiles + first)
