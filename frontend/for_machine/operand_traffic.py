"""What the operands of a product cost on their way to the cores, if its reduction is cut into parts.

A core holds of the streamed operand what its part of the result needs, over the whole of the reduction; the weights
stream past it. Where little of the result fits so, the weights are loaded again and again:

    cells of the result x bytes of the weights.

With the reduction in p parts, more of the result fits, and the weights are loaded less often, for p - 1 passes of the
sums to the shared memory and back. The estimate looks at all parts of the result of equal shape that fit, and takes
the best. It knows neither what several operators could do together, so that the streamed operand counts as if the
shared memory had it, nor that a transfer can run beside another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from ...ir.graph import DTYPES, Access, Graph, Op, Stage, contraction_axes
from ...ir.machine import Level, Machine

Ints = NDArray[np.int64]

FILL = 7 / 8
"""Of the local memory, what the streamed operand and the result may take together: biases and factors are there, too.
Chosen, not measured."""
SHARED_PART = 2
"""What stays in the shared memory while all cells use it has at most one part in so many of it. Chosen, not
measured."""


def _sizes(extent: int) -> list[int]:
    """What nearly equal parts of an axis measure at most, of 1, 2, 4 … parts, as segmentation tries them."""
    return sorted({ceil(extent / (1 << doublings)) for doublings in range(extent.bit_length() + 1)})


@dataclass(frozen=True)
class OperandTraffic:
    """Of one operator, whose first stage is a product of an activation with a constant, on one machine."""

    graph: Graph
    op: Op
    machine: Machine
    axis: int
    """The axis of the reduction that is cut."""

    @property
    def stage(self) -> Stage:
        return self.op.stages[0]

    def cycles(self, parts: int) -> float:
        """Cycles of all parts, at the least; infinite if nothing fits."""
        size = ceil(self.stage.axes[self.axis].extent / parts)
        rows, columns = self._cells
        held = self._streamed_bytes(size)
        sums = self._sum_bytes if parts > 1 else 0
        fits = held + rows * columns * (sums + self._result_bytes) <= FILL * self.machine.levels.activations.capacity
        if not fits.any():
            return float("inf")
        all_rows, all_columns = (prod(e) for e in (self._row_extents, self._column_extents))
        across = -(-all_columns // columns)
        streamed = self._row_cells * across * held
        weights = self._weight_bytes / parts
        loaded = self._row_cells * weights / (self.machine.cores if self._broadcast else 1)
        products = self._products / parts
        fetched = np.where(self._stays(weights / across), 1, self._row_cells) * weights / self._fetched
        turn = np.maximum(np.maximum(products, loaded / self._rate) + streamed / self._rate, fetched)
        passed = 2 * sums * (parts - 1) * all_rows * all_columns
        spilled = 0 if self._stays(sums * all_rows * all_columns) else passed
        added = parts * all_rows * all_columns / self._lanes if parts > 1 else 0.0
        stored = all_rows * all_columns * self._result_bytes
        return float(parts * turn[fits].min() + (passed + stored) / self._rate + spilled / self._main + added)

    def _stays(self, size: float | NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether the shared memory keeps so many bytes while the cells use them."""
        return np.asarray(size) * SHARED_PART <= self.machine.levels.exchange.capacity

    @cached_property
    def _roles(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        axes = contraction_axes(self.stage)
        return (*axes.batch, *axes.m), axes.n

    @property
    def _row_extents(self) -> list[int]:
        return [self.stage.axes[a].extent for a in self._roles[0]]

    @property
    def _column_extents(self) -> list[int]:
        return [self.stage.axes[a].extent for a in self._roles[1]]

    @cached_property
    def _grid(self) -> tuple[Ints, ...]:
        """Sizes of the two longest row axes and of the columns, each combination of them."""
        longest = sorted(range(len(self._row_extents)), key=lambda a: -self._row_extents[a])[:2]
        choices = [_sizes(e) if a in longest else [e] for a, e in enumerate(self._row_extents)]
        columns = _sizes(prod(self._column_extents))
        return tuple(np.array(g).ravel() for g in np.meshgrid(*choices, columns, indexing="ij"))

    @property
    def _cells(self) -> tuple[Ints, Ints]:
        """Elements of a cell of the result: rows and columns."""
        *rows, columns = self._grid
        return prod(rows, start=np.ones_like(columns)), columns

    @property
    def _row_cells(self) -> Ints:
        """How many cells there are along the rows."""
        *rows, columns = self._grid
        counts = [-(-e // size) for e, size in zip(self._row_extents, rows, strict=True)]
        return prod(counts, start=np.ones_like(columns))

    def _streamed_bytes(self, size: int) -> Ints:
        """What a cell has of the streamed operand, with so much of the axis that is cut."""
        access = self.stage.factors[0]
        tensor = self.graph.tensor[access.tensor]
        rows = dict(zip(self._roles[0], self._grid, strict=False))
        volume = np.array(DTYPES[tensor.dtype], dtype=np.int64)
        for index, extent in zip(access.index, tensor.shape, strict=True):
            span = np.array(1, dtype=np.int64)
            for a, c in enumerate(index.coeffs):
                if c:
                    own = size if a == self.axis else rows.get(a, self.stage.axes[a].extent)
                    span = span + abs(c) * (own - 1)
            volume = volume * np.minimum(span, extent)
        return volume

    @property
    def _result_bytes(self) -> int:
        return DTYPES[self.graph.tensor[self.op.output].dtype]

    @property
    def _sum_bytes(self) -> int:
        return DTYPES[self._sums]

    @property
    def _sums(self) -> str:
        """The dtype that sums are accumulated in."""
        return next(b.dtype for b in self.op.buffers if b.name == self.stage.write.tensor)

    @property
    def _weight_bytes(self) -> int:
        return self.graph.tensor[self.stage.factors[1].tensor].bytes

    @property
    def _products(self) -> float:
        """Cycles of the matrix engines of all cores."""
        engine = self.machine.shared_engine("matrix")
        rate = engine.rate_of(self._dtype(self.stage.factors[1])) or 1.0
        array = engine.rows * engine.columns * engine.depth * rate * engine.count
        return self.stage.points / array / self.machine.cores

    @property
    def _lanes(self) -> float:
        engine = self.machine.shared_engine("vector")
        return (engine.lanes or {}).get(self._sums, 1) * engine.count * self.machine.cores

    def _dtype(self, access: Access) -> str:
        return self.graph.tensor[access.tensor].dtype

    @property
    def _broadcast(self) -> bool:
        levels = self.machine.levels
        return self.machine.moves("broadcast", levels.source_of(constant=True), levels.weights)

    @property
    def _rate(self) -> float:
        """Bytes a cycle from the shared memory to all cores."""
        levels = self.machine.levels
        engine = self.machine.mover("copy", levels.source_of(constant=True), levels.weights)
        return min(self._link(levels.exchange), float(engine.bytes_per_cycle * self.machine.cores))

    @property
    def _fetched(self) -> float:
        """Bytes a cycle of constants from their home to the shared memory."""
        levels = self.machine.levels
        return self._link(levels.constants) if levels.has_exchange else float("inf")

    @property
    def _main(self) -> float:
        """Bytes a cycle between main and shared memory of sums that this does not keep."""
        levels = self.machine.levels
        return self._link(levels.home) if levels.has_exchange else float("inf")

    def _link(self, level: Level) -> float:
        limits = (x.bytes_per_cycle for x in self.machine.links if level.name in x.memories and x.direction != "write")
        return min(limits, default=float("inf"))
