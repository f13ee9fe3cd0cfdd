"""What a plan builder answers does not depend on what it was asked before, nor on where a segment is in the graph."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import pytest

from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Segment, Split
from girih.ir.semantics.cell import Cells
from girih.solver.cost.equivalence import structural_class
from girih.solver.options import ModelRun
from girih.solver.parallel.workers import Workers
from girih.solver.subproblem import plan_builder
from girih.solver.subproblem.plan_builder import EvaluatedPlan, Infeasibility, PlanBuilder
from girih.solver.subproblem.plan_questions import BuildPlan, ChosenTogether, OnCores, Searched
from girih.solver.subproblem.step_order import segment_by_segment
from girih.solver.subproblem.tile_descent import Descents
from girih.solver.subproblem.time_budget import rounds
from girih.solver.switches import ALL_ON
from girih.solver.tiling.solve import Tiler
from tests.support import graphs


@dataclass(frozen=True)
class Case:
    """Segments of one operator each, with their tiles."""

    graph: Graph
    machine: Machine
    segments: tuple[Segment, ...]

    def builder(self, runs: list[ModelRun] | None = None) -> PlanBuilder:
        note = ([] if runs is None else runs).append
        return PlanBuilder(self.graph, self.machine, Cells(self.graph), 0, note)


def case(graph: Graph, machine: Machine, instances: tuple[Split, ...] = (), cores: tuple[Split, ...] = ()) -> Case:
    tiler, cells = Tiler(graph, machine), Cells(graph)
    segments: list[Segment] = []
    for op in graph.ops:
        answer = tiler.segment(Segment((op.name,), instances, cores, ()), cells)
        assert isinstance(answer, tuple)
        segments.append(answer[0])
    return Case(graph, machine, tuple(segments))


def test_equal_segments_take_as_long_wherever_they_are() -> None:
    """Banks of shared memory take turns here, so that what cores meet on depends on addresses."""
    graph = graphs.chain(5, batch=1, size=64, channels=36, kernel=1)
    setup = case(graph, load_machine("ascend910"), (Split(2, 4),), (Split(1, 32),))
    builder = setup.builder()
    cycles: dict[object, set[int | None]] = {}
    for segment in setup.segments:
        cycles.setdefault(structural_class(builder.cells, segment), set()).add(builder.on_cores(segment))
    assert len(cycles) < len(setup.segments)
    assert all(len(own) == 1 and None not in own for own in cycles.values())


def test_many_instances_are_predicted_by_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = case(graphs.chain(3, batch=24, size=12), load_machine("tiny"), (Split(0, 24),))
    every = [setup.builder().on_cores(segment) for segment in setup.segments]
    monkeypatch.setattr(plan_builder, "MOST_INSTANCES", 24)
    assert [setup.builder().on_cores(segment) for segment in setup.segments] == every
    monkeypatch.setattr(plan_builder, "MOST_INSTANCES", 8)
    assert [setup.builder().on_cores(segment) for segment in setup.segments] == pytest.approx(every, rel=0.002)
    monkeypatch.setattr(plan_builder, "MOST_INSTANCES", 1)
    assert all(setup.builder().on_cores(s) != whole for s, whole in zip(setup.segments, every, strict=True))
    # Those that are asked for are predicted, all of them and no others.
    first = [setup.builder().on_cores(segment, 12) for segment in setup.segments]
    assert all(one is not None and 3 * whole < 7 * one < 4 * whole for one, whole in zip(first, every, strict=True))


def test_what_has_no_room_has_its_own_name_whatever_was_asked_before() -> None:
    setup = case(graphs.chain(3, size=64, channels=16, kernel=1), load_machine("tiny"))
    iteration = rounds(1.0)[0].iteration(1)
    first, second = setup.segments[:2]

    def message(builder: PlanBuilder) -> str:
        answer = builder.build(iteration.request((first,), segment_by_segment((first,)), layerwise=False))
        assert isinstance(answer, Infeasibility)
        return answer.message

    used = setup.builder()
    used.build(iteration.request((second,), segment_by_segment((second,)), layerwise=False))
    assert message(used) == message(setup.builder())
    assert f"operator {first.ops[0]}: {first.ops[0]}" in message(used)


def test_workers_answer_as_a_builder_does() -> None:
    setup = case(graphs.chain(4, batch=4, size=16), load_machine("tiny"), (Split(0, 4),))
    searched = Searched(setup.machine, ALL_ON, 0)
    iteration = rounds(8.0)[1].iteration(1)
    request = iteration.request(setup.segments, segment_by_segment(setup.segments), layerwise=False)
    segment = setup.segments[1]
    runs: list[ModelRun] = []
    builder = setup.builder(runs)
    with closing(Workers(setup.graph, 2)) as workers:
        on_cores, together, built = workers.answers(
            [OnCores(searched, segment), ChosenTogether(searched, segment, ()), BuildPlan(searched, request)]
        )
    assert on_cores == (builder.on_cores(segment),) and None not in on_cores
    tiler = Tiler(setup.graph, setup.machine)
    descents = Descents(setup.graph, builder.cells, builder.on_cores)
    assert together == descents.descend(tiler, segment, {}, lambda: False)
    plan = builder.build(request)
    assert isinstance(plan, EvaluatedPlan) and runs
    assert built == (plan, runs)
