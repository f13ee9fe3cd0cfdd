"""Models for CP-SAT that are closed at once, or not for minutes."""

from __future__ import annotations

import random

from girih.solver.cpsat.backend import Model, total, weighted


def knapsack(disabled: frozenset[str] = frozenset()) -> Model:
    model = Model("knapsack", disabled=disabled)
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
