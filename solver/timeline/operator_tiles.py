"""The tiles of an operator in the predicted timeline: on engines that read operands in place, or that stage them.

What the vector engine writes back can be read when it is where it belongs, by the next stage as by any other engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...ir.equivalence import tensor_names
from ...ir.graph import Op
from ...ir.machine import Machine
from ..cost.staged_run import Operand
from ..cost.tile_walk import TileTiming, TileWalk, Work
from .bank_conflicts import OperatorBanks
from .core_engines import Lane
from .streams.row_ring import RowRing
from .streams.weight_buffer import WeightBuffer
from .vector_stages import VectorStages


class OperandReads(NamedTuple):
    """Inputs of an operator that the matrix engine reads in place, and inputs of its vector stages."""

    matrix: tuple[str, ...]
    vector: tuple[str, ...]


def operand_reads(op: Op, contraction: int | None) -> OperandReads:
    """By which engine inputs are read, if that stage is the one of the matrix engine."""
    if contraction is None:
        return OperandReads((), op.inputs)
    stage = op.stages[contraction]
    in_place = [stage.reads[0].tensor] + ([stage.start.tensor] if stage.start is not None else [])
    others = {r.tensor for position, s in enumerate(op.stages) if position != contraction for r in s.reads}
    return OperandReads(tuple(n for n in op.inputs if n in in_place), tuple(n for n in op.inputs if n in others))


class DirectTiles:
    """Engines read operands where they are.

    ``stages``: those of the vector engine, and what each waits for. ``arrivals``: for each tile, when all that the
    matrix engine reads in place can be read. ``target``: when the place of the result is free.
    """

    def __init__(
        self, machine: Machine, walk: TileWalk, weights: WeightBuffer | None, banks: OperatorBanks,
        stages: VectorStages, arrivals: Sequence[float], target: float, rows: RowRing | None = None,
    ) -> None:  # fmt: skip
        self._rows = rows
        self._walk = walk
        self._weights = weights
        self._banks = banks
        self._stages = stages
        self._arrivals = arrivals
        self._target = target
        self._matrix_latency = machine.engine_for("matrix").latency
        self._vector_latency = machine.engine_for("vector").latency

    def tile(self, index: int, version: int, lanes: Sequence[Lane]) -> float:
        """Run a tile, with these versions of its scratch buffers; when its result is visible."""
        kind = self._walk.timings[self._walk.timing[index]]
        for lane in lanes:
            engines = lane.engines
            lane.result = 0.0
            if kind.before:
                engines.vector = max(engines.vector, lane.vector_free[version])
                self._run_stages(lane, index, 0)
                lane.result = engines.vector + self._vector_latency
            lane.prepared = engines.vector
        if self._weights is not None and kind.matrix:
            self._multiply(self._weights, kind, index, version, lanes)
        if kind.drain or kind.finish:
            for lane in lanes:
                engines = lane.engines
                engines.vector = max(engines.vector, lane.result)
                self._run_stages(lane, index, 1)
                if kind.drain:
                    # What the matrix engine reads and writes there itself is in order.
                    lane.free[version] = engines.vector + self._vector_latency
                self._run_stages(lane, index, 2)
                lane.result = engines.vector + self._vector_latency
        return max(lane.result for lane in lanes)

    def _run_stages(self, lane: Lane, index: int, part: int) -> None:
        """See :meth:`VectorStages.part`."""
        number, turn = self._walk.timing[index], index % len(self._banks.slower)
        runs = self._stages.part(number, index, part, self._target)
        lane.run_stages(runs, self._banks.slower[turn][number][1], self._banks.vector[turn])

    def _multiply(
        self, weights: WeightBuffer, kind: TileTiming, index: int, version: int, lanes: Sequence[Lane]
    ) -> None:
        """The contraction of a tile, one part after the other, in which the lanes take turns."""
        turn = index % len(self._banks.slower)
        slower = self._banks.slower[turn][self._walk.timing[index]][0]
        for lane in lanes:
            lane.ready = max(lane.result, self._arrivals[index], lane.free[version])
        if self._rows is not None:
            brought = self._rows.claim(index)
            for lane in lanes:
                lane.ready = max(lane.ready, brought)
        for part, busy in enumerate(kind.matrix):
            for position, lane in enumerate(lanes):
                ready = weights.claim(position, index, part, lane.engines.staging)
                cycles = busy * (1.0 + slower) + weights.slowed(position)
                begun, ended = lane.multiply(ready, cycles, self._banks.matrix[turn])
                weights.release(position, begun, ended, ended + self._matrix_latency)
        for lane in lanes:
            lane.result = lane.multiplied = lane.vector_free[version] = lane.engines.matrix + self._matrix_latency
        if self._rows is not None:
            self._rows.release(max(lane.multiplied for lane in lanes))


class StagedTiles:
    """Engines have operands copied to where they read them.

    ``arrivals``: by input, for each tile, when all that it reads has arrived or is computed.

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
        self._stationary = numbers.get(op.stationary, -1)
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
            over = lane.last_copies.get(self._stationary, (ended + self._matrix_latency, ""))[0]
            self._weights.release(position, begun, ended, over)
        lane.result = lane.multiplied = lane.vector_free[version] = lane.engines.matrix + self._matrix_latency
