"""What a plan really takes: a simulation of its program, for a search that would stop at a prediction."""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.machine import Machine
from ..ir.plan import Plan
from ..lowering import lower
from ..simulator import simulate
from ..solver.options import Judge


def judge(graph: Graph, machine: Machine) -> Judge:
    """The simulated cycles of plans of a network for a machine; nothing is computed."""

    def simulated_cycles(plan: Plan) -> int:
        return simulate(lower(graph, plan, machine), machine, {}, {}, data=False).summary.cycles

    return simulated_cycles
