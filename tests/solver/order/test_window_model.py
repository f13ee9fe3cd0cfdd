"""The model of a window finds what brute force finds, says what the whole takes, and each constraint counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from girih.ir.isa.timing import Cost
from girih.ir.semantics.task_graph import TaskGraph
from girih.solver.cpsat.backend import Budget
from girih.solver.order.list_schedule import OrderProblem
from girih.solver.order.model import Window, improved
from girih.solver.order.timed_order import TimedOrder
from tests.support.sampled import sampled
from tests.support.task_graphs import best_by_brute_force, check_schedule, random_tasks


@pytest.mark.parametrize("seed", sampled(range(25)))
def test_a_window_of_everything_is_optimal(seed: int) -> None:
    tasks = random_tasks(Random(seed), 7, queues=2, links=0)
    problem = OrderProblem(tasks)
    worst = problem.in_order(range(len(tasks)))
    found, solution = improved(TimedOrder(problem, worst).window(range(len(tasks))), Budget(10.0, 1.0), 0)
    best = best_by_brute_force(tasks)
    assert solution.status == "optimal"
    assert (problem.in_order(found) if found is not None else worst).cycles == best


@pytest.mark.parametrize("seed", sampled(range(25)))
def test_no_order_of_a_window_takes_fewer_cycles_than_it_says(seed: int) -> None:
    random = Random(seed)
    tasks = random_tasks(random, 30, queues=1 + seed % 3, links=0)
    schedule = OrderProblem(tasks).in_order(range(len(tasks)))
    window = TimedOrder(OrderProblem(tasks), schedule).window(range(random.randint(0, 10), random.randint(15, 30)))
    answer, solution = improved(window, Budget(10.0, 1.0), 0)
    assert window.least_cycles <= (solution.objective or 0.0)
    if not window.can_be_shorter:
        assert answer is None


def test_a_window_with_the_longest_path_has_no_shorter_order() -> None:
    assert window().least_cycles == 11 and window().can_be_shorter
    # A queue that works from its first release to its last tail.
    assert window(tail=(20, 20, 0)).least_cycles == 31
    assert not window(edges=((0, 1, 0), (1, 2, 2)), start=(0, 10, 13)).can_be_shorter


def cycles_outside(tasks: TaskGraph, order: Sequence[int], window: frozenset[int]) -> float:
    """The longest path that passes no task of the window: what the others take if those take nothing."""
    outside = replace(
        tasks,
        cost=tuple(Cost(0, 0, 0) if task in window else cost for task, cost in enumerate(tasks.cost)),
        after=tuple(
            () if task in window else tuple(other for other in earlier if other not in window)
            for task, earlier in enumerate(tasks.after)
        ),
    )
    return OrderProblem(outside).in_order(order).cycles


@pytest.mark.parametrize("beside", [0, 350])
@pytest.mark.parametrize("seed", [1, 6, 17])
def test_a_window_promises_what_the_whole_takes(seed: int, beside: int) -> None:
    """Without links, the whole takes what the model says of paths through the window, or what the others take.

    ``beside``: cycles of a queue of its own, which may be more than all the rest.
    """
    tasks = random_tasks(Random(seed), 50, links=0)
    tasks = replace(
        tasks, queues=(*tasks.queues, "beside"), computes=(*tasks.computes, True), queue=(3, *tasks.queue[1:]),
        cost=(Cost(0, beside, 0), *tasks.cost[1:]), after=tuple(tuple(t for t in own if t) for own in tasks.after),
    )  # fmt: skip
    problem = OrderProblem(tasks)
    before = problem.in_order(range(len(tasks)))
    places = range(5 + 5 * (seed % 4), 50 - 5 * (seed // 4))
    window = TimedOrder(problem, before).window(places)
    assert window.cycles <= before.cycles
    better, solution = improved(window, Budget(10.0, 1.0), 0)
    assert better is not None and solution.status == "optimal"
    whole = (*before.order[: places.start], *better, *before.order[places.stop :])
    after = problem.in_order(whole)
    check_schedule(tasks, after)
    assert after.cycles == max(solution.objective or 0.0, cycles_outside(tasks, whole, frozenset(better)))


def window(**changed: object) -> Window:
    """Two queues: a long task and a short one that another queue waits for."""
    data: dict[str, object] = {
        "tasks": (0, 1, 2), "queue": (0, 0, 1), "duration": (10, 1, 5), "release": (0, 0, 0), "tail": (0, 0, 0),
        "edges": ((1, 2, 2),), "start": (0, 10, 13),
    }  # fmt: skip
    return Window(**{**data, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "cycles"),
    [
        ({}, 11),
        # (1): the short task comes late, and the long one first.
        ({"release": (0, 9, 0)}, 18),
        # (2): without the edge the third task need not wait, and with a longer lag it waits longer.
        ({"edges": ((1, 2, 12),)}, 18),
        # (3): on queues of their own, the first two run side by side.
        ({"queue": (0, 2, 1), "release": (0, 9, 0), "start": (0, 10, 13)}, 17),
        # (4): a long way from the end of the third task on.
        ({"tail": (0, 0, 30)}, 38),
    ],
)
def test_each_constraint_counts(changed: dict[str, object], cycles: int) -> None:
    data = window(**changed)
    found, solution = improved(data, Budget(10.0, 1.0), 0)
    assert (solution.objective if found is not None else data.cycles) == cycles
