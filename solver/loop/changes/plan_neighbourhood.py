"""What changes of a plan need besides the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.plan import Plan
from ...segmentation.candidates import Candidates
from ...subproblem.subproblem import Subproblem
from ...subproblem.tiling_alternatives import TilingCuts
from ...subproblem.time_budget import Iteration
from ...switches import Switch
from ..incumbent import Best, Incumbent


@dataclass(frozen=True)
class Neighbourhood:
    """The best plan so far, the models below segmentation, columns, cuts on tiles, and budgets.

    ``paid``: whether the timeout pays for another change.
    """

    incumbent: Incumbent
    subproblem: Subproblem
    candidates: Candidates
    cuts: TilingCuts
    iteration: Iteration
    paid: Callable[[], bool]

    @property
    def best(self) -> Best:
        """The best plan so far; there is one."""
        assert self.incumbent.best is not None
        return self.incumbent.best

    def allows(self, switch: Switch) -> bool:
        """Whether changes of a kind are to be tried, and may give a better plan."""
        return switch not in self.subproblem.options.disabled and not self.incumbent.is_final

    def tries(self, switch: Switch) -> bool:
        """Whether, besides, the timeout pays for them."""
        return self.allows(switch) and self.paid()

    def predicted(self, plan: Plan) -> Plan:
        """A changed plan with its prediction."""
        # The incumbent knows the bound; a prediction may be below it. Another plan has another simulation.
        return self.subproblem.timed(plan.unjudged)

    def offer(self, plan: Plan) -> Plan:
        """A changed plan that is predicted is offered as the best, and returned."""
        self.incumbent.offer(self.iteration.number, plan)
        return plan
