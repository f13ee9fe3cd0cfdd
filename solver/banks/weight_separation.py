"""Weight separation applied to a plan: operators that follow one another keep their weights apart, if there is room.

Each segment is placed by itself, so that weights of one operator often lie where those of the operator before it are
still in use, and wait for it. Over the whole program, their addresses are chosen anew; any are valid, since no
two operators of a segment have weights at one time.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan, Solved
from ..cpsat.backend import Budget
from ..effort import Effort
from ..options import ModelRun
from .separation_model import separate
from .separation_problem import greedily_separated, separation_problem


def with_separated_weights(
    graph: Graph, machine: Machine, plan: Plan, budget: Budget, seed: int
) -> tuple[Plan, ModelRun] | None:
    """``plan`` with other addresses in weight memory, its predictions not made anew; ``None`` if none are better."""
    level = machine.levels.weights
    number = {i: n for n, i in enumerate(i for i, b in enumerate(plan.local) if b.use == level.use and b.bytes)}
    if not number:
        return None
    buffers, base = [plan.local[i] for i in number], level.base
    problem, unit = separation_problem(graph, machine, plan, buffers)
    before = [(b.address - base) // unit for b in buffers]
    at, effort = separate(problem, greedily_separated(problem, before), budget, seed)
    local = tuple(
        replace(b, address=base + at[number[i]] * unit) if i in number else b for i, b in enumerate(plan.local)
    )
    if local == plan.local:
        return None
    return replace(plan, local=local), _run(problem.waits(at), plan, machine, effort)


def _run(waits: int, plan: Plan, machine: Machine, effort: Effort) -> ModelRun:
    status = "feasible" if waits else "optimal"
    solved = Solved(f"banks:{machine.levels.weights.name}", status, float(waits), 0.0, "cycles that weights wait")
    return ModelRun.from_solved(solved, effort, f"{len(plan.steps)} steps together")
