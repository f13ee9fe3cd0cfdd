"""The tiles of an operator on engines that stage their operands, in the predicted timeline.

What the vector engine writes back can be read when it is where it belongs, by the next stage as by any other engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.equivalence import tensor_names
from ...ir.graph import Op
from ...ir.machine import Machine
from ..cost.staged_run import Operand
from ..cost.tile_walk import TileTiming, TileWalk, Work
from .bank_conflicts import OperatorBanks
from .core_engines import Lane
from .weight_buffer import WeightBuffer


class StagedTiles:
    """``arrivals``: by input, for each tile, when all that it reads has arrived or is computed.

    ``target``: when the place of the result is free for what comes back.
    """

    def __init__(
        self, machine: Machine, op: Op, walk: TileWalk, weights: WeightBuffer | None, banks: OperatorBanks,
        arrivals: Mapping[str, Sequence[float]], target: float,
    ) -> None:  # fmt: skip
        self._walk = walk
        self._weights = weights
        self._banks = banks
        self._target = target
        numbers = {name: number for number, name in enumerate(tensor_names(op))}
        self._arrivals = {numbers[name]: times for name, times in arrivals.items()}
        stationary = op.stages[op.contraction].reads[1].tensor if op.contraction is not None else ""
        self._stationary = numbers.get(stationary, -1)
        self._matrix_latency = machine.engine_for("matrix").latency
        self._vector_latency = machine.engine_for("vector").latency

    def tile(self, index: int, version: int, lanes: Sequence[Lane]) -> float:
        """Run a tile, with these versions of its scratch buffers; when its result is visible."""
        number = self._walk.timing[index]
        kind, turn = self._walk.timings[number], index % len(self._banks.slower)
        matrix_slower, vector_slower = self._banks.slower[turn][number]
        demand = self._banks.vector[turn]
        first, drained = kind.parts
        for position, lane in enumerate(lanes):
            engines = lane.engines
            arrived: dict[Operand, float] = {name: times[index] for name, times in self._arrivals.items()}

            def run(works: Sequence[Work], lane: Lane = lane, arrived: dict[Operand, float] = arrived) -> float:
                return lane.run_staged(works, arrived, self._target, self._vector_latency, vector_slower, demand)

            lane.result = 0.0
            if first:
                engines.vector = max(engines.vector, lane.vector_free[version])
                lane.result = run(kind.stages[:first])
            lane.prepared = engines.vector
            if kind.matrix:
                self._multiply(kind, index, version, position, lane, arrived, matrix_slower)
            if kind.stages[first:]:
                engines.vector = max(engines.vector, lane.result)
                drain, finish = kind.stages[first:drained], kind.stages[drained:]
                if drain:
                    lane.result = run(drain)
                    # What the matrix engine reads and writes there itself is in order.
                    lane.free[version] = engines.vector + self._vector_latency
                if finish:
                    lane.result = run(finish)
        return max(lane.result for lane in lanes)

    def _multiply(
        self, kind: TileTiming, index: int, version: int, position: int, lane: Lane, arrived: dict[Operand, float],
        slower: float,
    ) -> None:  # fmt: skip
        """The contraction of a tile, one part after the other."""
        assert self._weights is not None
        lane.ready = max(lane.result, lane.free[version])
        demand = self._banks.matrix[index % len(self._banks.matrix)]
        for part, work in enumerate(kind.products):
            arrived[self._stationary] = self._weights.claim(position, index, part, lane.engines.staging)
            begun, ended = lane.multiply_staged(
                work, arrived, self._matrix_latency, slower, self._weights.slowed(position), self._stationary, demand
            )
            over = lane.left.get(self._stationary, (ended + self._matrix_latency, ""))[0]
            self._weights.release(position, begun, ended, over)
        lane.result = lane.multiplied = lane.vector_free[version] = lane.engines.matrix + self._matrix_latency
