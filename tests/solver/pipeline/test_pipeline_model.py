"""The pipeline model: known loops, random loops against an unrolling checker, and each switch."""

from __future__ import annotations

import random

import pytest

from girih.solver.cpsat.backend import Budget, solve
from girih.solver.pipeline.model import build, check, pipeline, smallest_interval
from girih.solver.pipeline.problem import Body, Fill, Ring, Task


def loop(load: int, matrix: int, vector: int, *, scratch: int = 100, weights: int = 100, room: int = 300) -> Body:
    """Copy in, multiply, finish: the loop of almost every operator."""
    return Body(
        tasks=(Task("copy", load, 20), Task("matrix", matrix, 10), Task("vector", vector, 5)),
        deps=((0, 1), (1, 2)),
        rings=(
            Ring("scratch", scratch, room, (1, 2, 3), ((Fill(1, 2),),)),
            Ring("weights", weights, room, (1, 2, 3), ((Fill(0, 1),),)),
        ),
        tiles=1,
    )


def test_two_versions_hide_the_shorter_engines() -> None:
    schedule = pipeline(loop(50, 100, 40))
    assert schedule is not None
    assert schedule.interval == schedule.bound == 100
    assert schedule.depths == (2, 2)
    assert schedule.latency == 50 + 20 + 100 + 10 + 40 + 5
    assert schedule.status == "optimal" and schedule.runs == 0
    assert not check(loop(50, 100, 40), schedule)


def test_one_version_where_there_is_no_room_for_two() -> None:
    schedule = pipeline(loop(50, 100, 40, scratch=200))
    assert schedule is not None
    assert schedule.depths[0] == 1
    assert schedule.interval == 100 + 10 + 40 + 5
    assert schedule.status == "optimal" and schedule.bound == schedule.interval


def test_balanced_loop_takes_three_versions() -> None:
    """Latencies beside a full engine: two versions leave a bubble."""
    schedule = pipeline(loop(100, 100, 100))
    assert schedule is not None
    assert schedule.interval == 100
    assert schedule.depths == (3, 3)


def test_too_large_for_one_version() -> None:
    assert pipeline(loop(50, 100, 40, scratch=301)) is None


def random_body(rng: random.Random) -> Body:
    tasks: list[Task] = []
    deps: list[tuple[int, int]] = []
    scratch: list[Fill] = []
    weights: list[Fill] = []
    for _ in range(rng.randint(1, 3)):
        first = len(tasks)
        before: int | None = None
        if rng.random() < 0.4:
            tasks.append(Task("vector", rng.randint(5, 60), 5))
            before = first
        for _ in range(rng.randint(1, 2)):
            tasks.append(Task("copy", rng.randint(5, 60), 20))
            tasks.append(Task("matrix", rng.randint(5, 60), 10))
            last = len(tasks) - 1
            weights.append(Fill(last - 1, last))
            deps.append((last - 1, last))
            if before is not None:
                deps.append((before, last))
            before = last
        tasks.append(Task("vector", rng.randint(5, 60), 5))
        deps.append((before or 0, len(tasks) - 1))
        scratch.append(Fill(min(first + 0, len(tasks) - 1), len(tasks) - 1))
    return Body(
        tuple(tasks),
        tuple(deps),
        (
            Ring("scratch", rng.randint(50, 200), 300, (1, 2, 3), (tuple(scratch),)),
            Ring("weights", rng.randint(50, 200), 300, (1, 2, 3), (tuple(weights),)),
        ),
        1,
    )


@pytest.mark.parametrize("seed", range(12))
def test_random_loops_obey_the_checker_and_the_bound(seed: int) -> None:
    body = random_body(random.Random(seed))
    schedule = pipeline(body)
    assert schedule is not None
    assert check(body, schedule) == []
    assert schedule.interval >= schedule.bound >= smallest_interval(body)
    assert schedule.status == "optimal"


@pytest.mark.parametrize("seed", range(6))
def test_reordering_never_loses(seed: int) -> None:
    body = random_body(random.Random(seed))
    fixed, free = pipeline(body), pipeline(body, in_order=False)
    assert fixed is not None and free is not None
    assert free.interval <= fixed.interval
    assert check(body, free) == []


@pytest.mark.parametrize("seed", range(6))
def test_the_anchor_loses_nothing(seed: int) -> None:
    """With and without constraint (6) the same intervals are feasible, with the same shortest latency."""
    body = random_body(random.Random(seed))
    schedule = pipeline(body)
    assert schedule is not None
    latencies: list[float | None] = []
    for anchored in (True, False):
        built = build(body, schedule.interval, 3 * schedule.latency, anchored=anchored)
        built.model.minimize(built.latency)
        latencies.append(solve(built.model, budget=Budget(20.0)).objective)
        below = build(body, schedule.interval - 1, 3 * schedule.latency, anchored=anchored)
        assert solve(below.model, budget=Budget(20.0)).status == "infeasible"
    assert latencies[0] == latencies[1]
    assert latencies[0] == schedule.latency


def test_a_schedule_that_overwrites_is_caught() -> None:
    body = loop(50, 100, 40)
    schedule = pipeline(body)
    assert schedule is not None
    wrong = type(schedule)((1, 1), schedule.starts, 100, schedule.latency, 200, 100, "feasible")
    assert any("overwritten" in line for line in check(body, wrong))
