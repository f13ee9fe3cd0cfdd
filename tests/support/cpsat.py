"""CP-SAT in tests: models that are closed at once, or not for minutes, and searches that no wall clock ends."""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from ortools.sat.python import cp_model

from girih.solver.cpsat.backend import Model, total, weighted


def knapsack() -> Model:
    model = Model("knapsack")
    take = [model.bool(f"take[{i}]") for i in range(4)]
    with model.group("room"):
        model.add(weighted(take, [3, 4, 5, 6]) <= 9)
    with model.group("pairs"):
        model.at_most_one(take[:2])
    model.minimize(-1 * weighted(take, [3, 4, 5, 7]))
    return model


def jobs(count: int = 60) -> Model:
    """A project that takes minutes to close."""
    rng = random.Random(1)
    model = Model("jobs")
    starts = [model.int(0, 1000, f"start[{i}]") for i in range(count)]
    sizes = [rng.randint(3, 20) for _ in range(count)]
    intervals = [model.interval(s, d, f"job[{i}]") for i, (s, d) in enumerate(zip(starts, sizes, strict=True))]
    model.cumulative(intervals, [rng.randint(1, 7) for _ in range(count)], 10)
    for i in range(count - 3):
        if rng.random() < 0.5:
            model.add(starts[i] + sizes[i] <= starts[i + 3])
    end = model.int(0, 1000, "end")
    model.max_equal(end, [s + d for s, d in zip(starts, sizes, strict=True)])
    model.minimize(1000 * end + total(starts))
    return model


def first_objective(model: Model) -> float:
    """The objective of the first solution that is found."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.stop_after_first_solution = True
    solver.solve(model.close())
    return solver.objective_value


@contextmanager
def unhurried() -> Generator[None]:
    """Deterministic limits alone end a search: the wall clock, a safety net for busy machines, is a thousand times slower.

    Two plans are only promised to be equal if it ended neither, and a machine may be as busy as it likes.
    """
    real_clock, real_solve = time.perf_counter, cp_model.CpSolver.solve

    def solve(self: cp_model.CpSolver, *words: Any, **options: Any) -> Any:
        self.parameters.max_time_in_seconds *= 1000
        return real_solve(self, *words, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: real_clock() / 1000)
        patch.setattr(cp_model.CpSolver, "solve", solve)
        yield
