"""The best plan so far: what every step of the search must beat, and what is left when the search ends."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from ...ir.errors import GirihError
from ...ir.plan import Plan, Solved
from ..cpsat.log import Record
from ..effort import Effort, SearchPoint
from ..options import TOLERANCE, Ending, ModelRun, Planned
from .referee import Referee

RIVAL = 1.01
"""A plan that was the best, and is predicted to take at most so many times the cycles of the best, may take fewer with
an order of queues. Chosen: of DenseNet-121 at batch 32, two such plans are 0.5 % apart, and 1.4 % the other way with
orders of their own (simulated)."""
LOOSE = 2.0
"""Plans of more than so many times the bound are loose. Chosen; on cores with 24 KiB the heuristics, made for cores
with hundreds, gave up to seven times the cycles of single operators."""


@dataclass(frozen=True)
class Best:
    """The best plan so far."""

    plan: Plan

    @property
    def simulated(self) -> bool:
        """Whether its cycles are those of a simulation."""
        return self.plan.cycles_simulated is not None


class OutOfTimeError(Exception):
    """The clock ended a search before its first plan; who has another one goes on with that."""


class Incumbent:
    """The best plan, replaced only by better ones, so that an interrupt at any time leaves a valid one.

    ``lower_bound``: the cycles that no plan can beat, and the resource that they are of. A plan that is predicted to
    meet it is simulated, and compared by the simulated cycles from then on. A simulation is beaten by simulations
    alone: predictions may be lower because of what they leave out. A plan whose simulation is refused
    (:class:`.referee.Referee`) cannot replace a simulated best. ``any_plan``: the first one is good enough.
    ``expendable``: the clock may end the search before there is a plan.
    """

    def __init__(
        self, record: Record, lower_bound: tuple[int, str], referee: Referee, *, any_plan: bool = False,
        expendable: bool = False,
    ) -> None:  # fmt: skip
        self.record = record
        self._expendable = expendable
        self.any_plan = any_plan
        self.bound, self.reason = lower_bound
        self.referee = referee
        self.best: Best | None = None
        self._former: list[Plan] = []
        """What was the best before and is nearly as good by prediction, in that order."""
        self._first: Plan | None = None
        """The first of all, that of the heuristics where there is one."""

    @property
    def is_over(self) -> bool:
        """Whether the user or the clock ended the search."""
        return self.record.interrupts.seen or self.record.over()

    @property
    def is_optimal(self) -> bool:
        """Whether the best plan takes no longer than the lower bound, by a simulation if there can be one."""
        if self.best is None or not (self.best.simulated or self.referee.believes):
            return False
        return self._meets_bound(self.best.plan)

    @property
    def is_loose(self) -> bool:
        """Whether the best plan, if there is one, takes so many times the bound that any other way may be quicker."""
        return self.best is not None and self.best.plan.cycles > LOOSE * self.bound

    @property
    def is_final(self) -> bool:
        """Whether no better plan can be told from the best, or the search is over.

        None can if any plan will do, if the best is optimal, if its prediction meets the bound and its simulation was
        refused, or if there were as many simulations as a search may make.
        """
        if self.best is None:
            return False
        return self.any_plan or self.is_over or self.referee.used_up or self._meets_bound(self.best.plan)

    def offer(self, iteration: int, plan: Plan, origin: str = "") -> None:
        """A checked plan of an iteration: keep it if it is better than the best. ``origin``: where it is from."""
        assert plan.cycles_simulated is None
        # The timeline is an estimate, the bound is not: a plan that is predicted to be faster takes at least the bound.
        cycles = max(plan.cycles_predicted, self.bound)
        bounded = replace(plan, cycles_predicted=cycles, lower_bound_cycles=self.bound, lower_bound_reason=self.reason)
        candidate = Best(bounded)
        before, better = self.best, self._is_better(candidate)
        if better and (self._meets_bound(candidate.plan) or (before is not None and before.simulated)):
            # What is the best only by its prediction has to be there if the user interrupts the simulation.
            self.best = before or candidate
            candidate, better = self._judged(candidate, before)
        if better:
            self.best = candidate
            self._first = self._first or candidate.plan
            former = [*self._former, *([before.plan] if before is not None else ())]
            self._former = [plan for plan in former if self._is_close(plan)]
        self._log(iteration, candidate, better, origin)

    def _judged(self, candidate: Best, before: Best | None) -> tuple[Best, bool]:
        """The candidate with its simulated cycles, if there can be a simulation, and whether it is better."""
        cycles = self.referee.cycles(candidate.plan)
        if cycles is None:
            return candidate, before is None or not before.simulated
        candidate = self._simulated(candidate.plan, cycles)
        if before is None or self._is_better(candidate):
            return candidate, True
        if not before.simulated:
            # It was better by the predictions; how far that of the other can be believed is not known.
            cycles = self.referee.cycles(before.plan)
            if cycles is None:
                return candidate, True
            self.best = self._simulated(before.plan, cycles)
        return candidate, self._is_better(candidate)

    def _simulated(self, plan: Plan, cycles: int) -> Best:
        """The plan with its simulated cycles; raises :class:`GirihError` if they disprove the lower bound."""
        if cycles < self.bound:
            raise GirihError(
                f"this is a bug: a simulation took {cycles:,} cycles, {self.bound - cycles:,} fewer than the lower "
                f"bound of {self.bound:,} ({self.reason}), so that one of the two is wrong; please report the network"
            )
        return Best(replace(plan, cycles_simulated=cycles))

    def _is_better(self, candidate: Best) -> bool:
        return self.best is None or candidate.plan.cycles < self.best.plan.cycles

    def _meets_bound(self, plan: Plan) -> bool:
        return plan.cycles <= self.bound * (1 + TOLERANCE)

    def _log(self, iteration: int, candidate: Best, better: bool, origin: str) -> None:
        plan = candidate.plan
        proven = self._meets_bound(plan) and (candidate.simulated or self.referee.believes)
        cycles, bound = float(plan.cycles), float(self.bound)
        solved = Solved("plan", "optimal" if proven else "feasible", cycles, bound, "cycles")
        note = f"iteration {iteration}, {len(plan.segments)} segments" + (f", {origin}" if origin else "")
        note += (", simulated" if candidate.simulated else "") + ("" if better else ", not better")
        best = cycles if self.best is None else float(self.best.plan.cycles)
        state = SearchPoint(0.0, best, bound)
        self.note(ModelRun.from_solved(solved, Effort(self.record.seconds, points=(state,)), note))

    def note(self, run: ModelRun) -> None:
        """Log a run. A model that the user interrupted stops with what it has: that is the end if there is no plan.

        It is for the clock, too, if the search is expendable (:class:`OutOfTimeError`).
        """
        self.record.run(run)
        if self.best is not None:
            return
        if self.record.interrupts.seen:
            raise KeyboardInterrupt
        if self._expendable and self.record.over():
            raise OutOfTimeError

    def planned(self, ending: Ending, unpaid: tuple[str, ...]) -> Planned:
        """The best plan with the log; ``ending`` unless the user or the clock ended it."""
        assert self.best is not None
        first = None if self.best.simulated or self._first is self.best.plan else self._first
        return Planned(self.best.plan, self.record.log(ending, unpaid), self._rival(self.best), first)

    def _is_close(self, plan: Plan) -> bool:
        """Whether a plan without a simulation is predicted to take hardly more than the best."""
        assert self.best is not None
        return plan.cycles_simulated is None and plan.cycles_predicted <= RIVAL * self.best.plan.cycles_predicted

    def _rival(self, best: Best) -> Plan | None:
        """Of the former bests that are close and have other segments, tiles or steps, the first, as it has been changed
        the most since; ``None`` where simulations decide."""
        if best.simulated:
            return None
        # Later ones are better, so that of each tiling the best is left.
        of_tiling = {_tiling(plan): plan for plan in self._former}
        of_tiling.pop(_tiling(best.plan), None)
        return next(iter(of_tiling.values()), None)


def _tiling(plan: Plan) -> Hashable:
    """The segments of a plan, their tiles, and the order of steps."""
    tiles = tuple(tuple(tile.cut for tile in segment.tiles) for segment in plan.segments)
    return tuple(segment.bare for segment in plan.segments), tiles, plan.steps
