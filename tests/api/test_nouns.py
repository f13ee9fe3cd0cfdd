"""Every noun of one compilation and one run has JSON, reads back equal, and passes the check that is independent of
whoever made it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from girih.api.run import Result, make_inputs
from girih.explain.report import Report
from girih.ir.checks.check_graph import check_graph
from girih.ir.checks.check_machine import check_machine
from girih.ir.checks.check_plan import check_plan
from girih.ir.codec import from_json, to_json
from girih.ir.graph import Graph
from girih.ir.isa.row import Row
from girih.ir.isa.table import ROWS
from girih.ir.machine import Machine
from girih.ir.plan import Plan
from girih.ir.program import Program
from girih.ir.trace import Trace
from girih.simulator import simulate
from tests.support.compiled import compiled_residual


@lru_cache(maxsize=1)
def trace() -> Trace:
    package = compiled_residual()
    arrays = make_inputs(package, 0)
    return simulate(package.program, package.machine, package.graph.data, arrays)


NOUNS: dict[Any, Callable[[], object]] = {
    Graph: lambda: compiled_residual().graph,
    Plan: lambda: compiled_residual().plan,
    Machine: lambda: compiled_residual().machine,
    Program: lambda: compiled_residual().program,
    Trace: trace,
    tuple[Row, ...]: lambda: tuple(ROWS.values()),
    Report: lambda: compiled_residual().explain(trace()),
}
"""Each noun's type, and how to get one: not before a test asks, so that collecting the tests compiles nothing."""


@pytest.mark.parametrize("kind", NOUNS)
def test_a_noun_reads_back_equal(kind: type) -> None:
    noun = NOUNS[kind]()
    found = from_json(to_json(noun), kind)
    assert found == noun
    assert to_json(found) == to_json(noun)


def test_arrays_beside_the_nouns_read_back_too() -> None:
    # They are left out of comparisons, so they are compared here.
    run = from_json(to_json(trace()), Trace)
    for spec in fields(Trace):
        np.testing.assert_equal(getattr(run, spec.name), getattr(trace(), spec.name))
    graph = from_json(to_json(compiled_residual().graph), Graph)
    np.testing.assert_equal(graph.data, compiled_residual().graph.data)


def test_every_noun_is_short_text() -> None:
    for kind in (Graph, Plan, Machine, Program, Trace, Report):
        assert len(str(NOUNS[kind]()).splitlines()[0]) < 200


def test_the_nouns_pass_their_checks() -> None:
    package = compiled_residual()
    check_machine(package.machine)
    check_graph(package.graph)
    check_plan(package.plan, package.graph, package.machine)
    assert trace().summary.violation_count == 0


def test_what_was_compiled_and_run_is_short_text_too() -> None:
    package = compiled_residual()
    result = Result({}, trace(), None, package.program, package.machine, {})
    assert str(package) == "residual on stcp920: 9,000 cycles predicted"
    assert str(result) == f"{trace().cycles:,} cycles on stcp920: passed"
    assert len(repr(package)) < 500
    assert len(repr(result)) < 500
