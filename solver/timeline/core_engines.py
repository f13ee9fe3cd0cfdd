"""The engines of one core that compute, in the predicted timeline: until when they are occupied, and their tiles."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..cost.staged_run import Operand
from ..cost.tile_walk import Work
from .bank_conflicts import BankConflicts, BankDemand
from .fair_sharing import RecordedRun
from .staging_queues import StagingQueues

_EngineWork = tuple[float, float, BankDemand]
"""A span of an engine's work: since when, until when, and what it asked of banks."""
MOST_MEETINGS = 16
"""Spans of work of one engine that the other can meet; chosen, not measured."""


class CoreEngines:
    """Until when the matrix and the vector engine are occupied; where they meet on banks, both are slowed."""

    def __init__(self, conflicts: BankConflicts, staging: StagingQueues, run: RecordedRun | None = None) -> None:
        """``run``: where the work of the engines is recorded."""
        self.matrix = self.vector = 0.0
        self.run = run
        self.staging = staging
        self._conflicts = conflicts
        self._matrix_work: deque[_EngineWork] = deque(maxlen=MOST_MEETINGS)
        self._vector_work: deque[_EngineWork] = deque(maxlen=MOST_MEETINGS)

    def copy(self) -> CoreEngines:
        """The engines of another core, which have done the same so far."""
        other = CoreEngines(self._conflicts, self.staging.copy(), self.run)
        other.matrix, other.vector = self.matrix, self.vector
        other._matrix_work, other._vector_work = self._matrix_work.copy(), self._vector_work.copy()
        return other

    def multiply(self, start: float, stop: float, demand: BankDemand) -> None:
        """The matrix engine works in this time, if nothing slows it."""
        lost, other = self._lost(start, stop, demand, self._vector_work)
        self._matrix_work.append((start, stop + lost, demand))
        self.matrix = stop + lost
        self.vector += other
        if self.run is not None:
            self.run.worked("matrix", start, stop + lost, demand)

    def run_stages(self, start: float, stop: float, demand: BankDemand) -> None:
        """The vector engine works in this time, if nothing slows it."""
        lost, other = self._lost(start, stop, demand, self._matrix_work)
        self._vector_work.append((start, stop + lost, demand))
        self.vector = stop + lost
        self.matrix += other
        if self.run is not None:
            self.run.worked("vector", start, stop + lost, demand)

    def _lost(self, start: float, stop: float, demand: BankDemand, others: deque[_EngineWork]) -> tuple[float, float]:
        """Cycles that this engine and the other one lose while both work, since they meet on banks."""
        own_loss = other_loss = 0.0
        for number in range(len(others) - 1, -1, -1):
            begun, ended, opposed = others[number]
            if ended <= start:
                break
            since = max(start, begun)
            if min(stop, ended) > since:
                lost, lost_by_other = self._conflicts.lost(demand, opposed)
                if lost or lost_by_other:
                    # Until one of the two is done.
                    both = min((stop - since) / (1.0 - lost), (ended - since) / (1.0 - lost_by_other))
                    own_loss += both * lost
                    other_loss += both * lost_by_other
        return own_loss, other_loss


@dataclass
class Lane:
    """One of the ways that cores go through the tiles of an operator; there are several where weights come in turn.

    By version of the scratch buffers, ``free`` and ``vector_free`` are when the matrix and the vector engine can write
    there. ``result``: when what the engines have made of the tile so far is visible; ``prepared`` and ``multiplied``:
    when the stages before the last contraction were over, and when that is visible; ``first``: when the walk began.
    ``last_copies``: of operands that are staged, when the last copy of each was over, and its engine.
    """

    engines: CoreEngines
    free: list[float]
    vector_free: list[float]
    result: float = 0.0
    ready: float = 0.0
    prepared: float = 0.0
    multiplied: float = 0.0
    first: float | None = None
    last_copies: dict[Operand, tuple[float, str]] = field(default_factory=dict[Operand, tuple[float, str]])

    def skip(self) -> None:
        """A tile on which no engine works."""
        self.result, self.prepared = 0.0, self.engines.vector

    def run_stages(self, runs: Iterable[tuple[float, int]], slower: float, demand: BankDemand) -> None:
        """Stages of the vector engine: (ready, busy cycles) of each."""
        engines = self.engines
        for ready, busy in runs:
            if engines.run is not None:
                engines.run.waited("vector", engines.vector, ready)
            begun = max(engines.vector, ready)
            self.first = begun if self.first is None else self.first
            engines.run_stages(begun, begun + busy * (1.0 + slower), demand)

    def run_staged(
        self, works: Iterable[Work], arrived: dict[Operand, float], target: float, latency: int, slower: float,
        demand: BankDemand,
    ) -> float:  # fmt: skip
        """Stages of the vector engine, some of which stage operands; when all that they make is visible.

        ``arrived``: when operands can be read, to which what comes back is added; ``target``: when it can.
        """
        engines, visible = self.engines, 0.0
        for work in works:
            ready = max((arrived.get(operand, 0.0) for operand in work.direct), default=0.0)
            if work.staged:
                span = engines.staging.run(work.staged, engines.vector, ready, arrived, target, latency, slower)
                begun, ended = span.begun, span.ended
                self.last_copies |= span.last_copies
                arrived |= {
                    operand: time for operand, (time, _) in span.last_copies.items() if operand in work.returned
                }
                visible = max([visible, *(time for time, _ in span.last_copies.values())])
            else:
                begun = max(engines.vector, ready)
                ended = begun + work.busy * (1.0 + slower)
            self.first = begun if self.first is None else self.first
            engines.run_stages(begun, ended, demand)
        return max(visible, engines.vector + latency)

    def multiply_staged(
        self, work: Work, arrived: Mapping[Operand, float], latency: int, slower: float, more: float,
        weights: Operand, demand: BankDemand,
    ) -> tuple[float, float]:  # fmt: skip
        """The same as :meth:`multiply` for products that stage operands.

        ``more``: cycles that are lost on the banks of the ``weights``, by the engine that takes them from there.
        """
        engines = self.engines
        copied = (copy for part in work.staged for copy in part.copies)
        staged_by = next((copy.engine for copy in copied if copy.operand == weights and not copy.back), None)
        if staged_by is not None:
            engines.staging.queues[staged_by] += more
            more = 0.0
        ready = max((arrived.get(operand, 0.0) for operand in work.direct), default=0.0)
        if not work.staged:
            return self.multiply(ready, work.busy * (1.0 + slower) + more, demand)
        ready = max(self.ready, ready)
        span = engines.staging.run(work.staged, engines.matrix, ready, arrived, 0.0, latency, slower)
        self.first = span.begun if self.first is None else self.first
        self.last_copies |= span.last_copies
        engines.multiply(span.begun, span.ended + more, demand)
        return span.begun, engines.matrix

    def multiply(self, ready: float, busy: float, demand: BankDemand) -> tuple[float, float]:
        """Products of the matrix engine; since when, and until when."""
        if self.engines.run is not None:
            for awaited in (self.ready, ready):
                self.engines.run.waited("matrix", self.engines.matrix, awaited)
        begun = max(self.engines.matrix, self.ready, ready)
        self.first = begun if self.first is None else self.first
        self.engines.multiply(begun, begun + busy, demand)
        return begun, self.engines.matrix


def last_lane(lanes: Sequence[Lane]) -> Lane:
    """The one that is done last, which stands for all from there on."""
    return max(lanes, key=lambda lane: (lane.result, lane.engines.vector, lane.engines.matrix))
