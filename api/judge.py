"""What a plan becomes and really takes, for a search that knows neither lowering nor simulator."""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.machine import Machine
from ..ir.plan import Plan
from ..lowering import lower, tasks
from ..simulator import simulate
from ..solver.options import Judge, Tasks


def judge(graph: Graph, machine: Machine) -> Judge:
    """The simulated cycles of plans of a network for a machine; nothing is computed."""

    def simulated_cycles(plan: Plan) -> int:
        return simulate(lower(graph, plan, machine), machine, {}, {}, data=False).summary.cycles

    return simulated_cycles


def tasks_of(graph: Graph, machine: Machine) -> Tasks:
    """The instructions of plans of a network for a machine, without an order."""
    return lambda plan: tasks(graph, plan, machine)
