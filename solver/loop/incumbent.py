"""The best plan so far: what every step of the search must beat, and what is left when the search ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.plan import Plan, Solved
from ..cpsat.log import Record
from ..effort import Effort
from ..options import Ending, ModelRun, Planned


@dataclass(frozen=True)
class Best:
    """A plan, and what the models answered for it."""

    plan: Plan

    def answers(self, *models: str) -> tuple[Solved, ...]:
        """What these models answered."""
        return tuple(s for s in self.plan.solved if s.model in models)


class Incumbent:
    """The best plan, replaced only by better ones, so that an interrupt at any time leaves a valid one.

    ``lower_bound``: the cycles that no plan can beat, and the resource that they are of.
    """

    def __init__(self, record: Record, lower_bound: tuple[int, str]) -> None:
        self.record = record
        self.bound, self.reason = lower_bound
        self.best: Best | None = None

    @property
    def is_over(self) -> bool:
        """Whether the user or the clock ended the search."""
        return self.record.interrupts.seen or self.record.over()

    @property
    def is_optimal(self) -> bool:
        """Whether the best plan takes no longer than the lower bound."""
        return self.best is not None and self.best.plan.cycles_predicted <= self.bound

    @property
    def is_final(self) -> bool:
        """Whether the best plan cannot be better, or there is no time to look for one."""
        return self.best is not None and (self.is_optimal or self.is_over)

    def offer(self, iteration: int, plan: Plan) -> None:
        """A checked plan of an iteration: keep it if it is better than the best."""
        # The timeline is an estimate, the bound is not: a plan that is predicted to be faster takes at least the bound.
        predicted = max(plan.cycles_predicted, self.bound)
        plan = replace(plan, cycles_predicted=predicted, lower_bound_cycles=self.bound, lower_bound_reason=self.reason)
        better = self.best is None or plan.cycles_predicted < self.best.plan.cycles_predicted
        if better:
            self.best = Best(plan)
        status = "optimal" if plan.cycles_predicted <= self.bound else "feasible"
        solved = Solved("plan", status, float(plan.cycles_predicted), float(self.bound), "cycles")
        note = f"iteration {iteration}, {len(plan.segments)} segments" + ("" if better else ", not better")
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
