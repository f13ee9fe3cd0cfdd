"""An order that is changed window by window has the times, and the longest paths, of the definition."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from random import Random

import pytest

from girih.ir.semantics.task_graph import TaskGraph
from girih.solver.order.list_schedule import OrderProblem
from girih.solver.order.timed_order import TimedOrder
from tests.support.sampled import sampled
from tests.support.task_graphs import check_schedule, random_tasks, served


def longest_through(tasks: TaskGraph, order: Sequence[int], members: Sequence[int]) -> float:
    """The longest path through any of the tasks, with queues in this order and without links."""
    start, stop = served(tasks, order)
    rest = [float(cost.latency) for cost in tasks.cost]
    for place in reversed(range(len(order))):
        task = order[place]
        before = [t for t in order[:place] if tasks.queue[t] == tasks.queue[task]][-1:]
        for other in (*tasks.after[task], *before):
            lag = 0 if tasks.queue[other] == tasks.queue[task] else tasks.cost[other].latency
            rest[other] = max(rest[other], lag + stop[task] - start[task] + rest[task])
    return max(stop[task] + rest[task] for task in members)


@pytest.mark.parametrize("seed", sampled(range(60)))
def test_a_change_is_accepted_if_and_only_if_the_longest_path_through_it_is_shorter(seed: int) -> None:
    """Without links; orders that dependences do not allow are mended first."""
    random = Random(seed)
    tasks = random_tasks(random, 40, queues=1 + seed % 4, links=0)
    problem = OrderProblem(tasks)
    before = problem.in_order(range(len(tasks)))
    first = random.randint(0, 30)
    places = range(first, random.randint(first + 2, 40))
    wanted = list(before.order[places.start : places.stop])
    random.shuffle(wanted)
    order = TimedOrder(problem, before)
    accepted = order.change(places, wanted)
    mended = _mended(tasks, before.order, places, wanted)
    gains = longest_through(tasks, mended, wanted) < longest_through(tasks, before.order, wanted)
    assert accepted == gains
    assert order.tasks == (mended if accepted else list(before.order))
    assert order.places(range(40)) == list(range(40))
    if accepted:
        assert problem.in_order(order.tasks).cycles <= before.cycles


def _mended(tasks: TaskGraph, order: Sequence[int], places: range, wanted: Sequence[int]) -> list[int]:
    """The order with the wanted tasks, each put off until what it waits for has come."""
    mended: list[int] = []
    left = list(wanted)
    while left:
        task = next(t for t in left if not set(tasks.after[t]) & set(left))
        left.remove(task)
        mended.append(task)
    return [*order[: places.start], *mended, *order[places.stop :]]


@pytest.mark.parametrize("seed", sampled(range(30)))
def test_times_follow_changes(seed: int) -> None:
    """Changes that overlap, some of which are refused, leave tasks at the times at which queues and links serve them."""
    random = Random(seed)
    tasks = random_tasks(random, 60, queues=3, links=seed % 3)
    problem = OrderProblem(tasks)
    order = TimedOrder(problem, problem.in_order(range(60)))
    for first in range(0, 60, 5):
        wanted = order.tasks[first : first + 15]
        random.shuffle(wanted)
        order.change(range(first, first + len(wanted)), wanted)
    start, stop = served(tasks, order.tasks)
    window = order.window(range(60))
    assert window.start == tuple(ceil(s) for s in start)
    assert window.duration == tuple(ceil(e - s) for s, e in zip(start, stop, strict=True))
    check_schedule(tasks, problem.in_order(order.tasks))
