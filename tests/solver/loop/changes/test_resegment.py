"""Re-segmentation: other splits into instances for the segments of a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan, Segment, SharedBuffer, Split, Step
from girih.ir.semantics.cell import Cells, count
from girih.solver.cpsat.log import Record
from girih.solver.loop.changes import local_search
from girih.solver.loop.changes.local_search import align, coarsen
from girih.solver.loop.changes.plan_neighbourhood import Neighbourhood
from girih.solver.loop.changes.resegment import aligned, bare, coarser
from girih.solver.loop.evaluate import Evaluation, evaluate_segments
from girih.solver.loop.incumbent import Incumbent
from girih.solver.loop.referee import Referee
from girih.solver.options import Options
from girih.solver.segmentation.candidates import Candidates
from girih.solver.subproblem.plan_builder import Infeasibility, PlanRequest
from girih.solver.subproblem.step_order import depth_first, segment_by_segment
from girih.solver.subproblem.subproblem import Subproblem
from girih.solver.subproblem.tiling_alternatives import TiledSegment, TilingCuts
from girih.solver.subproblem.time_budget import Iteration, rounds, searching
from tests.support import graphs

MACHINE = load_machine("stcp920")
GRAPH = graphs.chain(2, batch=2, size=32, channels=32, kernel=1)
BOX = ()
A, B = (op.name for op in GRAPH.ops)
MADE = GRAPH.ops[0].output


def plan_of(first: tuple[Split, ...], second: tuple[Split, ...], *, spilled: bool) -> Plan:
    """Two segments; only what they are and what is stored matters here."""
    segments = (Segment((A,), first, (Split(0, 2),), ()), Segment((B,), second, (Split(0, 2),), ()))
    shared = (SharedBuffer(MADE, BOX, "LLB", 0, 64, (0, 1), store=spilled),)
    steps = segment_by_segment(segments)
    return Plan("solver", "stcp920", "", 0, segments, (), steps, (), shared, (), (), False, 0, 0, "", (), ())


def cuts_of(plan: Plan) -> list[tuple[Split, ...]]:
    cells = Cells(GRAPH)
    return [s.instances for s in aligned(GRAPH, cells, Candidates(GRAPH, MACHINE), plan)]


def test_a_spilled_result_is_cut_like_its_reader() -> None:
    columns, rows = (Split(2, 4),), (Split(1, 2),)
    plan = plan_of(columns, rows, spilled=True)
    found = aligned(GRAPH, Cells(GRAPH), Candidates(GRAPH, MACHINE), plan)
    assert found[0].instances[:1] == rows and found[1] == plan.segments[1]
    # Then instances of both can take turns, as they could not before.
    before, after = (depth_first(GRAPH, Cells(GRAPH), segments) for segments in (plan.segments, found))
    assert [s.segment for s in before] == sorted(s.segment for s in before)
    assert [s.segment for s in after] != sorted(s.segment for s in after)


def test_what_need_not_change_does_not() -> None:
    columns, rows = (Split(2, 4),), (Split(1, 2),)
    assert cuts_of(plan_of(columns, rows, spilled=False)) == [columns, rows]
    assert cuts_of(plan_of((*rows, *columns), rows, spilled=True)) == [(*rows, *columns), rows]
    assert cuts_of(plan_of((), rows, spilled=True)) == [(), rows]
    assert cuts_of(plan_of(columns, (), spilled=True)) == [columns, ()]


def test_nothing_of_tiles_is_left() -> None:
    """Not even what lay inside something else."""
    whole = Segment((A, B), (), (), (), aliased=(MADE,))
    assert bare(GRAPH, (whole,)) == (Segment((A, B), (), (), ()),)


def test_a_chain_is_cut_from_its_end() -> None:
    """Each like its reader, be the reader cut anew or not."""
    graph = graphs.chain(3, batch=2, size=32, channels=32, kernel=1)
    a, b, c = (
        Segment((op.name,), (Split(d, 4),), (Split(0, 2),), ()) for op, d in zip(graph.ops, (3, 2, 1), strict=True)
    )
    shared = tuple(SharedBuffer(op.output, BOX, "LLB", 0, 64, (0, 1), store=True) for op in graph.ops[:2])
    plan = replace(plan_of((), (), spilled=False), segments=(a, b, c), shared=shared)
    found = aligned(graph, Cells(graph), Candidates(graph, MACHINE), plan)
    assert (
        found[1].instances[0] == c.instances[0] and found[0].instances[: len(found[1].instances)] == found[1].instances
    )


def test_operators_are_in_the_order_of_the_graph_again() -> None:
    plan = plan_of((), (), spilled=False)
    turned = replace(plan, segments=(Segment((A, B)[::-1], (), (), ()),))
    (segment,) = aligned(GRAPH, Cells(GRAPH), Candidates(GRAPH, MACHINE), turned)
    assert segment.ops == (A, B)


def planned(machine: Machine, *segments: Segment) -> Neighbourhood:
    """These segments as the best plan so far, and what local search needs besides."""
    incumbent = Incumbent(Record(60.0, None), (0, ""), Referee(GRAPH, 60.0, None))
    subproblem = Subproblem(GRAPH, machine, Options(20.0), incumbent.note)
    around = Neighbourhood(
        incumbent,
        subproblem,
        Candidates(GRAPH, machine),
        TilingCuts(),
        searching(rounds(20.0)).iteration(1),
        lambda: True,
    )
    evaluate_segments(subproblem, incumbent, segments, around.cuts, around.iteration)
    return around


def test_the_loop_tries_it() -> None:
    """A shared memory that holds a result by halves alone: of what comes out, nothing is stored in main memory."""
    size = GRAPH.tensor[MADE].bytes * 5 // 4
    memories = tuple(replace(m, capacity=size) if MACHINE.use_of(m.name) == "shared" else m for m in MACHINE.memories)
    around = planned(
        replace(MACHINE, memories=memories), *plan_of((Split(2, 4),), (Split(1, 2),), spilled=True).segments
    )
    spilled = around.best.plan
    same, plan = align(around, spilled)
    assert same == around
    assert around.best.plan.cycles_predicted <= plan.cycles_predicted < spilled.cycles_predicted
    assert not any(b.store for b in plan.shared if b.tensor == MADE)


def test_what_it_learns_of_tiles_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    around = planned(MACHINE, *plan_of((Split(2, 4),), (Split(1, 2),), spilled=True).segments)
    learned = TilingCuts().without_aliasing(around.best.plan.segments[0])
    refused = Evaluation(Infeasibility(0, A, MACHINE.levels.activations, 2, 1, ""), learned)
    monkeypatch.setattr(local_search, "aligned", lambda *_: ())
    monkeypatch.setattr(local_search, "evaluate_segments", lambda *_, **__: refused)
    plan = around.best.plan
    assert align(around, plan) == (replace(around, cuts=learned), plan)
    assert replace(around, cuts=learned) != around


def test_fewer_instances_if_they_fit() -> None:
    candidates = Candidates(GRAPH, MACHINE)
    four = Segment((A, B), (Split(1, 4),), (Split(0, 2),), ())
    (found,) = coarser(GRAPH, candidates, [four])
    assert count(found.instances) < 4 and (found.ops, found.cores) == (four.ops, four.cores)
    one = replace(four, instances=())
    assert coarser(GRAPH, candidates, [one]) == (one,)
    # Two rows of two images on two cores: 32 columns of 32 channels, in and out, and as many weights.
    small = replace(
        MACHINE,
        memories=tuple(
            replace(m, capacity=1 << 15) if MACHINE.use_of(m.name) == "local" else m for m in MACHINE.memories
        ),
    )
    many = Segment((A, B), (Split(1, 32),), (Split(0, 2),), ())
    fewest = many
    while (fewer := coarser(GRAPH, Candidates(GRAPH, small), [fewest])[0]) != fewest:
        fewest = fewer
    assert 1 < count(fewest.instances) < 32


def test_the_loop_tries_fewer_instances() -> None:
    """A chain in as many instances as there are rows: each takes its issue and its latency, and has little to do."""
    around = planned(MACHINE, Segment((A, B), (Split(1, 32),), (Split(0, 2),), ()))
    before = around.best.plan
    plan = coarsen(around, before)
    assert around.best.plan.cycles_predicted <= plan.cycles_predicted < before.cycles_predicted
    assert count(plan.segments[0].instances) < 32


def test_fewer_instances_keep_the_kind_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, images = (Split(1, 32),), (Split(0, 2),)
    around = planned(MACHINE, Segment((A,), rows, images, ()), Segment((B,), rows, images, ()))
    before, cells = around.best.plan, Cells(GRAPH)
    by_segment, by_depth = segment_by_segment(before.segments), depth_first(GRAPH, cells, before.segments)
    requests, tried = around.subproblem.requests, list[tuple[tuple[Segment, ...], tuple[Step, ...]]]()

    def noted(
        tiled: list[TiledSegment], iteration: Iteration, steps: tuple[Step, ...] | None, groups: tuple[int, ...]
    ) -> list[PlanRequest]:
        answer = requests(tiled, iteration, steps, groups)
        tried.extend((request.segments, request.steps) for request in answer)
        return answer

    monkeypatch.setattr(around.subproblem, "requests", noted)
    for steps in (by_segment, by_depth):
        tried.clear()
        coarsen(around, replace(before, steps=steps))
        ((segments, order),) = tried
        assert segments != before.segments
        assert order == (segment_by_segment(segments) if steps == by_segment else depth_first(GRAPH, cells, segments))
    assert by_segment != by_depth
