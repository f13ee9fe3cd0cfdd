"""Tiles chosen for each other come into the best plan some at a time, and as far as the timeout pays for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise

import pytest

from girih.frontend import import_onnx
from girih.frontend.for_machine import fitted
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan, Segment, Step
from girih.models import build
from girih.solver.cpsat.log import Record
from girih.solver.loop.changes import local_search
from girih.solver.loop.changes.local_search import retile
from girih.solver.loop.changes.plan_neighbourhood import Neighbourhood
from girih.solver.loop.evaluate import evaluate_segments, evaluate_tiled
from girih.solver.loop.incumbent import Incumbent
from girih.solver.loop.referee import Referee
from girih.solver.loop.spending import COUNTED_PREDICTION, Spending, WorkCounters
from girih.solver.options import Options
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.solve import segment
from girih.solver.subproblem.plan_builder import EvaluatedPlan, Infeasibility, PlanRequest
from girih.solver.subproblem.plan_work import PlanWork
from girih.solver.subproblem.subproblem import Subproblem
from girih.solver.subproblem.tiling_alternatives import TiledSegment, TilingCuts
from girih.solver.subproblem.time_budget import Iteration, rounds, searching

MACHINE = load_machine("ascend310")
ITERATION = searching(rounds(20.0)).iteration(1)


@dataclass
class Evaluations:
    """What plans were built from, and of how many cycles; ``worse``: those, by number, that are told as worse."""

    worse: frozenset[int] = frozenset()
    tiled: list[list[TiledSegment]] = field(default_factory=list[list[TiledSegment]])
    cycles: list[int] = field(default_factory=list[int])
    predicted: list[int] = field(default_factory=list[int])
    """How many operators had been predicted before each."""

    def __call__(self, *args: object, steps: tuple[Step, ...]) -> EvaluatedPlan | Infeasibility:
        answer = evaluate_tiled(*args, steps=steps)  # type: ignore[arg-type]
        assert isinstance(answer, EvaluatedPlan) and isinstance(args[2], list) and isinstance(args[0], Subproblem)
        self.predicted.append(args[0].predicted)
        if len(self.tiled) in self.worse:
            answer = replace(answer, plan=replace(answer.plan, cycles_predicted=1 << 40))
        self.tiled.append(list(args[2]))  # pyright: ignore[reportUnknownArgumentType]
        self.cycles.append(answer.plan.cycles_predicted)
        return answer


@cache
def mobilenet() -> Graph:
    return fitted(import_onnx(build("mobilenet-v2", size=32), precision="fp16", batch=1), MACHINE, divides=True)


@pytest.fixture(scope="module")
def network() -> Graph:
    return mobilenet()


@cache
def columns() -> tuple[Candidates, tuple[Segment, ...]]:
    """Of the network, priced once: what follows changes neither."""
    candidates = Candidates(mobilenet(), MACHINE, longest=4)
    return candidates, segment(mobilenet(), MACHINE, candidates=candidates).segments


def start(graph: Graph, paid: Callable[[], bool]) -> tuple[Neighbourhood, Plan]:
    """A plan with tiles chosen for each operator alone."""
    incumbent = Incumbent(Record(600.0, None), (0, ""), Referee(graph, 60.0, None))
    subproblem = Subproblem(graph, MACHINE, Options(20.0), incumbent.note)
    candidates, segments = columns()
    evaluate_segments(subproblem, incumbent, segments, TilingCuts(), ITERATION)
    around = Neighbourhood(incumbent, subproblem, candidates, TilingCuts(), ITERATION, paid)
    return around, around.best.plan


def cuts(tiled: list[TiledSegment]) -> list[object]:
    return [[tile.cut for tile in t.segment.tiles] for t in tiled]


def test_some_segments_at_a_time_and_never_worse(network: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Evaluations()
    monkeypatch.setattr(local_search, "evaluate_tiled", built)
    monkeypatch.setattr(local_search, "PREDICTED_BEFORE_PLAN", (1, 2))
    around, plan = start(network, lambda: True)
    retiled = retile(around, plan)
    assert len(built.tiled) > 2
    # At first after one prediction for each operator, then after two each time; the last with what is left.
    between = [later - earlier for earlier, later in pairwise((0, *built.predicted))][:-1]
    assert all(gap >= times * len(network.ops) for gap, times in zip(between, (1, *[2] * len(between)), strict=False))
    assert retiled.cycles_predicted == min(built.cycles) < plan.cycles_predicted
    assert around.best.plan.cycles_predicted <= retiled.cycles_predicted, "other addresses are tried for it"
    # Each plan changes tiles of what no plan before it changed.
    before = [[tile.cut for tile in s.tiles] for s in plan.segments]
    changed = [{i for i, (a, b) in enumerate(zip(cuts(t), before, strict=True)) if a != b} for t in built.tiled]
    assert all(later - earlier for earlier, later in pairwise(changed))


def test_instances_stay_in_their_order(network: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    around, plan = start(network, lambda: True)
    requests, ordered = around.subproblem.requests, list[tuple[Step, ...] | None]()

    def noted(
        tiled: list[TiledSegment], iteration: Iteration, steps: tuple[Step, ...] | None, groups: tuple[int, ...]
    ) -> list[PlanRequest]:
        ordered.append(steps)
        return requests(tiled, iteration, steps, groups)

    monkeypatch.setattr(around.subproblem, "requests", noted)
    built = Evaluations()
    monkeypatch.setattr(local_search, "evaluate_tiled", built)
    retile(around, plan)
    assert ordered and set(ordered) == {plan.steps}
    other = plan.steps[::-1]
    assert [request.steps for request in requests(built.tiled[0], ITERATION, other)] == [other]


def test_what_is_not_better_is_dropped(network: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Evaluations(worse=frozenset({0}))
    monkeypatch.setattr(local_search, "evaluate_tiled", built)
    monkeypatch.setattr(local_search, "PREDICTED_BEFORE_PLAN", (1, 2))
    around, plan = start(network, lambda: True)
    retile(around, plan)
    before = [[tile.cut for tile in s.tiles] for s in plan.segments]
    dropped = [i for i, (a, b) in enumerate(zip(cuts(built.tiled[0]), before, strict=True)) if a != b]
    assert dropped
    assert all(cuts(tiled)[i] == before[i] for tiled in built.tiled[1:] for i in dropped)


def test_a_longer_timeout_goes_on_where_a_shorter_one_ends(network: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_search, "PREDICTED_BEFORE_PLAN", (1, 2))
    found: list[Evaluations] = []
    for limit in (0, 300, 600, 1 << 30):
        built = Evaluations()
        monkeypatch.setattr(local_search, "evaluate_tiled", built)
        around, plan = start(network, lambda: True)
        subproblem = around.subproblem
        retile(replace(around, paid=lambda s=subproblem, most=limit: s.predicted < most), plan)
        found.append(built)
    assert not found[0].tiled
    assert 0 < len(found[1].cycles) < len(found[2].cycles) < len(found[3].cycles)
    assert all(longer.cycles[: len(shorter.cycles)] == shorter.cycles for shorter, longer in pairwise(found))


def test_a_timeout_ends_changes_and_says_so() -> None:
    predicted, none = 0, lambda: 0
    counters = WorkCounters(
        roots=none,
        columns=none,
        groups=none,
        built=PlanWork,
        repredicted=PlanWork,
        predicted_operators=lambda: predicted,
    )
    spending = Spending(Record(600.0, None), counters, 1.0)
    assert spending.goes_on("changes") and not spending.refused
    predicted = int(2 / COUNTED_PREDICTION)
    assert not spending.goes_on("changes")
    assert list(spending.refused) == ["changes"]
    assert not spending.pays("iterations") and not spending.goes_on("others")
    assert list(spending.refused) == ["changes"]
