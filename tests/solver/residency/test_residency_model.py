"""Residency: the judge by hand, the model against enumeration, windows, buffers against the checker."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from girih.ir.box import Span, full, volume
from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import InfeasibleError
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Step
from girih.ir.semantics.cell import Cells
from girih.solver.cpsat.backend import Budget, solve
from girih.solver.residency import neighbourhood
from girih.solver.residency.bound import lower_bound
from girih.solver.residency.decisions import Decisions, NoFetch
from girih.solver.residency.evaluation import effects, evaluate_decisions, held_bytes, link_load
from girih.solver.residency.fetch_slots import PASSED_OVER, with_fetch_slots
from girih.solver.residency.greedy import Greedy
from girih.solver.residency.model import ResidencyModel
from girih.solver.residency.neighbourhood import improve
from girih.solver.residency.partition.weight_chunks import (
    ChunkFetch,
    CircularBuffer,
)
from girih.solver.residency.problem import (
    FetchItem,
    Intermediate,
    ResidencyProblem,
    Use,
    residency_problem,
)
from girih.solver.residency.solve import SharedOverflow, decide_residency
from tests.support.cpsat import first_objective
from tests.support.graphs import attention, chain, residual, with_host
from tests.support.plans.rough_plans import by_instance, in_order, rough_cycles, rough_plan, rough_segments, wide
from tests.support.residency_problems import block, every_decision, some, usage

STCP = load_machine("stcp920")
TINY = load_machine("tiny")
BUDGET = Budget(20.0)


@pytest.mark.parametrize("seed", range(4))
def test_effects_add_up_to_what_is_held_and_moved(seed: int) -> None:
    d, room = some(random.Random(seed))
    for decided in every_decision(d):
        assert (held_bytes(len(room), effects(d, decided)) == usage(d, decided)).all()
        assert link_load(len(room), effects(d, decided)).sum() == evaluate_decisions(d, decided).traffic


def whole(d: ResidencyProblem, room: np.ndarray, horizon: int = 10_000) -> ResidencyModel:
    """The model of all slots."""
    return ResidencyModel(d, room, Greedy(d, room).decisions(), range(len(d.cycles)), horizon)


def test_each_use_waits_for_its_own_transfer() -> None:
    """a, for slot 1, comes before b, for slot 2, though both are issued in slot 0; then the store of what slot 1 wrote."""
    items = (
        FetchItem((block("b", 4, 30),), (Use(2, 5),)),
        FetchItem((block("a", 4, 20),), (Use(1, 4),)),
    )
    spilled = Intermediate(block("p", 4, 7), (1, 3), ((1, block("p", 4, 7)),), stored=True, may_be_resident=False)
    d = ResidencyProblem((10, 10, 10), 20, items, (spilled,), {}, 1.0, ())
    timing = evaluate_decisions(d, Decisions((False,), ((0,), (0,)), {}))
    # a arrives at 20, and 4 cycles of slot 1 follow; b at 50, and 5 of slot 2; the store ends at 57.
    assert timing.begin == (0, 10, 24, 55)
    assert (timing.end, timing.traffic) == (57, 57)


def test_a_circular_buffer_follows_what_was_issued_before_it() -> None:
    items = (
        FetchItem((block("a", 4, 20),), (Use(1, 10),)),
        FetchItem((block("w", 6, 6),), (Use(0, 10),), streamed="w"),
    )
    chunks = tuple(ChunkFetch(p, 0, (Span(0, 2),), 2) for p in range(3))
    d = ResidencyProblem((12, 10), 20, items, (), {("w", 0): (CircularBuffer(chunks, 4),)}, 1.0, ())
    timing = evaluate_decisions(d, Decisions((), ((0,), (NoFetch.CIRCULAR,)), {("w", 0): 0}))
    # The first chunk is there at 22, for 12 cycles of work; the last at 26, for a third of them.
    assert timing.begin == (0, 34, 44)


@pytest.mark.parametrize("seed", range(6))
def test_model_relaxes_every_decision(seed: int) -> None:
    """Without open decisions, the optimum is at most what the judge says of the decisions."""
    d, room = some(random.Random(seed))
    fitting = [x for x in every_decision(d) if (usage(d, x) <= room).all()]
    for decided in random.Random(seed).sample(fitting, min(40, len(fitting))):
        exact = evaluate_decisions(d, decided)
        answer = solve(ResidencyModel(d, room, decided, range(0), exact.end).model, budget=BUDGET)
        assert answer.status == "optimal" and answer.objective is not None
        assert answer.objective <= exact.objective


@pytest.mark.parametrize("seed", range(12))
def test_bound_and_answer_enclose_the_optimum_of_enumeration(seed: int) -> None:
    d, room = some(random.Random(seed))
    fitting = [x for x in every_decision(d) if (usage(d, x) <= room).all()]
    best = min((evaluate_decisions(d, x).objective for x in fitting), default=None)
    built = whole(d, room)
    answer = solve(built.model, budget=BUDGET)
    if best is None:
        assert answer.status == "infeasible"
        assert Greedy(d, room).spill_all() is not None
        return
    assert answer.status == "optimal" and answer.objective is not None
    assert lower_bound(d, room) <= best and 0.6 * best <= answer.objective <= best
    found = [with_fetch_slots(d, room, built.decisions(answer), n) for n in PASSED_OVER]
    assert all((usage(d, x) <= room).all() for x in found)
    assert best <= min(evaluate_decisions(d, x).objective for x in found) <= 1.15 * best


@pytest.mark.parametrize("seed", range(12))
def test_greedy_fits_and_is_a_valid_hint(seed: int) -> None:
    d, room = some(random.Random(seed))
    for passed_over in PASSED_OVER:
        greedy = Greedy(d, room)
        excess = greedy.spill_all()
        if excess is not None:
            assert excess.bytes > 0
            continue
        greedy.retain()
        assert (room - usage(d, greedy.decisions()) == greedy.room).all()
        start = with_fetch_slots(d, room, greedy.decisions(), passed_over)
        assert (usage(d, start) <= room).all()
        assert start in every_decision(d), "nothing is fetched too early"
        assert evaluate_decisions(d, start).objective <= evaluate_decisions(d, greedy.decisions()).objective
        built = whole(d, room, evaluate_decisions(d, start).end)
        built.hint(start)
        assert first_objective(built.model) <= evaluate_decisions(d, start).objective
        better = improve(d, room, start, budget=BUDGET, seed=0)
        assert better.bound <= better.timing.objective <= evaluate_decisions(d, start).objective


def several_windows() -> tuple[ResidencyProblem, np.ndarray, Decisions]:
    """A problem of more than one window, its room, and decisions that spill everything."""
    graph = residual(5, batch=4, size=16, channels=64)
    cells = Cells(graph)
    segments = rough_segments(graph, STCP, group=1, instances=4)
    steps = in_order(segments)
    d = residency_problem(graph, cells, STCP, segments, steps, rough_cycles(graph, segments, steps, cells))
    room = np.full(len(d.cycles), 100_000, dtype=np.int64)
    spilled = Greedy(d, room)
    assert spilled.spill_all() is None
    return d, room, spilled.decisions()


def test_windows_only_improve() -> None:
    d, room, start = several_windows()
    assert sum(len(i.uses) for i in d.items) > 150, "more than one window"
    first, second = (improve(d, room, start, budget=Budget(60.0, 0.5), seed=3) for _ in range(2))
    assert first.decisions == second.decisions, "deterministic"
    assert first.timing.objective < evaluate_decisions(d, start).objective
    assert (usage(d, first.decisions) <= room).all()
    assert first.bound <= first.timing.objective


def test_no_model_is_built_that_costs_more_than_there_is_to_search_with(monkeypatch: pytest.MonkeyPatch) -> None:
    d, room, start = several_windows()
    # Up to so many slots, one is built whatever the limit.
    assert len(d.cycles) < neighbourhood.BUILT_SLOTS
    assert improve(d, room, start, budget=Budget(60.0, neighbourhood.BUILDING / 2), seed=0).effort.searches == 1
    # Four times the slots cost sixteen times as much.
    monkeypatch.setattr(neighbourhood, "BUILT_SLOTS", len(d.cycles) / 4)
    costly = 16 * neighbourhood.BUILDING
    for limit in (0.9 * costly, 1.1 * costly):
        answer = improve(d, room, start, budget=Budget(60.0, limit), seed=0)
        assert answer.effort.limited
        assert (answer.effort.searches > 0) == (limit > costly)
        assert (answer.decisions != start) == (limit > costly)


@pytest.mark.parametrize("machine", [STCP, TINY], ids=lambda m: m.name)
@pytest.mark.parametrize("layerwise", [False, True])
@pytest.mark.parametrize("instances", [1, 2])
def test_plans_pass_the_checker(machine: Machine, layerwise: bool, instances: int) -> None:
    dtype = "float16" if machine is STCP else "float32"
    for graph in (chain(dtype=dtype, size=12), attention(dtype=dtype), residual(dtype=dtype, size=10)):
        for group in (1, 3):
            plan = rough_plan(graph, machine, layerwise=layerwise, group=group, instances=instances)
            check_plan(plan, graph, machine)
            if layerwise:
                assert all(b.fetch or b.store for b in plan.shared if b.memory == "LLB")
                # One step; a constant or staged tensor is there for its slot alone.
                assert all(b.live[1] - b.live[0] == 1 for b in plan.shared if b.memory == "LLB")


def test_depth_first_keeps_only_the_images_at_work() -> None:
    graph = chain(3, batch=4)
    segments = rough_segments(graph, STCP, group=1, instances=4)
    plan = rough_plan(graph, STCP, segments, by_instance(segments, [(0, 3)]))
    check_plan(plan, graph, STCP)
    pieces = [b for b in plan.shared if b.tensor == "conv0" and b.memory == "LLB"]
    assert [b.live for b in pieces] == [(0, 2), (3, 5), (6, 8), (9, 11)]
    assert all(b.box[0].size == 1 and not b.fetch and not b.store for b in pieces)


def test_weights_larger_than_the_memory_pass_through_a_circular_buffer() -> None:
    graph, segment = wide()
    assert graph.tensor["fc.w"].bytes > 3 * TINY.levels.exchange.capacity
    plan = rough_plan(graph, TINY, (segment,), (Step(0, 0),))
    check_plan(plan, graph, TINY)
    chunks = [b for b in plan.shared if b.tensor == "fc.w" and b.memory == "LLB"]
    assert max(b.ring_position for b in chunks) >= 2
    assert len({b.address for b in chunks}) < len(chunks), "positions take turns"
    assert sum(volume(b.box) for b in chunks) == volume(full(graph.tensor["fc.w"].shape)), "each element once"


def test_circular_buffer_needs_the_loop_over_chunks_outside() -> None:
    graph, segment = wide()
    inner = replace(segment.tiles[0], sizes=(1, 16), order=(0, 1))
    cells = Cells(graph)
    bad = replace(segment, tiles=(inner,))
    answer = decide_residency(graph, cells, TINY, (bad,), (Step(0, 0),), slot_cycles=[1000], budget=BUDGET)
    assert isinstance(answer, SharedOverflow) and answer.tensors[0] == "fc.w"


@pytest.mark.parametrize("layerwise", [False, True])
def test_what_the_host_touches_is_in_main_memory(layerwise: bool) -> None:
    graph = with_host()
    plan = rough_plan(graph, STCP, layerwise=layerwise)
    check_plan(plan, graph, STCP)
    homes = {b.tensor for b in plan.shared if b.memory == "DDR"}
    assert homes >= {"a", "x", "h", "b", "a.w", "b.w"}
    here = [b for b in plan.shared if b.memory == "LLB"]
    assert all(b.store for b in here if b.tensor == "a" and not b.fetch)
    assert all(b.fetch and b.live[0] >= 2 for b in here if b.tensor == "h")


def test_main_memory_can_be_too_small() -> None:
    small = replace(
        TINY,
        memories=tuple(replace(m, capacity=4096) if TINY.use_of(m.name) == "main" else m for m in TINY.memories),
    )
    with pytest.raises(InfeasibleError, match=r"DDR.*4,096 bytes.*too many; the largest is"):
        rough_plan(chain(1, dtype="float32"), small)


def test_boxes_of_whole_tensors() -> None:
    graph = chain(1)
    plan = rough_plan(graph, STCP)
    homes = [b for b in plan.shared if b.memory == "DDR"]
    assert [b.box for b in homes] == [full(graph.tensor[b.tensor].shape) for b in homes]
    ends = [(b.address, b.address + b.bytes) for b in homes]
    assert all(a[1] <= b[0] for a, b in pairwise(ends))


def test_greedy_prefetches_around_the_store_of_a_resident_output() -> None:
    """The store of p, after slot 0, takes the link for slot 1: w has to be fetched before it to be there in slot 2."""
    output = Intermediate(block("p", 4, 10), (0, 2), ((0, block("p", 4, 10)),), stored=True, may_be_resident=True)
    items = (
        FetchItem((block("p", 4, 10),), (Use(1, 10),), 1, intermediate=0),
        FetchItem((block("w", 4, 10),), (Use(2, 10),)),
    )
    d = ResidencyProblem((10, 10, 10, 10), 8, items, (output,), {}, 1.0, ())
    greedy = Greedy(d, np.full(4, 8, dtype=np.int64))
    assert greedy.spill_all() is None
    greedy.retain()
    assert greedy.resident == [True]
    ahead = with_fetch_slots(d, np.full(4, 8, dtype=np.int64), greedy.decisions(), 0)
    assert ahead.source[1] == (0,)
    assert evaluate_decisions(d, ahead).end == sum(d.cycles)
