"""Large-neighbourhood search for residency: the whole model for its bound, then windows of slots that are decided anew.

The model relaxes when fetches are issued; each of its answers gets fetch slots (:mod:`.fetch_slots`) and replaces the
incumbent if its timing is better. Windows go over the slots in which the computation waits, again and again, until none
helps or the budget is used.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..cpsat.backend import Budget, Solution, Watch, solve
from ..effort import NO_EFFORT, Effort, SearchPoint, later, thinned
from ..switches import ALL_ON, Disabled
from .bound import lower_bound
from .decisions import Decisions, ResidencyTiming
from .evaluation import evaluate_decisions
from .fetch_slots import PASSED_OVER, with_fetch_slots
from .model import ResidencyModel
from .problem import ResidencyProblem

WINDOW_USES = 100
"""Uses in a window at first, mostly solved within :data:`WINDOW_LIMIT`; each round over the slots takes half as many
more. Chosen, not measured."""
SINGLE_WINDOW_USES = 150
"""Up to this many uses (the second size of windows) the whole is one window."""
WHOLE_USES = 1500
"""Up to this many uses the whole is solved first, for its bound; beyond, building it takes longer than it is worth.
Chosen, not measured."""
WHOLE_SHARE = 0.5
"""Of the budget, for the model of the whole, where windows follow. Chosen, not measured."""
WINDOW_LIMIT = 0.1
"""Deterministic seconds for one window of :data:`WINDOW_USES` at most. Chosen, not measured."""
BUILDING = 0.03
"""Deterministic seconds that building a model of up to :data:`BUILT_SLOTS` counts for, or the clock would decide how
many there are; of more slots, as many times as much as the square of their number is greater. Chosen, not measured."""
BUILT_SLOTS = 1000
"""Slots up to which building a model is counted alike; beyond, what has been stored until a slot is a sum over all
slots before it."""
LEAST_IMPROVEMENT = 1e-3
"""Rounds end when one improves the objective by less than this share; windows are skipped in which the computation
waits for less than this share of the whole. Chosen, not measured."""


@dataclass(frozen=True)
class ResidencyIncumbent:
    """The best decisions known, what they cost, and what is proven."""

    decisions: Decisions
    timing: ResidencyTiming
    status: str
    bound: float
    effort: Effort = NO_EFFORT


def improve(
    problem: ResidencyProblem,
    room: NDArray[np.int64],
    start: Decisions,
    *,
    budget: Budget,
    seed: int,
    disabled: Disabled = ALL_ON,
    watch: Watch | None = None,
) -> ResidencyIncumbent:
    """Better decisions than ``start``, or ``start`` and a bound; the solver runs only if there is a gap."""
    search = _Search(problem, room, start, budget, seed, watch)
    uses = sum(len(item.uses) for item in problem.items)
    if uses <= WHOLE_USES and not search.closed:
        search.solve_whole(1.0 if uses <= SINGLE_WINDOW_USES else WHOLE_SHARE)
    if uses > SINGLE_WINDOW_USES and "residency-windows" not in disabled:
        search.rounds()
    return search.incumbent()


class _Search:
    """The incumbent, and what is left of the budget."""

    def __init__(
        self, problem: ResidencyProblem, room: NDArray[np.int64], start: Decisions, budget: Budget, seed: int,
        watch: Watch | None,
    ) -> None:  # fmt: skip
        self.began = time.perf_counter()
        self.problem = problem
        self.room = room
        self.best = start
        self.timing = evaluate_decisions(problem, start)
        self.bound = float(lower_bound(problem, room))
        self.budget = budget
        self.seed = seed
        self.watch = watch
        self.spent = 0.0
        self.building = BUILDING * max(1.0, len(problem.cycles) / BUILT_SLOTS) ** 2
        self.stopped = self.timed_out = self.limited = False
        self.exhausted = False
        """Whether the model of the whole was solved to optimality."""
        self.searches = 0
        self.size = (0, 0)
        self.points = [self._point()]

    @property
    def closed(self) -> bool:
        """Whether the incumbent is proven optimal."""
        return self.timing.objective <= self.bound

    @property
    def _seconds_left(self) -> float:
        return self.budget.seconds - (time.perf_counter() - self.began)

    def solve_whole(self, share: float) -> None:
        """Decide everything anew, within a share of the budget; raises the bound."""
        seconds, limit = self._seconds_left, self.budget.limit * share
        if self._exhausted(seconds, limit):
            return
        before = self.points[-1]
        watch = None if self.watch is None else self._bounds
        solution = self._solve(range(len(self.problem.cycles)), Budget(seconds * share, limit), watch)
        self.limited = self.limited or solution.effort.limited
        self.exhausted = solution.status == "optimal"
        self.bound = max(self.bound, solution.bound or 0.0)
        # Incumbents of the model are relaxed, bounds hold.
        for point in later(solution.effort.points, before.work):
            bound = max(before.bound or 0.0, point.bound or 0.0)
            self.points.append(SearchPoint(point.work, before.incumbent, bound))
        self.points.append(self._point())

    def _bounds(self, incumbent: float | None, bound: float | None) -> None:
        """Of the model of the whole, only bounds are told: its incumbents are relaxed."""
        if self.watch is not None:
            self.watch(float(self.timing.objective), max(self.bound, bound or 0.0))

    def solve_window(self, slots: range, limit: float) -> None:
        """Decide a window anew, within ``limit`` deterministic seconds."""
        seconds, limit = self._seconds_left, min(limit, self.budget.limit - self.spent)
        if self._exhausted(seconds, limit):
            return
        solution = self._solve(slots, Budget(seconds, limit))
        self.stopped = self.stopped or solution.effort.timed_out
        self.points.append(self._point())
        if self.watch is not None:
            self.watch(float(self.timing.objective), self.bound)

    def _point(self) -> SearchPoint:
        """What is known now."""
        return SearchPoint(self.spent, float(self.timing.objective), self.bound)

    def _exhausted(self, seconds: float, limit: float) -> bool:
        # Models of many slots cost more than all there is to search with.
        too_large = self.building > BUILDING and self.building >= self.budget.limit
        if seconds > 0 and limit > 0 and not too_large:
            return False
        self.timed_out = self.timed_out or (limit > 0 and not too_large)
        self.limited = self.limited or ((too_large or limit <= 0) and self.budget.limit > 0)
        self.stopped = True
        return True

    def _solve(self, slots: range, budget: Budget, watch: Watch | None = None) -> Solution:
        """Solve a window; a better answer becomes the incumbent."""
        model = ResidencyModel(self.problem, self.room, self.best, slots, self.timing.end)
        model.hint(self.best)
        solution = solve(model.model, budget=budget, seed=self.seed, watch=watch)
        self.spent += solution.effort.deterministic_seconds + self.building
        self.timed_out = self.timed_out or solution.effort.timed_out
        self.stopped = self.stopped or solution.interrupted
        self.searches += 1
        self.size = max(self.size, (solution.effort.variables, solution.effort.constraints))
        if solution.status == "infeasible":
            raise RuntimeError("residency: the incumbent fits, but the model says that nothing does")
        if solution.has_solution:
            decided = model.decisions(solution)
            for passed_over in PASSED_OVER:
                decisions = with_fetch_slots(self.problem, self.room, decided, passed_over)
                timing = evaluate_decisions(self.problem, decisions)
                if timing.objective < self.timing.objective:
                    self.best, self.timing = decisions, timing
        return solution

    def rounds(self) -> None:
        """Windows over the slots that wait."""
        uses = WINDOW_USES
        while not (self.stopped or self.closed or self.exhausted):
            before = self.timing.objective
            for slots in self._windows(uses):
                if self.stopped or self.closed:
                    return
                if self._waits(slots):
                    self.solve_window(slots, WINDOW_LIMIT * uses / WINDOW_USES)
            if before - self.timing.objective < LEAST_IMPROVEMENT * before:
                return
            uses += WINDOW_USES // 2

    def _windows(self, uses: int) -> Iterator[range]:
        """Ranges of slots with about so many uses, each from the middle of the one before it."""
        by_slot = np.zeros(len(self.problem.cycles), dtype=np.int64)
        for item in self.problem.items:
            for use in item.uses:
                by_slot[use.slot] += 1
        before = np.concatenate([[0], np.cumsum(by_slot)])
        first = 0
        while first < len(by_slot):
            last = int(np.searchsorted(before, before[first] + uses, side="right"))
            last = min(len(by_slot), max(last - 1, first + 1))
            yield range(first, last)
            if last == len(by_slot):
                return
            first = max(first + 1, int(np.searchsorted(before, before[first] + uses // 2)))

    def _waits(self, slots: range) -> bool:
        """Whether the computation waits in these slots for long enough to be worth a model."""
        duration = self.timing.begin[slots.stop] - self.timing.begin[slots.start]
        work = sum(self.problem.cycles[slots.start : slots.stop])
        return duration - work > LEAST_IMPROVEMENT * self.timing.end

    def incumbent(self) -> ResidencyIncumbent:
        """The best decisions found, and what is proven."""
        status = "optimal" if self.closed else "feasible"
        effort = Effort(
            time.perf_counter() - self.began, self.spent, self.timed_out, self.limited,
            thinned(self.points) if self.searches else (), self.searches, *self.size,
        )  # fmt: skip
        return ResidencyIncumbent(self.best, self.timing, status, self.bound, effort)
