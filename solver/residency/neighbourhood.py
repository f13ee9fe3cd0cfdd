"""Residency step by step: the whole model for its bound, then windows of slots that are decided anew.

One worker has no neighbourhood search of its own, and on a whole network it hardly improves what was decided by hand.
A window of some hundred uses is small enough to be decided well; windows go over the slots in which the computation
waits, again and again, until none helps or the budget is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..cpsat.backend import STRIKES, Budget, solve
from ..switches import ALL_ON, Disabled
from .greedy import Decisions, Outcome, bound, evaluate
from .model import ResidencyModel, Window, affordable
from .problem import Demand
from .solution import decisions, hint

USES = 100
"""Uses in a window at first; each round over the slots takes half as many more."""
ONE = 150
"""Up to this many uses the whole is one window."""
WHOLE = 400
"""Up to this many uses the whole is asked first, for its bound; beyond, it takes longer than it is worth."""
SHARE = 0.1
"""Of the budget, for the model of the whole, where windows follow."""
EFFORT = 0.1
"""Deterministic seconds for one window at most."""
OVERHEAD = 0.03
"""Deterministic seconds that building a model counts for, or the clock would decide how many there are."""
ENOUGH = 1e-3
"""Rounds end when one improves the objective by less than this share."""


@dataclass(frozen=True)
class Improved:
    """The best decisions known, what they cost, and what is proven."""

    decisions: Decisions
    outcome: Outcome
    status: str
    bound: float
    seconds: float = 0.0
    deterministic_seconds: float = 0.0


def improve(
    demand: Demand,
    room: NDArray[np.int64],
    start: Decisions,
    *,
    budget: Budget,
    seed: int,
    on_solution: Callable[[float, float], None] | None = None,
    disabled: Disabled = ALL_ON,
) -> Improved:
    """Better decisions than ``start``, or ``start`` and a bound; the solver is asked only if there is a gap."""
    search = _Search(demand, room, start, budget, seed, on_solution)
    uses = sum(len(item.uses) for item in demand.fetched)
    if uses <= WHOLE and not search.closed:
        search.step(None, 1.0 if uses <= ONE else SHARE)
    if uses > ONE and "residency-windows" not in disabled:
        search.rounds()
    return search.answer()


class _Search:
    """The incumbent, and what is left of the budget."""

    def __init__(
        self,
        demand: Demand,
        room: NDArray[np.int64],
        start: Decisions,
        budget: Budget,
        seed: int,
        listener: Callable[[float, float], None] | None,
    ) -> None:
        self.demand = demand
        self.room = room
        self.best = start
        self.outcome = evaluate(demand, start)
        self.bound = float(bound(demand))
        self.budget = budget
        self.seed = seed
        self.listener = listener
        self.began = time.perf_counter()
        self.spent = 0.0
        self.stopped = False

    @property
    def closed(self) -> bool:
        return self.outcome.objective <= self.bound

    def step(self, slots: range | None, share: float) -> None:
        """Decide a window anew, or everything; ``share``: deterministic seconds, or of the whole budget."""
        seconds = self.budget.seconds - (time.perf_counter() - self.began)
        limit = self.budget.limit * share if slots is None else min(share, self.budget.limit - self.spent)
        if seconds <= 0 or limit <= 0:
            STRIKES.count += limit > 0
            self.stopped = True
            return
        window = Window(self.best, self.outcome, range(len(self.demand.cycles)) if slots is None else slots)
        built = ResidencyModel(self.demand, self.room, affordable(self.demand), self.outcome.end, window)
        hint(built, self.best, self.outcome)
        allowed = Budget(seconds if slots is not None else seconds * share, limit)
        solution = solve(
            built.model, budget=allowed, seed=self.seed, on_solution=self._heard if slots is None else None
        )
        self.spent += solution.deterministic_seconds + OVERHEAD
        self.stopped = self.stopped or solution.interrupted or (slots is not None and solution.timed_out)
        if solution.status == "infeasible":
            raise RuntimeError("residency: the decisions made by hand fit, but the model says that none do")
        if slots is None:
            self.bound = max(self.bound, solution.bound or 0.0)
        if solution.found:
            found = decisions(built, solution)
            outcome = evaluate(self.demand, found)
            if outcome.objective < self.outcome.objective:
                self.best, self.outcome = found, outcome
                if slots is not None:
                    self._heard(float(outcome.objective), self.bound)

    def _heard(self, objective: float, least: float) -> None:
        if self.listener is not None:
            self.listener(objective, max(least, self.bound))

    def rounds(self) -> None:
        """Windows over the slots that wait."""
        uses = USES
        while not self.stopped and not self.closed:
            before = self.outcome.objective
            for slots in self._windows(uses):
                if self.stopped or self.closed:
                    return
                if self._waits(slots):
                    self.step(slots, EFFORT * uses / USES)
            if before - self.outcome.objective < ENOUGH * before:
                return
            uses += USES // 2

    def _windows(self, uses: int) -> Iterator[range]:
        """Ranges of slots with about so many uses, each from the middle of the one before it."""
        here = np.zeros(len(self.demand.cycles), dtype=np.int64)
        for item in self.demand.fetched:
            for use in item.uses:
                here[use.slot] += 1
        before = np.concatenate([[0], np.cumsum(here)])
        first = 0
        while first < len(here):
            last = int(np.searchsorted(before, before[first] + uses, side="right"))
            last = min(len(here), max(last - 1, first + 1))
            yield range(first, last)
            if last == len(here):
                return
            first = max(first + 1, int(np.searchsorted(before, before[first] + uses // 2)))

    def _waits(self, slots: range) -> bool:
        """Whether the computation waits in these slots for more than a thousandth of the whole."""
        there = self.outcome.begin[slots.stop] - self.outcome.begin[slots.start]
        work = sum(self.demand.cycles[slots.start : slots.stop])
        return (there - work) * 1000 > self.outcome.end

    def answer(self) -> Improved:
        status = "optimal" if self.closed else "feasible"
        seconds = time.perf_counter() - self.began
        return Improved(self.best, self.outcome, status, self.bound, seconds, self.spent)
