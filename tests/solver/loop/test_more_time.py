"""More time is never worse: what a longer timeout pays for comes after what a shorter one does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from girih.frontend import import_onnx
from girih.frontend.for_machine import fitted
from girih.ir.load_machine import load_machine
from girih.models import build
from girih.solver import plan
from girih.solver.loop import excluded_segments, search, spending
from girih.solver.loop.excluded_segments import Diversions
from girih.solver.loop.spending import Spending
from girih.solver.options import Options, Planned
from girih.solver.subproblem.time_budget import Iteration
from girih.solver.switches import checked
from tests.support import graphs
from tests.support.cpsat import unhurried
from tests.support.small_models import SMALL

TINY = load_machine("tiny")
SIX = ("tiny-cnn", "tiny-transformer", "dlrm", "mobilenet-v2", "resnet50", "vit-b16")
TIMEOUTS = (5, 20, 60, 300)
"""Seconds."""


def plans(planned: Planned) -> int:
    return sum(run.model == "plan" for run in planned.log.runs)


def test_more_time_is_never_worse_and_what_is_excluded_stays_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excluded_segments, "FRUITLESS", 6)
    seen: list[tuple[object, int]] = []
    exclude = excluded_segments.exclude_for_good

    def watched(diversions: Diversions) -> None:
        seen.clear()
        decomposition = diversions.decomposition
        iteration = decomposition.iteration

        def noted(budget: Iteration) -> object:
            attempt = iteration(budget)
            if attempt is not None and attempt.evaluated is not None:
                seen.append((attempt.segmentation.segments, len(decomposition.cuts.columns)))
            return attempt

        monkeypatch.setattr(decomposition, "iteration", noted)
        exclude(diversions)

    monkeypatch.setattr(search, "exclude_for_good", watched)
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
    graph, timeouts = graphs.residual(dtype="float32"), (5.0, 8.0)
    with unhurried():
        found = [plan(graph, TINY, Options(t)) for t in timeouts]
    plans = [[run.objective for run in p.log.runs if run.model == "plan"] for p in found]
    assert all(longer[: len(shorter)] == shorter for shorter, longer in pairwise(plans))
    assert len(plans[0]) < len(plans[-1])
    assert all(longer.plan.cycles <= shorter.plan.cycles for shorter, longer in pairwise(found))


def test_columns_are_a_step_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """No iteration is expected to cost them again."""
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
    with unhurried():
        planned = plan(graphs.residual(dtype="float32"), TINY, Options(400.0, disabled=checked(["smaller-memories"])))
    assert spent["columns of segments"] > 10.0 > spent["iterations"] > 0.0
    assert plans(planned) > 1


@pytest.mark.thorough
@pytest.mark.parametrize("name", SIX)
def test_more_time_is_never_worse_from_seconds_to_minutes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search does counts ten times, so that the four timeouts are 38 seconds together."""
    seconds = spending.WorkCounters.seconds
    monkeypatch.setattr(spending.WorkCounters, "seconds", lambda self, record: 10 * seconds(self, record))
    graph = fitted(import_onnx(build(name, **SMALL[name]), batch=2), TINY, divides=True)
    with unhurried():
        by_timeout = [plan(graph, TINY, Options(float(timeout))) for timeout in TIMEOUTS]
    assert all(longer.plan.cycles <= shorter.plan.cycles for shorter, longer in pairwise(by_timeout))
    assert plans(by_timeout[0]) < plans(by_timeout[-1])
    assert all(plans(shorter) <= plans(longer) for shorter, longer in pairwise(by_timeout))
