"""Orders of instances between segment by segment and depth first, around what passes through main memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan, Segment, SharedBuffer, Split, Step
from girih.ir.semantics.cell import Cells
from girih.solver.cpsat.log import Record
from girih.solver.loop.changes import local_search
from girih.solver.loop.changes.local_search import reorder
from girih.solver.loop.changes.plan_neighbourhood import Neighbourhood
from girih.solver.loop.changes.reorder import spilled_borders, with_borders
from girih.solver.loop.evaluate import evaluate_tiled
from girih.solver.loop.incumbent import Incumbent
from girih.solver.loop.referee import Referee
from girih.solver.options import Options
from girih.solver.segmentation.candidates import Candidates
from girih.solver.subproblem.plan_builder import EvaluatedPlan, Infeasibility
from girih.solver.subproblem.step_order import depth_first, segment_by_segment
from girih.solver.subproblem.subproblem import Subproblem
from girih.solver.subproblem.tiling_alternatives import TilingCuts
from girih.solver.subproblem.time_budget import rounds, searching
from tests.support import graphs

MACHINE = load_machine("stcp920")
ROWS, IMAGES = (Split(1, 4),), (Split(0, 2),)


def chain(length: int, channels: int = 32) -> tuple[Graph, tuple[Segment, ...]]:
    """Convolutions of equal size, one a segment, in four instances each that read one of the segment before."""
    graph = graphs.chain(length, batch=2, size=32, channels=channels, kernel=1)
    return graph, tuple(Segment((op.name,), ROWS, IMAGES, ()) for op in graph.ops)


def plan_of(graph: Graph, segments: tuple[Segment, ...], spilled: tuple[str, ...], steps: tuple[Step, ...]) -> Plan:
    """Only its segments, their order, and what is stored matters here."""
    shared = tuple(SharedBuffer(name, (), "LLB", 0, 64, (0, 1), store=True) for name in spilled)
    return Plan("solver", "stcp920", "", 0, segments, (), steps, (), shared, (), (), False, 0, 0, "", (), ())


def letters(steps: tuple[Step, ...]) -> str:
    return "".join("abcdefgh"[s.segment] for s in steps)


def test_borders_that_equal_spilled_results_cross_change_together() -> None:
    graph, segments = chain(4)
    a, b, c, d = (op.output for op in graph.ops)
    steps = segment_by_segment(segments)
    assert spilled_borders(graph, plan_of(graph, segments, (), steps)) == []
    assert spilled_borders(graph, plan_of(graph, segments, (a, c, d), steps)) == [(0, 2)], "outputs have to be stored"
    assert spilled_borders(graph, plan_of(graph, segments, (b, b), steps)) == [(1,)], "in two boxes, counted once"


def test_what_the_host_reads_is_stored_in_any_order() -> None:
    graph = graphs.host_between()
    segments = tuple(Segment((op.name,), (), (), ()) for op in graph.ops)
    read = [op.inputs[0] for op in graph.ops if op.host is not None]
    assert set(read) & set(graph.producer), "one is computed"
    assert spilled_borders(graph, plan_of(graph, segments, tuple(read), segment_by_segment(segments))) == []


def test_what_crosses_several_borders_counts_at_each() -> None:
    """In a residual block; those borders come first that the most bytes cross in all."""
    graph = graphs.residual()
    segments = tuple(Segment((op.name,), (), (), ()) for op in graph.ops)
    steps = segment_by_segment(segments)
    crossed = {
        op.output: range(n, max((graph.ops.index(r) for r in graph.consumers[op.output]), default=n))
        for n, op in enumerate(graph.ops)
    }
    long = next(name for name, borders in crossed.items() if len(borders) > 1)
    assert spilled_borders(graph, plan_of(graph, segments, (long,), steps)) == [tuple(crossed[long])]
    every = spilled_borders(graph, plan_of(graph, segments, tuple(crossed), steps))
    size = [sum(graph.tensor[n].bytes for n, borders in crossed.items() if i in borders) for i in range(len(segments))]
    assert sorted(i for borders in every for i in borders) == [i for i, bytes_ in enumerate(size) if bytes_]
    totals = [sum(size[i] for i in borders) for borders in every]
    assert totals == sorted(totals, reverse=True) and len({size[borders[0]] for borders in every}) == len(every)


def test_segments_at_a_border_take_turns_and_stop_doing_so() -> None:
    graph, segments = chain(4)
    cells = Cells(graph)
    plan = plan_of(graph, segments, (), segment_by_segment(segments))
    turns = with_borders(graph, cells, plan, (1,), take_turns=True)
    assert letters(turns) == "aaaabcbcbcbcdddd"
    again = with_borders(graph, cells, replace(plan, steps=turns), (2,), take_turns=True)
    assert letters(again) == "aaaabcdbcdbcdbcd", "the group that was there goes on"
    assert with_borders(graph, cells, replace(plan, steps=again), (1, 2), take_turns=False) == plan.steps


def with_room_for(share: float, graph: Graph, segments: tuple[Segment, ...]) -> tuple[Neighbourhood, Plan]:
    """A plan, segment by segment, whose results have so much of the room in shared memory that they need."""
    room = int(graph.tensor[graph.ops[0].output].bytes * share)
    memories = tuple(replace(m, capacity=room) if MACHINE.use_of(m.name) == "shared" else m for m in MACHINE.memories)
    machine = replace(MACHINE, memories=memories)
    incumbent = Incumbent(Record(60.0, None), (0, ""), Referee(graph, 60.0, None))
    subproblem = Subproblem(graph, machine, Options(20.0), incumbent.note)
    budgets = searching(rounds(20.0)).iteration(1)
    around = Neighbourhood(
        incumbent, subproblem, Candidates(graph, machine), TilingCuts(), budgets, lambda: True
    )  # fmt: skip
    tiled = subproblem.tiles(segments, around.cuts, budgets)
    assert not isinstance(tiled, Infeasibility)
    answer = evaluate_tiled(subproblem, incumbent, tiled, budgets, steps=segment_by_segment(segments))
    assert isinstance(answer, EvaluatedPlan)
    return around, answer.plan


def test_the_loop_tries_it() -> None:
    """Results for which there is no room pass through main memory until the segments take turns."""
    graph, segments = chain(3)
    around, spilled = with_room_for(1.25, graph, segments)
    assert any(b.store for b in spilled.shared if b.tensor == graph.ops[0].output)
    plan = reorder(around, spilled)
    assert letters(plan.steps) == "abcabcabcabc"
    assert not any(b.store for b in plan.shared if b.tensor not in graph.output_tensors)
    assert around.best.plan.cycles_predicted <= plan.cycles_predicted < spilled.cycles_predicted


def test_the_plan_stays_where_nothing_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, segments = chain(3)
    around, plan = with_room_for(1.25, graph, segments)
    refused = Infeasibility(0, graph.ops[0].name, MACHINE.levels.activations, 2, 1, "")
    attempted = list[tuple[Step, ...]]()

    def refuse(*_: object, steps: tuple[Step, ...]) -> Infeasibility:
        attempted.append(steps)
        return refused

    monkeypatch.setattr(local_search, "evaluate_tiled", refuse)
    assert reorder(around, plan) is plan
    assert attempted == [depth_first(graph, Cells(graph), segments)], "the plan's own order is not tried again"
    attempted.clear()
    assert reorder(replace(around, paid=lambda: False), plan) is plan
    backwards = replace(plan, steps=plan.steps[::-1])
    assert reorder(around, backwards) is backwards, "an order of no kind"
    monkeypatch.setattr(local_search, "MOST_ORDERS", 0)
    assert reorder(around, plan) is plan
    assert not attempted
