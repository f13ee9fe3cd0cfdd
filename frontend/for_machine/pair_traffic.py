"""What two products, h = f(x·W) and y = z + h·V, cost with what lies between them in parts: an estimate.

With x, y and a part of h in the local memories of all cores, W and V come once, or once for each share of the images if
there is no room for all of these at once; and y is added to once for each further part. Of the products, the loads of
weights and their fetches from main memory, only the longest counts, as they run beside one another. Without parts, all
of h may also go through the shared memory, or through main memory where that has no room for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, prod

from ...ir.graph import Graph, Op
from ...ir.machine import Machine
from .engine_rates import lanes, multipliers
from .operand_traffic import FILL, SHARED_PART
from .transfer_rates import TransferRates


@dataclass(frozen=True)
class PairTraffic:
    """Of two operators whose first stages are products with the constants ``weights``; nothing but ``second`` reads
    what ``first`` computes. The images are the first dimension of the result, if it has several.
    """

    graph: Graph
    machine: Machine
    first: Op
    second: Op
    weights: tuple[str, str]

    def cycles(self, shares: int, parts: int) -> float:
        """Cycles with so many equal shares of the images and parts of h, as estimated; infinite if there is no room."""
        room = self.machine.levels.activations.capacity * self.machine.cores
        if (self._outer + self._inner / parts) / shares > (room if parts == 1 else FILL * room):
            return inf
        return self._turns(shares) + (parts - 1) * self._added

    @property
    def moved(self) -> float:
        """Cycles without shares and parts, with all of h moved out of the local memories and back."""
        rates = self._rates
        rate = rates.data if self._inner * SHARED_PART <= self._shared else min(rates.data, rates.main)
        return self._turns(1) + 2 * self._inner / rate

    @cached_property
    def images(self) -> int:
        shape = self.graph.tensor[self.second.output].shape
        return max(1, shape[0]) if len(shape) > 1 else 1

    def _turns(self, shares: int) -> float:
        """Cycles of the products, or of the weights that come for each share; a shared memory may keep them."""
        loads, fetches = self._weights / self._rates.weights, self._weights / self._rates.constants
        first = max(self._products / shares, loads, fetches)
        kept = self._weights * SHARED_PART <= self._shared
        return first + (shares - 1) * (max(self._products / shares, loads) if kept else first)

    @property
    def _shared(self) -> int:
        return self.machine.levels.exchange.capacity

    @cached_property
    def _rates(self) -> TransferRates:
        return TransferRates.from_machine(self.machine)

    @cached_property
    def _inner(self) -> int:
        return self.graph.tensor[self.first.output].bytes

    @cached_property
    def _outer(self) -> int:
        """Bytes of x and y."""
        names = (self.second.output, *(n for n in self.first.inputs if n not in self.graph.constant_names))
        return sum(self.graph.tensor[n].bytes for n in names)

    @cached_property
    def _weights(self) -> int:
        return sum(self.graph.tensor[name].bytes for name in set(self.weights))

    @cached_property
    def _products(self) -> float:
        """Cycles of the matrix engines of all cores; as if at rate 1, if they have no such type."""
        points = sum(op.stages[0].points for op in (self.first, self.second))
        engine = self.machine.shared_engine("matrix")
        rate = multipliers(self.machine, self.graph.tensor[self.weights[0]].dtype)
        return points / (rate or engine.rows * engine.columns * engine.depth * engine.count * self.machine.cores)

    @property
    def _added(self) -> float:
        """Cycles of the vector engines of all cores to add to y once."""
        result = self.graph.tensor[self.second.output]
        return prod(result.shape) / lanes(self.machine, result.dtype)
