"""Each constraint of segmentation binds: with all decisions fixed, the model takes as long as the two clocks of the
cores and of main memory say, and is infeasible exactly where a column does not fit in shared memory.

One byte takes one cycle of main memory here, so that nothing is rounded.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from girih.ir.load_machine import load_machine
from girih.ir.plan import Split
from girih.solver.segmentation import solve as segmentation_solve
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.column_cost import Column
from girih.solver.segmentation.inter_segment import WEIGHT_PARTS, ActivationCost
from girih.solver.segmentation.model import SegmentationModel
from girih.solver.segmentation.problem import OVERLAP_PENALTY, SegmentationAnswer, SegmentationProblem
from girih.solver.segmentation.shortest_path import Boundaries, PathBounds
from girih.solver.segmentation.solve import segment
from girih.solver.segmentation.splits import SegmentSplit
from tests.support import graphs
from tests.support.two_clocks import Decisions, by_the_model, by_two_clocks

TINY = load_machine("tiny")
GRAPH = graphs.chain(4, batch=2, size=12, channels=8)
CAPACITY, RESERVE = 4000, 240
NAMES = ("a", "b", "c")


def drawn(rng: random.Random) -> SegmentationProblem:
    """Eight columns of one to three operators over four boundaries, with all figures at random."""
    problem = SegmentationProblem([], GRAPH, TINY)
    problem.main_rate, problem.capacity, problem.reserve = 1.0, CAPACITY, RESERVE
    runs = [(first, first) for first in range(4)] + [(0, 1), (1, 3), (2, 3), (0, 2)]
    for first, last in runs:
        weights = WEIGHT_PARTS * rng.randint(0, 120)
        refetched = WEIGHT_PARTS * rng.randint(0, 1000) if weights and rng.random() < 0.7 else 0
        split = SegmentSplit((Split(0, rng.choice((1, 2, 4))),), ())
        cycles = rng.choice((rng.randint(1, 5000), rng.randint(5000, 30000)))
        problem.columns.append(Column(first, last, split, cycles, weights, refetched, weights, (), 0, ()))
        problem.costs.append(
            tuple(
                ActivationCost(
                    name,
                    name != "c",
                    rng.randint(0, 2500),
                    rng.randint(0, 1500),
                    rng.randint(0, 1500),
                    rng.randint(0, 3000),
                )
                for name in NAMES
                if rng.random() < 0.8
            )
        )
        problem.least_main_cycles.append(0)
    problem.boundaries = Boundaries(problem.columns, 4)
    return problem


PATHS = ((0, 1, 2, 3), (4, 2, 3), (0, 5), (4, 6), (7, 3), (0, 1, 6))


def decided(problem: SegmentationProblem, rng: random.Random) -> Decisions:
    path = rng.choice(PATHS)
    pinned = {
        j: rng.choice((0, 0, 3, 8, WEIGHT_PARTS)) if j in path and problem.columns[j].refetched_bytes else 0
        for j in range(len(problem.columns))
    }
    return Decisions(path, frozenset(n for n in ("a", "b") if rng.random() < 0.5), pinned)


def test_the_model_takes_as_long_as_its_decisions_say() -> None:
    rng = random.Random(3)
    fits: list[bool] = []
    for _ in range(150):
        problem = drawn(rng)
        given = decided(problem, rng)
        expected = by_two_clocks(problem, given)
        assert by_the_model(problem, given) == expected
        fits.append(expected is not None)
    assert 30 < sum(fits) < 140


@pytest.mark.parametrize("constraint", ["shared_memory", "cores", "main_memory", "prefetch_has_room", "pinned_weights"])
def test_without_one_of_its_constraints_the_model_differs(constraint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases above are such that each constraint decides some of them."""
    monkeypatch.setattr(SegmentationModel, constraint, lambda *_: None)
    monkeypatch.setattr(SegmentationModel, "redundant", lambda *_: None)
    rng = random.Random(3)

    def agrees() -> bool:
        problem = drawn(rng)
        given = decided(problem, rng)
        if constraint == "pinned_weights":
            unused = next((j for j, c in enumerate(problem.columns) if c.refetched_bytes and j not in given.path), None)
            if unused is None:
                return True
            given = replace(given, pinned=given.pinned | {unused: 1})
            return by_the_model(problem, given) is None
        return by_the_model(problem, given) == by_two_clocks(problem, given)

    assert not all(agrees() for _ in range(60))


def test_the_answer_of_the_solver_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the heuristic is poor, the segmentation is that of the model, and not the heuristic's."""
    columns = Candidates(GRAPH, TINY)
    best = segment(GRAPH, TINY, candidates=columns)
    search = SegmentationProblem.search

    def poor(problem: SegmentationProblem, **_: bool) -> tuple[PathBounds | None, SegmentationAnswer | None]:
        bounds, _ = search(problem)
        single: dict[int, int] = {}
        for j, column in enumerate(problem.columns):
            if column.first == column.last and column.cycles > problem.columns[single.get(column.first, j)].cycles - 1:
                single[column.first] = j
        answer = problem.with_greedy_residency(tuple(single[p] for p in range(len(GRAPH.ops))))
        assert answer is not None
        poorest.append(answer.objective / OVERLAP_PENALTY)
        return bounds, answer

    poorest: list[float] = []
    monkeypatch.setattr(SegmentationProblem, "search", poor)
    monkeypatch.setattr(segmentation_solve, "MOST_COLUMNS", 10_000)
    answered = segment(GRAPH, TINY, candidates=columns)
    assert answered.solved.objective is not None and best.solved.objective is not None
    assert poorest[-1] > 1.05 * best.solved.objective
    assert answered.solved.objective == pytest.approx(best.solved.objective, rel=0.01)
    assert sum(c.cycles for c in answered.columns) < poorest[-1]
    assert len(answered.segments) == len(answered.columns)
