"""Other splits for the segments of a plan: what is asked for is what is planned."""

from __future__ import annotations

import pytest

from benchmarks.engines.exchange import best_plan, replaced, run_of, spans, split
from girih.ir.errors import UsageError
from girih.ir.plan import Split
from girih.solver.loop.changes.resegment import bare
from girih.solver.subproblem.subproblem import Subproblem
from tests.support.compiled import compiled_residual


def test_splits_are_read() -> None:
    assert split("4@1x2@2") == (Split(1, 4), Split(2, 2))
    assert split("") == ()
    for wrong in ("4", "4@", "four@1"):
        with pytest.raises(UsageError, match="parts@dimension"):
            split(wrong)


def test_segments_are_as_asked() -> None:
    compiled = compiled_residual()
    segments = bare(compiled.graph, compiled.plan.segments)
    first = segments[0].ops
    asked = run_of(compiled, f"{first[0]}..{first[-1]}", "", "2@1")
    changed = replaced(compiled, [asked])
    assert changed == (asked, *segments[1:])
    subproblem = Subproblem(compiled.graph, compiled.machine, compiled.options.for_solver, lambda _: None)
    plan = best_plan(subproblem, changed)
    assert bare(compiled.graph, plan.segments) == changed
    ((segment, start, stop),) = spans(plan, set(first))
    assert segment.ops == first
    assert 0 <= start < stop <= plan.cycles_predicted


def test_what_cannot_be_asked() -> None:
    compiled = compiled_residual()
    name = compiled.graph.ops[0].name
    with pytest.raises(UsageError, match="there is no operator nothing"):
        run_of(compiled, "nothing", "", "")
    with pytest.raises(UsageError, match="two of the runs"):
        replaced(compiled, [run_of(compiled, name, "", "")] * 2)
