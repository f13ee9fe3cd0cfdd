"""The best plan so far: what every step of the search must beat, and what is left when the search ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.plan import Plan, Solved
from ..cpsat.log import Record
from ..effort import Effort
from ..options import TOLERANCE, Ending, ModelRun, Planned
from .referee import Referee


@dataclass(frozen=True)
class Best:
    """A plan, and what the models answered for it; ``simulated``: its cycles are those of a simulation."""

    plan: Plan
    simulated: bool = False

    def answers(self, *models: str) -> tuple[Solved, ...]:
        """What these models answered."""
        return tuple(s for s in self.plan.solved if s.model in models)


class Incumbent:
    """The best plan, replaced only by better ones, so that an interrupt at any time leaves a valid one.

    ``lower_bound``: the cycles that no plan can beat, and the resource that they are of. A plan that is predicted to
    meet it is simulated, and carries the simulated cycles instead of the predicted ones from then on. A simulation is
    beaten by simulations alone: predictions may be lower because of what they leave out.
    """

    def __init__(self, record: Record, lower_bound: tuple[int, str], referee: Referee) -> None:
        self.record = record
        self.bound, self.reason = lower_bound
        self.referee = referee
        self.best: Best | None = None
        self.unjudged = False
        """Whether the timeout did not pay for a simulation without which no better plan can be told."""

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
    def is_final(self) -> bool:
        """Whether the best plan cannot be better, or neither time nor simulations are left to look for one."""
        return self.best is not None and (self.is_optimal or self.unjudged or self.is_over)

    def offer(self, iteration: int, plan: Plan) -> None:
        """A checked plan of an iteration: keep it if it is better than the best."""
        # The timeline is an estimate, the bound is not: a plan that is predicted to be faster takes at least the bound.
        candidate = Best(self._with_cycles(plan, plan.cycles_predicted))
        before, better = self.best, self._is_better(candidate)
        if better and (self._meets_bound(candidate.plan) or (before is not None and before.simulated)):
            # What is the best only by its prediction has to be there if the user interrupts the simulation.
            self.best = before or candidate
            candidate, better = self._judged(candidate, before)
        if better:
            self.best = candidate
        self._log(iteration, candidate, better)

    def _judged(self, candidate: Best, before: Best | None) -> tuple[Best, bool]:
        """The candidate with its simulated cycles, if there can be a simulation, and whether it is better."""
        cycles = self.referee.cycles(candidate.plan)
        if cycles is None:
            self.unjudged = not self.referee.believes
            return candidate, before is None or not before.simulated
        candidate = Best(self._with_cycles(candidate.plan, cycles), simulated=True)
        if before is None or self._is_better(candidate):
            return candidate, True
        if not before.simulated:
            # It was better by the predictions; how far that of the other can be believed is not known.
            cycles = self.referee.cycles(before.plan)
            if cycles is None:
                return candidate, True
            self.best = Best(self._with_cycles(before.plan, cycles), simulated=True)
        return candidate, self._is_better(candidate)

    def _with_cycles(self, plan: Plan, cycles: int) -> Plan:
        cycles = max(cycles, self.bound)
        return replace(plan, cycles_predicted=cycles, lower_bound_cycles=self.bound, lower_bound_reason=self.reason)

    def _is_better(self, candidate: Best) -> bool:
        return self.best is None or candidate.plan.cycles_predicted < self.best.plan.cycles_predicted

    def _meets_bound(self, plan: Plan) -> bool:
        return plan.cycles_predicted <= self.bound * (1 + TOLERANCE)

    def _log(self, iteration: int, candidate: Best, better: bool) -> None:
        plan = candidate.plan
        proven = self._meets_bound(plan) and (candidate.simulated or self.referee.believes)
        cycles, bound = float(plan.cycles_predicted), float(self.bound)
        solved = Solved("plan", "optimal" if proven else "feasible", cycles, bound, "cycles")
        note = f"iteration {iteration}, {len(plan.segments)} segments"
        note += (", simulated" if candidate.simulated else "") + ("" if better else ", not better")
        self.note(ModelRun.of(solved, Effort(self.record.seconds), note))

    def note(self, run: ModelRun) -> None:
        """Log a run. A model that the user interrupted stops with what it has: that is the end if there is no plan."""
        self.record.run(run)
        if self.record.interrupts.seen and self.best is None:
            raise KeyboardInterrupt

    def planned(self, ending: Ending, unpaid: tuple[str, ...]) -> Planned:
        """The best plan with the log; ``ending`` unless the user or the clock ended it."""
        assert self.best is not None
        return Planned(self.best.plan, self.record.log(ending, unpaid))
