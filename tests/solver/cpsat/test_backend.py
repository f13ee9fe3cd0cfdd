"""The border to the solver: every status, determinism, limits, interrupts."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from girih.solver.cpsat.backend import Budget, Model, Solution, solve, weighted
from girih.solver.effort import MOST_POINTS, SearchPoint
from tests.support.cpsat import first_objective, jobs, knapsack

LONG = Budget(20.0)


def test_optimal() -> None:
    answer = solve(knapsack(), budget=LONG)
    assert (answer.status, answer.objective, answer.bound) == ("optimal", -10.0, -10.0)
    assert not answer.effort.timed_out and not answer.interrupted and answer.effort.seconds > 0


def test_infeasible_has_no_numbers() -> None:
    model = Model()
    x = model.int(0, 3, "x")
    model.add(x >= 4)
    model.minimize(x)
    answer = solve(model, budget=LONG)
    assert (answer.status, answer.objective, answer.bound) == ("infeasible", None, None)
    with pytest.raises(RuntimeError, match="found nothing"):
        answer.value(x)


def test_satisfaction_has_no_objective() -> None:
    model = Model()
    x = model.int(0, 3, "x")
    model.add(x >= 2)
    answer = solve(model, budget=LONG)
    assert (answer.status, answer.objective, answer.bound) == ("optimal", None, None)
    assert answer.value(x) >= 2


def test_unknown() -> None:
    answer = solve(jobs(), budget=Budget(20.0, 0.0))
    assert answer.status == "unknown" and answer.objective is None and not answer.effort.timed_out


def test_invalid_model_is_an_internal_error() -> None:
    model = Model("broken")
    x = model.int(0, 1 << 62, "x")
    model.add((1 << 60) * x <= 5)
    with pytest.raises(RuntimeError, match="broken"):
        solve(model, budget=LONG)


def test_limits() -> None:
    by_work = solve(jobs(), budget=Budget(60.0, 0.2))
    assert by_work.status == "feasible" and not by_work.effort.timed_out
    by_clock = solve(jobs(), budget=Budget(1.0, 1e9))
    assert by_clock.status == "feasible" and by_clock.effort.timed_out


def test_same_seed_same_answer() -> None:
    def answers(seed: int) -> tuple[float | None, float | None, float]:
        answer = solve(jobs(), budget=Budget(60.0, 0.1), seed=seed)
        return answer.objective, answer.bound, answer.effort.deterministic_seconds

    assert answers(7) == answers(7)


def test_points_of_a_search() -> None:
    solution = solve(jobs(), budget=Budget(60.0, 0.2))
    points = solution.effort.points
    assert 3 < len(points) <= MOST_POINTS
    assert points[-1] == SearchPoint(solution.effort.deterministic_seconds, solution.objective, solution.bound)
    for before, after in pairwise(points):
        assert before.work <= after.work
        assert (before.incumbent or 0) >= (after.incumbent or 0)
        assert (before.bound or 0) <= (after.bound or 0) <= (after.incumbent or 0)
    assert (solution.effort.searches, solution.effort.variables, solution.effort.constraints) == (1, 61, 93)
    # Counted work, no clock: the same again.
    assert solve(jobs(), budget=Budget(60.0, 0.2)).effort.points == points


def test_a_watch_changes_nothing() -> None:
    told: list[tuple[float | None, float | None]] = []
    threads: set[int] = set()

    def watch(incumbent: float | None, bound: float | None) -> None:
        told.append((incumbent, bound))
        threads.add(threading.get_ident())

    alone = solve(jobs(), budget=Budget(60.0, 0.3))
    watched = solve(jobs(), budget=Budget(60.0, 0.3), watch=watch)
    assert (watched.objective, watched.bound) == (alone.objective, alone.bound)
    assert replace(watched.effort, seconds=0.0) == replace(alone.effort, seconds=0.0)
    assert told and threads == {threading.get_ident()}
    incumbents = [incumbent for incumbent, _ in told if incumbent is not None]
    assert incumbents == sorted(incumbents, reverse=True) and incumbents[-1] >= (alone.objective or 0)


def test_a_watch_that_fails_ends_the_search() -> None:
    def watch(incumbent: float | None, bound: float | None) -> None:
        raise ValueError("no more room on the screen")

    began = time.perf_counter()
    with pytest.raises(ValueError, match="no more room"):
        solve(jobs(), budget=Budget(60.0, 1e9), watch=watch)
    assert time.perf_counter() - began < 30


def test_no_objective_no_points() -> None:
    model = Model()
    x = model.int(0, 3, "x")
    model.add(x >= 2)
    assert solve(model, budget=LONG).effort.points == ()


def test_every_constraint() -> None:
    model = Model()
    x = model.int(0, 9, "x")
    a, b, c = (model.bool(name) for name in "abc")
    model.exactly_one([a, b])
    model.implication(a, c)
    model.any_of([a, c])
    model.add(x == 3, when=a)
    model.add(x == 5, when=b)
    model.no_overlap([model.interval(0, 4, "i"), model.interval(start := model.int(0, 9, "s"), 2, "j")])
    model.cumulative([model.interval(0, 3, "u"), model.interval(late := model.int(0, 9, "l"), 2, "v")], [2, 2], 3)
    model.max_equal(most := model.int(0, 9, "most"), [x, late])
    pick = model.choice([2, 6], "pick")
    model.add(pick > 3)
    four = model.constant(4)
    model.minimize(x + start + late + most)
    answer = solve(model, budget=LONG)
    assert [answer.value(v) for v in (x, start, late, most, pick)] == [3, 4, 3, 3, 6]
    assert answer.true(a) and answer.true(c) and not answer.true(b)
    assert answer.value(four) == 4


def test_hint_is_the_first_solution() -> None:
    model = Model()
    x = [model.int(0, 50, f"x{i}") for i in range(8)]
    for a, b in pairwise(x):
        model.add(a + b >= 30)
    model.minimize(weighted(x, [5, 3, 7, 2, 9, 4, 6, 1]))
    for i, var in enumerate(x):
        model.hint(var, 7)
        model.hint(var, 20 if i % 2 else 15)
    assert first_objective(model) <= 15 * (5 + 7 + 9 + 6) + 20 * (3 + 2 + 4 + 1)


def test_interrupt_keeps_the_incumbent() -> None:
    # Far later than the first solution, and far earlier than the end.
    threading.Timer(3.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began = time.perf_counter()
    answer: Solution = solve(jobs(), budget=Budget(60.0, 1e9))
    assert answer.interrupted and answer.has_solution and not answer.effort.timed_out
    assert time.perf_counter() - began < 40
