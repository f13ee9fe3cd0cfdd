"""When a planning counts as ended by the clock: if it left something out, not if it merely took long."""

from __future__ import annotations

import time

from girih.ir.plan import Solved
from girih.solver.cpsat.backend import Budget, solve
from girih.solver.cpsat.log import Record
from girih.solver.effort import NO_EFFORT
from girih.solver.options import ModelRun
from tests.support.cpsat import jobs, knapsack

SOLVED = Solved("banks", "feasible", None, None, "bytes")


def test_to_take_long_is_not_to_be_cut_short() -> None:
    record = Record(0.0, None)
    time.sleep(0.001)
    assert record.log().is_reproducible


def test_who_asks_ends_the_search() -> None:
    record = Record(0.0, None)
    time.sleep(0.001)
    assert record.over()
    assert record.log().status == "timeout"


def test_in_time() -> None:
    record = Record(1000.0, None)
    assert not record.over()
    assert record.log().is_reproducible


def test_a_search_that_the_clock_ends_counts() -> None:
    record = Record(1000.0, None)
    effort = solve(jobs(), budget=Budget(0.2, 1000.0)).effort
    assert effort.timed_out
    record.run(ModelRun.from_solved(SOLVED, effort))
    record.run(ModelRun.from_solved(SOLVED, NO_EFFORT))
    assert record.log().status == "timeout"


def test_a_search_that_ends_by_itself_does_not() -> None:
    record = Record(1000.0, None)
    closed, limited = solve(knapsack(), budget=Budget(100.0, 1.0)), solve(jobs(), budget=Budget(100.0, 0.01))
    assert closed.status == "optimal" and not limited.effort.timed_out
    for solution in (closed, limited):
        record.run(ModelRun.from_solved(SOLVED, solution.effort))
    assert record.log().is_reproducible
