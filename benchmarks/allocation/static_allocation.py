"""Static allocation by itself: an offset for every buffer of one memory, as low a peak as can be found.

The constraint model is that of :mod:`girih.solver.banks.model` with one bank: (1) capacity, (2) no overlap within each
maximal set of buffers that live at one time, and (5) order while any packing will do. To minimise:

 (6) peak: a_r + z_r <= P for all r, largest load <= P; minimise P.

What makes it tractable:

* units: sizes, offsets and capacity are divided by the greatest common divisor of the sizes; time is compressed to
  the maximal sets.
* rounds: the solver, guided by an order of preference and with little time, runs beside the search of
  :mod:`benchmarks.allocation.backjumping`, which learns from its failures; the solver's next order is the one learned
  last, and both get more time each round. Either may find a packing below the goal, the solver's goes first if both do,
  and the solver may prove that there is none.
* the answer: what the search found is a hint, under which the solver solves the model, then improves what is not
  proven optimal.

Bounds: the largest load; above it whatever the solver proves.

Deterministic unless the wall clock strikes or the user interrupts: all work is counted in deterministic seconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import gcd
from typing import Literal

from benchmarks.allocation.backjumping import restarts
from girih.ir.machine import Memory
from girih.solver.banks.first_fit import Item, cliques, pack, peak
from girih.solver.banks.model import addresses, no_overlap, ordered
from girih.solver.banks.problem import BankProblem, BufferRequest
from girih.solver.cpsat.backend import Budget, Model, Solution, Status, Var, solve
from girih.solver.effort import Effort

ROUND = 0.02
"""Deterministic seconds of each side in the first round."""
GROWTH = 1.3
"""From round to round."""
FAILURES = 150_000
"""Failures of the search that count as a deterministic second: about as long as the solver takes for one."""
FITTING = 0.7
"""Of what is not, to get below the capacity at all."""
ANSWERING = 0.2
"""Of the budget, kept for the last model."""
LOWERING = 0.05
"""Of what is left then, to get below one lower goal."""

Source = Literal["solver", "search", "first fit"]


@dataclass(frozen=True)
class Buffer:
    """``size`` bytes (at least 1) during ``lower <= t < upper``."""

    name: str
    lower: int
    upper: int
    size: int


@dataclass(frozen=True)
class Allocation:
    """An offset for each buffer (bytes), the highest end, and what no allocation can be below.

    ``status``: *optimal* (the peak is the bound), *feasible* (it is within the capacity), *unknown* (it is not, though
    that may be possible) or *infeasible* (the bound is above the capacity). Offsets never overlap, whatever the status.
    ``source``: whose answer the offsets are; ``hinted``: the solver had them, or worse ones, from the search.
    """

    status: Status
    offsets: tuple[int, ...]
    peak: int
    bound: int
    source: Source
    hinted: bool
    effort: Effort
    interrupted: bool


def allocate(
    buffers: Sequence[Buffer], capacity: int, *, budget: Budget, seed: int = 0, minimise: bool = False
) -> Allocation:
    """Offsets within ``capacity`` bytes if they are found; with ``minimise``, as low as the budget allows.

    Always returns the best known, be it above the capacity. An interrupt (Ctrl-C) ends the search and keeps that.
    Without ``minimise`` nothing is searched when the largest load exceeds the capacity.
    """
    run = _Run(buffers, capacity, budget, seed)
    try:
        if minimise:
            run.minimise()
        elif run.bound <= run.capacity and run.fit(run.capacity, run.limit):
            run.confirm()
    except KeyboardInterrupt:
        run.interrupted = True
    return run.allocation()


class _Run:
    """The best packing so far, the bound, and the time that is spent; sizes in units."""

    def __init__(self, buffers: Sequence[Buffer], capacity: int, budget: Budget, seed: int) -> None:
        self.began = time.perf_counter()
        self.buffers, self.budget, self.seed = buffers, budget, seed
        self.unit = gcd(*(b.size for b in buffers)) or 1
        self.items = tuple(Item(b.size // self.unit, b.lower, b.upper) for b in buffers)
        self.capacity = min(capacity // self.unit, sum(item.size for item in self.items))
        self.bound = max((sum(self.items[i].size for i in c) for c in cliques(self.items)), default=0)
        self.at = pack(self.items, self.bound, rounds=0)
        self.peak = peak(self.items, self.at)
        self.source: Source = "first fit"
        self.hinted = False
        self.until = budget.seconds * (1 - ANSWERING)
        self.limit = budget.limit * (1 - ANSWERING)
        self.spent = 0.0
        self.timed_out = self.interrupted = False

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def remaining_seconds(self) -> float:
        """Seconds of the wall clock until it strikes."""
        return max(0.0, self.until - self.seconds)

    @property
    def over(self) -> bool:
        """Whether it is time to stop, whatever was reached."""
        if not self.timed_out and not self.remaining_seconds:
            self.timed_out = True
        return self.timed_out or self.interrupted or self.spent >= self.limit

    def fit(self, goal: int, limit: float) -> bool:
        """Get to ``goal`` or below within ``limit`` deterministic seconds."""
        attempts = restarts(self.items, goal, self.seed)
        order = sorted(
            range(len(self.items)),
            key=lambda i: (self.items[i].first - self.items[i].last, -self.items[i].size, i),
        )
        end = min(self.limit, self.spent + limit)
        share = ROUND
        with ThreadPoolExecutor(1) as aside:
            while self.bound <= goal < self.peak and not self.over and self.spent < end:
                share = min(share, end - self.spent)
                guided = aside.submit(self._guided, goal, order, Budget(self.remaining_seconds, share))
                failures, searched = 0, None
                while searched is None and failures < share * FAILURES and self.remaining_seconds:
                    attempt = next(attempts, None)
                    if attempt is None:
                        break
                    failures += attempt.failures + 1
                    order, searched = attempt.order, attempt.at
                solution, solved = guided.result()
                self.timed_out = self.timed_out or solution.effort.timed_out
                self.spent += max(solution.effort.deterministic_seconds, failures / FAILURES)
                share *= GROWTH
                if solution.status == "infeasible":
                    self.bound = goal + 1
                elif solved is not None:
                    self._take(solved, "solver")
                elif searched is not None:
                    self._take(searched, "search")
        return self.peak <= goal

    def minimise(self) -> None:
        """Below the capacity first, then halfway to what failed, again and again; at last the model decides."""
        goal = max(self.bound, min(self.capacity, self.peak - 1))
        share = self.limit * FITTING
        low = self.bound - 1
        while low + 1 < self.peak and not self.over:
            if not self.fit(goal, share):
                low = goal
            share = (self.limit - self.spent) * LOWERING
            low = max(low, self.bound - 1)
            goal = self.bound if low < self.bound else (low + self.peak) // 2
        if self.peak == self.bound:
            self.confirm()
        else:
            self._lower()

    def confirm(self) -> None:
        """Have the solver answer the model, where the best packing is not its own."""
        if self.source == "solver":
            return
        problem = self._problem(self.peak)
        model = Model("allocation")
        offset = addresses(problem, model)
        no_overlap(problem, model, offset)
        self._last(model, offset)

    def _lower(self) -> None:
        """(6), from the best packing."""
        problem = self._problem(self.peak)
        model = Model("allocation")
        offset = addresses(problem, model)
        no_overlap(problem, model, offset)
        top = model.int(self.bound, self.peak, "peak")
        for var, item in zip(offset, self.items, strict=True):
            model.add(var + item.size <= top)
        model.minimize(top)
        model.hint(top, self.peak)
        self._last(model, offset)

    def _guided(self, goal: int, order: Sequence[int], budget: Budget) -> tuple[Solution, list[int] | None]:
        """Any packing below ``goal``: the lowest first, in ``order`` where several are."""
        problem = self._problem(goal)
        model = Model("allocation")
        offset = addresses(problem, model)
        no_overlap(problem, model, offset)
        ordered(problem, model, offset)
        model.lowest_first(offset[i] for i in order)
        solution = solve(model, budget=budget, seed=self.seed)
        return solution, [solution.value(var) for var in offset] if solution.has_solution else None

    def _last(self, model: Model, offset: Sequence[Var]) -> None:
        """Solve the model with what is left of the budget; the best packing is the hint."""
        if self.interrupted:
            return
        for var, value in zip(offset, self.at, strict=True):
            model.hint(var, value)
        self.until, self.limit = self.budget.seconds, self.budget.limit
        solution = solve(
            model, budget=Budget(self.remaining_seconds, max(0.0, self.limit - self.spent)), seed=self.seed
        )
        self.spent += solution.effort.deterministic_seconds
        self.interrupted = solution.interrupted
        self.timed_out = self.timed_out or solution.effort.timed_out
        if solution.bound is not None:
            self.bound = max(self.bound, round(solution.bound))
        if solution.has_solution:
            self.hinted = True
            self._take([solution.value(var) for var in offset], "solver")

    def _take(self, at: list[int], source: Source) -> None:
        self.at, self.peak, self.source = at, peak(self.items, at), source

    def _problem(self, capacity: int) -> BankProblem:
        requests = tuple(BufferRequest(b.name, b.size, (b.lower, b.upper)) for b in self.buffers)
        memory = Memory("memory", "core", capacity * self.unit, 1, 1, 0)
        return BankProblem(requests, memory, self.unit, self.items, capacity, 0, ())

    def allocation(self) -> Allocation:
        if self.bound > self.capacity:
            status: Status = "infeasible"
        elif self.peak == self.bound:
            status = "optimal"
        else:
            status = "feasible" if self.peak <= self.capacity else "unknown"
        return Allocation(
            status,
            tuple(a * self.unit for a in self.at),
            self.peak * self.unit,
            self.bound * self.unit,
            self.source,
            self.hinted,
            Effort(self.seconds, self.spent, self.timed_out),
            self.interrupted,
        )
