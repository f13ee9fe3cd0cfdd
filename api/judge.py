"""What a plan becomes and really takes, for a search that knows neither lowering nor simulator."""

from __future__ import annotations

from ..ir.plan import Plan
from ..lowering import Lowerer
from ..simulator import simulate
from ..solver.options import Judge


def judge(lowerer: Lowerer) -> Judge:
    """The simulated cycles of plans of a network for a machine; nothing is computed."""

    def simulated_cycles(plan: Plan) -> int:
        return simulate(lowerer.program(plan), lowerer.machine, {}, {}, data=False).summary.cycles

    return simulated_cycles
