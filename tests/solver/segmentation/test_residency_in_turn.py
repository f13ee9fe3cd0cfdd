"""Path and residency of a segmentation improve each other in turn, to answers that fit and are never worse; and
headroom stays free of all that an answer needs."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.solver.cpsat.backend import NO_SEARCH
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.column_cost import Column
from girih.solver.segmentation.groups.group_columns import GroupColumns
from girih.solver.segmentation.inter_segment import WEIGHT_PARTS, main_traffic, shared_bytes
from girih.solver.segmentation.problem import NO_ROOM, SegmentationAnswer, SegmentationProblem
from girih.solver.segmentation.solve import segment
from tests.support import graphs
from tests.support.machines import with_capacity

CAPACITY = 192 << 10
MACHINE: Machine = with_capacity(load_machine("tiny"), "LLB", CAPACITY)
GRAPH = graphs.residual(1, batch=4, size=28, channels=32, dtype="float32")


@cache
def candidates() -> Candidates:
    return Candidates(GRAPH, MACHINE)


@cache
def columns() -> tuple[Column, ...]:
    """Segments, and their groups."""
    single = candidates().columns()
    return (*single, *GroupColumns(GRAPH, MACHINE).columns(single, range(len(GRAPH.ops))))


def problem(headroom: int = 0, *, groups: bool = False) -> SegmentationProblem:
    return SegmentationProblem([c for c in columns() if groups or not c.members], GRAPH, MACHINE, headroom)


def check(instance: SegmentationProblem, answer: SegmentationAnswer, capacity: int) -> None:
    """A path from the first operator to the last, every column of which fits; and the objective that it says."""
    chosen = [instance.columns[j] for j in answer.path]
    assert chosen[0].first == 0 and chosen[-1].last == len(GRAPH.ops) - 1
    assert all(a.last + 1 == b.first for a, b in itertools.pairwise(chosen))
    resident = answer.residency.resident
    for j, pinned in zip(answer.path, answer.residency.pinned, strict=True):
        assert shared_bytes(instance.columns[j], instance.costs[j], resident, pinned, instance.reserve) <= capacity
    assert instance.answer(answer.path, answer.residency) == answer


def test_in_turn_they_are_better_than_at_first() -> None:
    instance = problem()
    bounds, first = instance.search()
    in_turn_bounds, better = instance.search(in_turn=True)
    assert first is not None and better is not None and bounds is not None and in_turn_bounds is not None
    assert better.objective < first.objective and in_turn_bounds.bound == bounds.bound
    assert better == instance.improved(first)
    assert instance.improved(better) == better
    check(instance, better, CAPACITY)
    check(instance, first, CAPACITY)
    solved = [
        segment(GRAPH, MACHINE, candidates=candidates(), budget=NO_SEARCH, in_turn=in_turn).solved.objective
        for in_turn in (False, True)
    ]
    assert solved == [first.objective / 10, better.objective / 10]


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("headroom", [0, 24 << 10, 64 << 10])
def test_an_improved_answer_is_never_worse(headroom: int, *, groups: bool) -> None:
    """Whatever residency it begins with."""
    instance = problem(headroom, groups=groups)
    bounds, _ = instance.search()
    assert bounds is not None
    better = 0
    answers = [a for path in bounds.paths if (a := instance.with_greedy_residency(path)) is not None]
    single = min(
        (j for j in range(len(instance.columns)) if instance.columns[j].last == 0),
        key=lambda j: instance.columns[j].cycles,
    )
    tails = [path for path in all_single(instance) if path[0] == single][:3]
    answers += [a for path in tails if (a := instance.with_greedy_residency(path)) is not None]
    assert answers
    for answer in answers:
        improved = instance.improved(answer)
        assert improved.objective <= answer.objective
        check(instance, improved, CAPACITY - headroom)
        better += improved.objective < answer.objective
    assert better


def all_single(instance: SegmentationProblem) -> list[tuple[int, ...]]:
    """Paths of single operators, each at its fewest or its most cycles."""
    paths: list[tuple[int, ...]] = [()]
    for position in range(len(GRAPH.ops)):
        single = [j for j, c in enumerate(instance.columns) if c.first == c.last == position]
        ends = {pick(single, key=lambda j: instance.columns[j].cycles) for pick in (min, max)}
        paths = [(*path, j) for path in paths for j in sorted(ends)]
    return paths


def test_columns_under_a_residency_cost_what_it_lets_them() -> None:
    instance = problem(groups=True)
    crossing = sorted({cost.name for costs in instance.costs for cost in costs if cost.can_reside})
    seen = {True: 0, False: 0}
    for resident in (frozenset[str](), *(frozenset({name}) for name in crossing), frozenset(crossing)):
        costs = instance.under(resident)
        for j, column in enumerate(instance.columns):
            fitting = [
                pinned
                for pinned in range(WEIGHT_PARTS + 1)
                if shared_bytes(column, instance.costs[j], resident, pinned, instance.reserve) <= instance.capacity
            ]
            seen[bool(fitting)] += 1
            assert costs.core_cycles[j] == column.cycles
            if not fitting:
                assert (costs.main_cycles[j], costs.slack_limit[j]) == (NO_ROOM, 0)
                continue
            traffic = main_traffic(column, instance.costs[j], resident, fitting[-1])
            assert costs.main_cycles[j] == instance.cycles(traffic)
            held = shared_bytes(column, instance.costs[j], resident, fitting[-1], 0)
            assert costs.slack_limit[j] == instance.slack_limit(j, held)
    assert seen[True] > 20 and seen[False] > 5


@pytest.mark.parametrize("in_turn", [False, True])
def test_headroom_stays_free(*, in_turn: bool) -> None:
    objectives: list[int] = []
    fullest: list[int] = []
    for headroom in (0, CAPACITY // 8, CAPACITY // 4, CAPACITY // 2):
        instance = problem(headroom, groups=True)
        _, answer = instance.search(in_turn=in_turn)
        assert answer is not None
        check(instance, answer, CAPACITY - headroom)
        objectives.append(answer.objective)
        fullest.append(
            max(
                shared_bytes(
                    instance.columns[j], instance.costs[j], answer.residency.resident, pinned, instance.reserve
                )
                for j, pinned in zip(answer.path, answer.residency.pinned, strict=True)
            )
        )
    assert fullest[0] > CAPACITY - CAPACITY // 8, "without headroom, this much is needed"
    assert objectives[-1] > objectives[0]


def test_headroom_is_asked_of_the_problem() -> None:
    tight = segment(GRAPH, MACHINE, candidates=candidates(), budget=NO_SEARCH, headroom=CAPACITY // 2)
    smaller = with_capacity(MACHINE, "LLB", CAPACITY // 2)
    _, expected = SegmentationProblem(candidates().columns(), GRAPH, smaller).search()
    assert expected is not None and tight.solved.objective == expected.objective / 10
    roomy = segment(GRAPH, MACHINE, candidates=candidates(), budget=NO_SEARCH)
    assert roomy.columns != tight.columns
