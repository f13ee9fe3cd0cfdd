"""More time is never worse: what a longer timeout pays for comes after what a shorter one does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from girih.ir.load_machine import load_machine
from girih.solver import plan
from girih.solver.loop import benders, column_stages, spending
from girih.solver.loop.spending import Spending
from girih.solver.options import Options, Planned
from girih.solver.segmentation.candidates import MOST_OPERATORS
from girih.solver.segmentation.solve import Segmentation
from girih.solver.subproblem import time_budget
from girih.solver.subproblem.time_budget import Iteration
from girih.solver.switches import checked
from tests.support import graphs
from tests.support.cpsat import unhurried

TINY = load_machine("tiny")


def plans(planned: Planned) -> int:
    return sum(run.model == "plan" for run in planned.log.runs)


def test_more_time_is_never_worse_and_what_is_excluded_stays_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benders, "FRUITLESS", 6)
    seen: list[tuple[object, int]] = []
    wander = benders._Search._wander  # pyright: ignore[reportPrivateUsage]

    def watched(self: benders._Search) -> None:  # pyright: ignore[reportPrivateUsage]
        seen.clear()
        before = self.cuts
        iteration = self._iteration  # pyright: ignore[reportPrivateUsage]

        def noted(number: Iteration) -> object:
            attempt = iteration(number)
            if attempt is not None and attempt.evaluated is not None:
                seen.append((attempt.segmentation.segments, len(self.cuts.columns)))
            return attempt

        monkeypatch.setattr(self, "_iteration", noted)
        wander(self)
        assert self.cuts == before

    monkeypatch.setattr(benders._Search, "_wander", watched)  # pyright: ignore[reportPrivateUsage]
    graph = graphs.residual(dtype="float32")
    with unhurried():
        found = [plan(graph, TINY, Options(t, disabled=checked(["smaller-memories"]))) for t in (5.0, 10.0, 60.0)]
    assert all(longer.plan.cycles <= shorter.plan.cycles for shorter, longer in pairwise(found))
    assert plans(found[-1]) > plans(found[0]), "there is more to try"
    assert found[-1].log.status == "exhausted" and not found[-1].log.more_time_helps
    assert len(seen) > 2
    assert len({segments for segments, _ in seen}) == len(seen), "each segmentation is new"
    assert all(a < b for (_, a), (_, b) in pairwise(seen))


def test_a_longer_search_begins_with_the_whole_of_a_shorter_one() -> None:
    graph = graphs.residual(dtype="float32")
    with unhurried():
        found = [plan(graph, TINY, Options(t)) for t in (5.0, 6.5, 8.0)]
    plans = [[run.objective for run in p.log.runs if run.model == "plan"] for p in found]
    assert all(longer[: len(shorter)] == shorter for shorter, longer in pairwise(plans))
    assert len(plans[0]) < len(plans[-1])
    assert all(longer.plan.cycles <= shorter.plan.cycles for shorter, longer in pairwise(found))


def test_many_kinds_begin_with_short_runs_and_go_on_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.residual(dtype="float32")
    monkeypatch.setattr(column_stages, "MANY_KINDS", 1)
    monkeypatch.setattr(column_stages, "affords", lambda *_: False)  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(column_stages, "SHORT_RUN", 2)
    lengths: list[tuple[int, int]] = []
    segmentation = benders._Search._segmentation  # pyright: ignore[reportPrivateUsage]

    def watched(self: benders._Search, iteration: Iteration) -> Segmentation:  # pyright: ignore[reportPrivateUsage]
        answer = segmentation(self, iteration)
        lengths.append((self.master.candidates.length, max(len(s.ops) for s in answer.segments)))
        return answer

    monkeypatch.setattr(benders._Search, "_segmentation", watched)  # pyright: ignore[reportPrivateUsage]
    spent: Counter[str] = Counter()
    step = Spending.step

    @contextmanager
    def counted(self: Spending, kind: str) -> Generator[None]:
        before = self.spent
        with step(self, kind):
            yield
        spent[kind] = max(spent[kind], self.spent - before)

    monkeypatch.setattr(Spending, "step", counted)
    monkeypatch.setattr(spending, "COUNTED_ROOT", 10.0)
    alone = Options(400.0, disabled=checked(["smaller-memories"]))
    with unhurried():
        long = plan(graph, TINY, alone)
    assert lengths[0] == (2, 2)
    assert all(longest == MOST_OPERATORS for longest, _ in lengths[1:])
    assert max(ops for _, ops in lengths) > 2
    # Columns are a step of their own: the first iteration with them is not expected to cost them again.
    assert spent["columns of longer segments"] > spent["iterations"]
    # What does not pay for the others ends with the first.
    lengths.clear()
    monkeypatch.setattr(Spending, "pays", lambda *_: False)  # pyright: ignore[reportUnknownLambdaType]
    with unhurried():
        short = plan(graph, TINY, alone)
    assert [longest for longest, _ in lengths] == [2]
    assert long.plan.cycles <= short.plan.cycles


def test_a_timeout_that_pays_for_all_columns_begins_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.residual(dtype="float32")
    kinds = column_stages.ColumnStages(graph, TINY, Options(60.0), None).kinds
    monkeypatch.setattr(column_stages, "MANY_KINDS", 1)
    monkeypatch.setattr(column_stages, "SHORT_RUN", 2)
    monkeypatch.setattr(time_budget, "FREE_KINDS", 0)
    monkeypatch.setattr(column_stages, "ENUMERATION_SECONDS", 10.0 / kinds)
    for timeout, stages in ((9.9, 2), (10.1, 1)):
        columns = column_stages.ColumnStages(graph, TINY, Options(timeout), None)
        assert 1 + columns.are_two == stages
        assert columns.is_last != columns.are_two
        columns.price()
        short = columns.candidates.columns()
        assert (max(c.last - c.first for c in short) < column_stages.SHORT_RUN) == columns.are_two
        columns.go_on()
        assert (columns.candidates.columns() == short) != columns.are_two
