"""Groups of segments as columns of the master: what passes between their members takes shared memory in the model and
in the objective, and the model finds the best answer, which has a group."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, combinations

import pytest

from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Split
from girih.solver.cpsat.backend import NO_SEARCH, Budget, solve
from girih.solver.segmentation import inter_segment
from girih.solver.segmentation import solve as segmentation_solve
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.column_cost import Column
from girih.solver.segmentation.groups.group_columns import GroupColumns
from girih.solver.segmentation.inter_segment import (
    WEIGHT_PARTS,
    ActivationCost,
    ResidentSet,
    least_main_traffic,
    pinned_parts,
    shared_bytes,
)
from girih.solver.segmentation.model import SegmentationModel
from girih.solver.segmentation.problem import OVERLAP_PENALTY, SegmentationProblem
from girih.solver.segmentation.shortest_path import Boundaries, Path
from girih.solver.segmentation.solve import BendersCut, segment
from girih.solver.segmentation.splits import SegmentSplit
from tests.support import graphs
from tests.support.machines import with_capacity
from tests.support.two_clocks import Decisions, by_the_model, by_two_clocks

TINY = load_machine("tiny")
GRAPH = graphs.chain(3, batch=2, size=12, channels=8)
CAPACITY, RESERVE = 4000, 240


def drawn(rng: random.Random) -> SegmentationProblem:
    """Columns over three boundaries, of which the last three are groups, with figures at random; one byte takes one
    cycle of main memory."""
    problem = SegmentationProblem([], GRAPH, TINY)
    problem.main_rate, problem.capacity, problem.reserve = 1.0, CAPACITY, RESERVE
    for first, last in [(0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2)]:
        weights = WEIGHT_PARTS * rng.randint(0, 100)
        refetched = WEIGHT_PARTS * rng.randint(1, 200) if weights and rng.random() < 0.5 else 0
        split = SegmentSplit((Split(0, rng.choice((1, 2, 4))),), ())
        column = Column(first, last, split, rng.randint(1, 9000), weights, refetched, weights, (), 0, ())
        if first < last:
            single = [c for c in problem.columns if first <= c.first and c.last <= last and c.first == c.last]
            column = replace(column, members=tuple(single), internal_bytes=rng.randint(0, 3500))
        problem.columns.append(column)
        names = [name for name in "abc" if rng.random() < 0.7]
        sizes = [(rng.randint(0, 1200), rng.randint(0, 600), rng.randint(0, 900), rng.randint(0, 3000)) for _ in names]
        problem.costs.append(
            tuple(ActivationCost(n, n != "c", *figures) for n, figures in zip(names, sizes, strict=True))
        )
        problem.least_main_cycles.append(0)
    problem.boundaries = Boundaries(problem.columns, 3)
    return problem


PATHS = ((0, 1, 2), (3, 2), (0, 4), (5,))


def test_what_passes_between_members_takes_room_of_the_model() -> None:
    """With all decisions fixed, the model is infeasible, or late, exactly where that says so."""
    rng = random.Random(5)
    changed: list[tuple[bool, bool]] = []
    for _ in range(200):
        problem = drawn(rng)
        path = rng.choice(PATHS[1:])
        resident = frozenset(name for name in "ab" if rng.random() < 0.5)
        pinned = {
            j: rng.choice((0, 5, WEIGHT_PARTS)) if j in path and column.refetched_bytes else 0
            for j, column in enumerate(problem.columns)
        }
        decisions = Decisions(path, resident, pinned)
        expected = by_two_clocks(problem, decisions)
        assert by_the_model(problem, decisions) == expected
        if expected is not None:
            answer = problem.answer(path, ResidentSet(resident, tuple(pinned[j] for j in path)))
            assert answer.objective == expected
        problem.columns = [replace(column, internal_bytes=0) for column in problem.columns]
        without = by_two_clocks(problem, decisions)
        changed.append((expected != without, expected is None))
    assert changed.count((True, True)) > 5 and changed.count((True, False)) > 2 and changed.count((False, False)) > 5


@pytest.mark.parametrize("internal_bytes", [0, 1, 999])
def test_what_passes_between_members_is_part_of_what_a_column_needs(internal_bytes: int) -> None:
    costs = (ActivationCost("a", True, 1000, 300, 0, 0), ActivationCost("b", False, 500, 200, 0, 0))
    split = SegmentSplit((Split(0, 2),), ())
    group = Column(0, 1, split, 1, 640, 320, 320, (), 0, (), internal_bytes=internal_bytes)
    for resident, held in ((frozenset("a"), 1200), (frozenset("ab"), 1200), (frozenset[str](), 500)):
        assert shared_bytes(group, costs, resident, 0, 100) == held + 100 + internal_bytes
        assert shared_bytes(group, costs, resident, WEIGHT_PARTS, 0) == held + 320 + internal_bytes


@pytest.mark.parametrize("pin_bytes", [1, 15, 16, 100, 1000, 4096])
def test_as_many_weights_are_pinned_as_have_room(pin_bytes: int) -> None:
    column = Column(0, 0, SegmentSplit((Split(0, 2),), ()), 1, 0, 100, pin_bytes, (), 0, ())
    for room in (0, 1, 7, 99, 100, 640, 999, 4095, 4096, 9999):
        parts = pinned_parts(column, room)
        fitting = [n for n in range(WEIGHT_PARTS + 1) if shared_bytes(column, (), frozenset(), n, 0) <= room]
        assert parts == max(fitting)
    assert pinned_parts(replace(column, pin_bytes=0), 0) == WEIGHT_PARTS


def test_of_many_activations_the_least_traffic_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all sets of residents are tried: what is said then is never more than what they take, and less at times."""
    rng = random.Random(7)
    problems = [drawn(rng) for _ in range(20)]
    cases = [pair for problem in problems for pair in zip(problem.columns, problem.costs, strict=True)]
    exact = [least_main_traffic(column, costs, CAPACITY, RESERVE) for column, costs in cases]
    monkeypatch.setattr(inter_segment, "MOST_CHOICES", 0)
    bounds = [least_main_traffic(column, costs, CAPACITY, RESERVE) for column, costs in cases]
    pairs = [(bound, least) for bound, least in zip(bounds, exact, strict=True) if least is not None]
    assert [b is None for b in bounds] == [e is None for e in exact]
    assert all(bound is not None and bound <= least for bound, least in pairs)
    assert any(bound != least for bound, least in pairs)


# The best answer.


def maxima() -> Graph:
    """A shortcut over functions of each element, of which main memory has to hold some if they are not in a group."""
    net = graphs.Net("maxima", "float32")
    a = net.elementwise("a", "max", net.input("x", 4, 16, 64), 0.0)
    b = net.elementwise("b", "add", a, 1.0)
    c = net.elementwise("c", "add", b, a)
    net.elementwise("e", "max", net.elementwise("d", "add", c, 2.0), 0.5)
    return net.graph()


def machine_of(capacity: int) -> Machine:
    return with_capacity(TINY, "LLB", capacity)


@cache
def with_groups(capacity: int) -> SegmentationProblem:
    """Single operators and their groups, none of which has weights."""
    graph, machine = maxima(), machine_of(capacity)
    single = Candidates(graph, machine, longest=1).columns()
    groups = GroupColumns(graph, machine).columns(single, range(len(graph.ops)))
    return SegmentationProblem([*single, *groups], graph, machine)


def paths(problem: SegmentationProblem, start: int = 0) -> Iterator[Path]:
    if start == problem.boundaries.count:
        yield ()
    for j in problem.boundaries.leaving[start]:
        for rest in paths(problem, problem.boundaries.end[j]):
            yield (j, *rest)


def best_of_all(problem: SegmentationProblem) -> tuple[int, Path]:
    """Of all paths with all residencies."""
    best: tuple[int, Path] | None = None
    for path in paths(problem):
        names = sorted({cost.name for j in path for cost in problem.costs[j] if cost.can_reside})
        for resident in chain.from_iterable(combinations(names, n) for n in range(len(names) + 1)):
            objective = on_two_clocks(problem, path, frozenset(resident))
            if objective is not None and (best is None or objective < best[0]):
                best = objective, path
    assert best is not None
    return best


def on_two_clocks(problem: SegmentationProblem, path: Path, resident: frozenset[str]) -> int | None:
    """The objective of a path without weights, by the clocks of cores and main memory."""
    cores = main = work = 0
    for j in path:
        column = problem.columns[j]
        held, traffic = column.internal_bytes, 0
        for cost in problem.costs[j]:
            resides = cost.can_reside and cost.name in resident
            held += cost.resident_bytes if resides else cost.staged_bytes
            traffic += cost.resident_traffic if resides else cost.spilled_traffic
        if held > problem.capacity:
            return None
        need = problem.cycles(traffic)
        cores = max(cores + column.cycles, main + need)
        main = max(main + need, cores - int((problem.capacity - held) / problem.main_rate))
        work += column.cycles + need
    return OVERLAP_PENALTY * cores + work


@pytest.mark.parametrize("capacity", [24 << 10, 32 << 10, 40 << 10])
def test_the_model_is_as_good_as_all_paths_with_groups(capacity: int) -> None:
    problem = with_groups(capacity)
    assert not any(column.weight_bytes for column in problem.columns)
    best, path = best_of_all(problem)
    assert any(problem.columns[j].members for j in path)
    ungrouped = SegmentationProblem([c for c in problem.columns if not c.members], problem.graph, machine_of(capacity))
    assert best < best_of_all(ungrouped)[0]
    model = SegmentationModel(problem, range(len(problem.columns)))
    solution = solve(model.model, budget=Budget(60.0))
    assert solution.status == "optimal" and solution.objective is not None
    # The model rounds each term up by itself.
    assert best - 1 <= solution.objective <= best * 1.001 + 100
    answer = model.answer(solution.value)
    assert any(problem.columns[j].members for j in answer.path)
    assert best <= answer.objective <= best * 1.001 + 100


@pytest.mark.parametrize("searches", [True, False])
def test_segments_of_a_group_bear_its_number(monkeypatch: pytest.MonkeyPatch, *, searches: bool) -> None:
    """Whether the answer is that of the solver or the heuristic's."""
    capacity = 32 << 10
    graph, machine = maxima(), machine_of(capacity)
    candidates = Candidates(graph, machine, longest=1)
    groups = GroupColumns(graph, machine)
    monkeypatch.setattr(segmentation_solve, "MOST_COLUMNS", 10_000)
    answer = segment(
        graph, machine, candidates=candidates, budget=Budget(30.0) if searches else NO_SEARCH,
        grouped=lambda columns: groups.columns(columns, range(len(graph.ops))),
    )  # fmt: skip
    assert len(answer.groups) == len(answer.segments) == len(answer.columns) == len(graph.ops)
    assert len(set(answer.groups)) < len(answer.segments)
    assert answer.groups[0] == 0 and all(
        b - a in (0, 1) for a, b in zip(answer.groups, answer.groups[1:], strict=False)
    )
    assert not any(column.members for column in answer.columns)
    alone = segment(graph, machine, candidates=candidates)
    assert alone.groups == ()
    assert answer.solved.objective is not None and alone.solved.objective is not None
    assert answer.solved.objective < alone.solved.objective
    if searches:
        best, _ = best_of_all(with_groups(capacity))
        assert OVERLAP_PENALTY * answer.solved.objective == pytest.approx(best, rel=0.001)


def shortcut() -> Graph:
    return graphs.residual(1, batch=4, size=24, dtype="float32")


def test_groups_are_of_columns_that_cuts_leave() -> None:
    graph, machine = shortcut(), machine_of(128 << 10)
    candidates = Candidates(graph, machine, longest=2)
    seen: list[list[Column]] = []

    def grouped(columns: Sequence[Column]) -> list[Column]:
        seen.append(list(columns))
        return []

    before = segment(graph, machine, candidates=candidates, grouped=grouped)
    refused = before.segments[0]
    cut = BendersCut(refused.ops, refused.instances, refused.cores)
    dearer = BendersCut(before.segments[1].ops, cycles=10**6)
    segment(graph, machine, candidates=candidates, grouped=grouped, cuts=(cut, dearer))
    whole, rest = seen

    def refused_columns(columns: Sequence[Column]) -> list[Column]:
        splits = [(c, c.split.instances, c.split.cores) for c in columns if c.first == 0 and len(cut.ops) == c.last + 1]
        return [c for c, *split in splits if split == [cut.instances, cut.cores]]

    assert refused_columns(whole) and not refused_columns(rest)
    start = len(before.segments[0].ops)
    later = [c for c in rest if c.first == start and c.last + 1 == start + len(dearer.ops)]
    assert later and {c.cycles for c in later} == {10**6}


def test_a_group_with_a_member_that_does_not_fit_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one of its cells: no answer has the member again, neither alone nor in a group."""
    graph, machine = shortcut(), machine_of(128 << 10)
    candidates = Candidates(graph, machine, longest=2)
    groups = GroupColumns(graph, machine)

    def grouped(columns: Sequence[Column]) -> list[Column]:
        return groups.columns(columns, range(len(graph.ops)))

    before = segment(graph, machine, candidates=candidates, grouped=grouped)
    place = next(n for n in range(len(before.groups)) if before.groups.count(before.groups[n]) > 1)
    member = before.columns[place]
    exact = Candidates.exact_local_bytes

    def larger(priced: Candidates, column: Column) -> int:
        too_large = (column.last, column.split) == (member.last, member.split)
        return priced.capacity + 1 if too_large else exact(priced, column)

    monkeypatch.setattr(Candidates, "exact_local_bytes", larger)
    after = segment(graph, machine, candidates=candidates, grouped=grouped)
    assert "did not fit in all their cells" in after.note
    assert all((c.last, c.split) != (member.last, member.split) for c in after.columns)
