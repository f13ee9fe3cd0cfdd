"""The engines of one core that compute, in the predicted timeline: until when they are occupied, and their tiles."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .bank_conflicts import BankConflicts, BankDemand

_EngineWork = tuple[float, float, BankDemand]
"""A span of an engine's work: since when, until when, and what it asked of banks."""
MOST_MEETINGS = 16
"""Spans of work of one engine that the other can meet; chosen, not measured."""


class CoreEngines:
    """Until when the matrix and the vector engine are occupied; where they meet on banks, both are slowed."""

    def __init__(self, conflicts: BankConflicts) -> None:
        self.matrix = self.vector = 0.0
        self._conflicts = conflicts
        self._matrix_work: deque[_EngineWork] = deque(maxlen=MOST_MEETINGS)
        self._vector_work: deque[_EngineWork] = deque(maxlen=MOST_MEETINGS)

    def copy(self) -> CoreEngines:
        """The engines of another core, which have done the same so far."""
        other = CoreEngines(self._conflicts)
        other.matrix, other.vector = self.matrix, self.vector
        other._matrix_work, other._vector_work = self._matrix_work.copy(), self._vector_work.copy()
        return other

    def multiply(self, start: float, stop: float, demand: BankDemand) -> None:
        """The matrix engine works in this time, if nothing slows it."""
        lost = self._lost(start, stop, demand, reversed(self._vector_work))
        self._matrix_work.append((start, stop + lost, demand))
        self.matrix = stop + lost
        self.vector += lost

    def run_stages(self, start: float, stop: float, demand: BankDemand) -> None:
        """The vector engine works in this time, if nothing slows it."""
        lost = self._lost(start, stop, demand, reversed(self._matrix_work))
        self._vector_work.append((start, stop + lost, demand))
        self.vector = stop + lost
        self.matrix += lost

    def _lost(self, start: float, stop: float, demand: BankDemand, others: Iterable[_EngineWork]) -> float:
        """Cycles that each of two engines loses while both work, since they meet on banks."""
        lost = 0.0
        for begun, ended, asked in others:
            if ended <= start:
                break
            both = min(stop, ended) - max(start, begun)
            if both > 0.0:
                lost += both * self._conflicts.lost(demand, asked)
        return lost


@dataclass
class Lane:
    """One of the ways that cores go through the tiles of an operator; there are several where weights come in turn.

    By version of the scratch buffers, ``free`` and ``vector_free`` are when the matrix and the vector engine can write
    there. ``result``: when what the engines have made of the tile so far is visible; ``prepared`` and ``multiplied``:
    when the stages before the last contraction were over, and when that is visible; ``first``: when the walk began.
    """

    engines: CoreEngines
    free: list[float]
    vector_free: list[float]
    result: float = 0.0
    ready: float = 0.0
    prepared: float = 0.0
    multiplied: float = 0.0
    first: float | None = None

    def run_stages(self, runs: Iterable[tuple[float, int]], slower: float, demand: BankDemand) -> None:
        """Stages of the vector engine: (ready, busy cycles) of each."""
        engines = self.engines
        for ready, busy in runs:
            begun = max(engines.vector, ready)
            self.first = begun if self.first is None else self.first
            engines.run_stages(begun, begun + busy * (1.0 + slower), demand)

    def multiply(self, ready: float, busy: float, demand: BankDemand) -> tuple[float, float]:
        """Products of the matrix engine; since when, and until when."""
        begun = max(self.engines.matrix, self.ready, ready)
        self.first = begun if self.first is None else self.first
        self.engines.multiply(begun, begun + busy, demand)
        return begun, self.engines.matrix


def last_lane(lanes: Sequence[Lane]) -> Lane:
    """The one that is done last, which stands for all from there on."""
    return max(lanes, key=lambda lane: (lane.result, lane.engines.vector, lane.engines.matrix))
