"""What the operands of a product cost on their way to the cores, if its reduction is cut into parts: an estimate.

A core holds of the streamed operand what its part of the result needs, over the whole of the reduction; the weights
stream past it. Where little of the result fits so, the weights are loaded again and again:

    cells along the rows of the result x bytes of the weights.

With the reduction in p parts, more of the result fits, and the weights are loaded less often, for p - 1 passes of the
sums to the shared memory and back. Cells are those that segmentation tries: 1, 2, 4 … parts of the two longest axes of
the rows and of the columns. The cheapest that fits counts.

Of the products, the loads of weights and their fetches from main memory, only the longest counts, as they run beside
one another; all other transfers are added. What several operators could do together is not known, so that the streamed
operand counts as if the shared memory had it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf, prod

import numpy as np
from numpy.typing import NDArray

from ...ir.graph import DTYPES, Graph, Op, Stage, contraction_axes
from ...ir.machine import Machine
from .engine_rates import lanes, multipliers
from .transfer_rates import TransferRates

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
    """Of one operator, whose first stage is a product of an activation with a constant that the matrix engine of the
    machine can run.

    ``axis``: that of the reduction that is cut.
    """

    graph: Graph
    op: Op
    machine: Machine
    axis: int

    @property
    def stage(self) -> Stage:
        return self.op.stages[0]

    def cycles(self, parts: int) -> float:
        """Cycles of all parts together, as estimated; infinite if no cell fits."""
        rates, rows, columns = self._rates, self._rows, self._columns
        held = self._streamed_bytes(ceil(self.stage.axes[self.axis].extent / parts))
        sums = self._sum_bytes if parts > 1 else 0
        fits = held + rows * columns * (sums + self._result_bytes) <= FILL * self.machine.levels.activations.capacity
        if not fits.any():
            return inf
        elements = prod(self._extents(self._roles[0])) * prod(self._extents(self._roles[1]))
        across = -(-prod(self._extents(self._roles[1])) // columns)
        weights = self.graph.tensor[self.stage.factors[1].tensor].bytes / parts
        passes = -(-self._row_cells // self.machine.cores) if rates.broadcast else self._row_cells
        loads = passes * weights / rates.weights
        fetches = np.where(self._stays(weights / across), 1, self._row_cells) * weights / rates.constants
        streamed = self._row_cells * across * held / rates.data
        turn = np.maximum(np.maximum(self._products / parts, loads) + streamed, fetches)
        passed = 2 * sums * (parts - 1) * elements
        spilled = 0.0 if self._stays(sums * elements) else passed / rates.main
        added = parts * elements / lanes(self.machine, self._sums) if parts > 1 else 0.0
        stored = elements * self._result_bytes
        return float(parts * turn[fits].min() + (passed + stored) / rates.data + spilled + added)

    def _stays(self, size: float | NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether the shared memory keeps so many bytes while the cells use them."""
        return np.asarray(size) * SHARED_PART <= self.machine.levels.exchange.capacity

    @cached_property
    def _rates(self) -> TransferRates:
        return TransferRates.from_machine(self.machine)

    @cached_property
    def _roles(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The axes of the rows, and those of the columns."""
        axes = contraction_axes(self.stage)
        return axes.m, axes.n

    def _extents(self, axes: tuple[int, ...]) -> list[int]:
        return [self.stage.axes[a].extent for a in axes]

    @cached_property
    def _grid(self) -> tuple[Ints, ...]:
        """Sizes of the row axes and of the columns, each combination of them."""
        extents = self._extents(self._roles[0])
        longest = sorted(range(len(extents)), key=lambda a: -extents[a])[:2]
        choices = [_sizes(e) if a in longest else [e] for a, e in enumerate(extents)]
        columns = _sizes(prod(self._extents(self._roles[1])))
        return tuple(np.array(g).ravel() for g in np.meshgrid(*choices, columns, indexing="ij"))

    @cached_property
    def _columns(self) -> Ints:
        """Of each kind of cell."""
        return self._grid[-1]

    @cached_property
    def _rows(self) -> Ints:
        """Of each kind of cell."""
        return prod(self._grid[:-1], start=np.ones_like(self._columns))

    @cached_property
    def _row_cells(self) -> Ints:
        """How many cells there are along the rows."""
        sizes = zip(self._extents(self._roles[0]), self._grid[:-1], strict=True)
        return prod([-(-extent // size) for extent, size in sizes], start=np.ones_like(self._columns))

    def _streamed_bytes(self, size: int) -> Ints:
        """What each kind of cell has of the streamed operand, with so much of the axis that is cut."""
        access = self.stage.factors[0]
        tensor = self.graph.tensor[access.tensor]
        rows = dict(zip(self._roles[0], self._grid[:-1], strict=True))
        volume = np.array(DTYPES[tensor.dtype], dtype=np.int64)
        for index, extent in zip(access.index, tensor.shape, strict=True):
            span = np.array(1, dtype=np.int64)
            for a, c in enumerate(index.coeffs):
                if c:
                    cell_extent = size if a == self.axis else rows.get(a, self.stage.axes[a].extent)
                    span = span + abs(c) * (cell_extent - 1)
            volume = volume * np.minimum(span, extent)
        return volume

    @property
    def _result_bytes(self) -> int:
        return DTYPES[self.graph.tensor[self.op.output].dtype]

    @cached_property
    def _sums(self) -> str:
        """The dtype that sums are accumulated in."""
        return next(b.dtype for b in self.op.buffers if b.name == self.stage.write.tensor)

    @property
    def _sum_bytes(self) -> int:
        return DTYPES[self._sums]

    @property
    def _products(self) -> float:
        """Cycles of the matrix engines of all cores."""
        rate = multipliers(self.machine, self.graph.tensor[self.stage.factors[1].tensor].dtype)
        assert rate is not None
        return self.stage.points / rate
