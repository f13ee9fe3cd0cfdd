"""Compiled networks without the solver, for tests of what is done with them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from girih.api.compile import Compiled
from girih.api.options import CompileOptions
from girih.ir.load_machine import load_machine
from girih.lowering import lower
from girih.solver.options import ModelRun, SolveLog
from tests.support.graphs import residual
from tests.support.plans.sequential_plans import sequential_plan

LOG = SolveLog(
    (
        ModelRun("tiling", "feasible", 120.0, 100.0, 0.5, 0.1, "cycles", "a cut"),
        ModelRun("tiling", "optimal", 110.0, 110.0, 0.25, 0.1, "cycles"),
        ModelRun("banks", "optimal", None, None, 0.25, 0.1, "conflicts"),
    ),
    1.0,
)


@lru_cache(maxsize=1)
def compiled_residual() -> Compiled:
    """A residual network of nine operators on the default machine."""
    graph, machine = residual(), load_machine("stcp920")
    plan = replace(
        sequential_plan(graph, machine), cycles_predicted=9000, lower_bound_cycles=6000, lower_bound_reason="MME"
    )
    options = CompileOptions(batch=2)
    return Compiled(graph, plan, lower(graph, plan, machine), machine, LOG, options, b"no network", {"plan": 1.0})
