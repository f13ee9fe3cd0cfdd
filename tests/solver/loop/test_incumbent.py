"""The best plan so far is one that the checker and the cache accept."""

from __future__ import annotations

from dataclasses import replace

from girih.ir.checks.check_plan import check_plan
from girih.ir.load_machine import load_machine
from girih.solver.cpsat.log import Record
from girih.solver.loop.incumbent import Incumbent
from tests.support.graphs import residual
from tests.support.plain_plans import plain_plan

TINY = load_machine("tiny")


def test_no_plan_is_predicted_to_be_faster_than_its_lower_bound() -> None:
    graph = residual(1)
    plan = replace(plain_plan(graph, TINY), cycles_predicted=99)
    incumbent = Incumbent(Record(60.0, None), (100, "compute"))
    incumbent.offer(0, plan)
    best = incumbent.planned("exhausted", ()).plan
    check_plan(best, graph, TINY)
    assert (best.cycles_predicted, best.lower_bound_cycles) == (100, 100)
    incumbent.offer(1, replace(plan, cycles_predicted=98))
    assert "not better" in incumbent.record.log().runs[-1].note
