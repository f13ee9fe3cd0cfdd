"""An order that is changed window by window has the times, and the longest paths, of the definition."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from random import Random

import pytest

from girih.ir.isa.timing import Cost
from girih.ir.semantics.task_graph import TaskGraph
from girih.solver.order import timed_order
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
def test_a_change_is_accepted_if_and_only_if_the_longest_path_through_it_is_shorter(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without links; orders that dependences do not allow are mended first. Some tasks behind it count, too."""
    random = Random(seed)
    tasks = random_tasks(random, 40, queues=1 + seed % 4, links=0)
    problem = OrderProblem(tasks)
    before = problem.in_order(range(len(tasks)))
    first = random.randint(0, 30)
    places = range(first, random.randint(first + 2, 40))
    wanted = list(before.order[places.start : places.stop])
    random.shuffle(wanted)
    ahead = random.choice((0, 7, 40))
    monkeypatch.setattr(timed_order, "LOOK_AHEAD", ahead)
    order = TimedOrder(problem, before)
    accepted = order.change(wanted)
    mended = _mended(tasks, before.order, places, wanted)
    judged = before.order[places.start : places.stop + ahead]
    gains = longest_through(tasks, mended, judged) < longest_through(tasks, before.order, judged)
    assert accepted == gains
    assert _by_queue(tasks, order.tasks) == _by_queue(tasks, mended if accepted else before.order)
    assert order.places(range(40)) == list(range(40))
    if accepted:
        assert problem.in_order(order.tasks).cycles <= before.cycles


def _by_queue(tasks: TaskGraph, order: Sequence[int]) -> list[list[int]]:
    return [[task for task in order if tasks.queue[task] == number] for number in range(len(tasks.queues))]


@pytest.mark.parametrize("seed", sampled(range(30)))
def test_tasks_that_lie_apart_change_places(seed: int) -> None:
    """Every third task of a part of the order; those between keep their places in their queues."""
    random = Random(seed)
    tasks = random_tasks(random, 40, queues=3, links=seed % 3)
    problem = OrderProblem(tasks)
    before = problem.in_order(range(len(tasks)))
    wanted = list(before.order[4:34:3])
    random.shuffle(wanted)
    whole = list(before.order)
    for place, task in zip(range(4, 34, 3), wanted, strict=True):
        whole[place] = task
    order = TimedOrder(problem, before)
    if order.change(wanted):
        places = range(4, 4 + 3 * len(wanted) - 2)
        mended = _mended(tasks, before.order, places, whole[places.start : places.stop])
        assert _by_queue(tasks, order.tasks) == _by_queue(tasks, mended)
    else:
        assert order.tasks == list(before.order)


@pytest.mark.parametrize("seed", sampled(range(30)))
def test_without_a_change_tasks_are_timed_as_they_are_issued(seed: int) -> None:
    """Links serve those that begin together alike, in both models of time."""
    random = Random(seed)
    tasks = random_tasks(random, 60, queues=4, links=1 + seed % 2)
    problem = OrderProblem(tasks)
    schedule = problem.forward([random.random() for _ in range(60)])
    order = TimedOrder(problem, schedule)
    for place in range(10, 61, 10):
        order.time_until(place)
    window = order.window(range(60))
    assert order.tasks == list(schedule.order)
    assert window.start == tuple(ceil(s) for s in schedule.start)


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
        order.change(wanted)
    start, stop = served(tasks, order.tasks)
    window = order.window(range(60))
    assert window.start == tuple(ceil(s) for s in start)
    assert window.duration == tuple(ceil(e - s) for s, e in zip(start, stop, strict=True))
    check_schedule(tasks, problem.in_order(order.tasks))


@pytest.mark.parametrize("seed", sampled(range(30)))
def test_links_serve_transfers_as_they_begin_wherever_changes_were(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole is timed part by part; a transfer may begin before others that lie in an earlier part."""
    monkeypatch.setattr(timed_order, "LOOK_AHEAD", 20)
    random = Random(seed)
    tasks = random_tasks(random, 400, queues=5, links=2)
    problem = OrderProblem(tasks)
    order = TimedOrder(problem, problem.forward([random.random() for _ in range(400)]))
    for first in range(0, 400, 8):
        wanted = order.tasks[first : first + 8]
        random.shuffle(wanted)
        order.change(wanted)
    cycles, whole = order.cycles_at(400), problem.in_order(order.tasks)
    assert cycles == whole.cycles
    assert order.window(range(400)).start == tuple(ceil(s) for s in whole.start)


def test_changes_are_undone() -> None:
    """Of two queues, the second works on what the first has done; what takes it longest comes last."""
    count = 20
    tasks = TaskGraph(
        queues=("A", "B"), computes=(True, True), link_rates=(4.0,), queue=(0,) * count + (1,) * count,
        cost=tuple(Cost(0, body, 0, links=((0, body),)) for body in (*range(count, 0, -1), *range(1, count + 1))),
        after=((),) * count + tuple((task,) for task in range(count)), slot=(0,) * (2 * count),
    )  # fmt: skip
    problem = OrderProblem(tasks)
    order = TimedOrder(problem, problem.in_order([*range(count), *range(2 * count - 1, count - 1, -1)]))
    assert order.change(sorted(range(count, 2 * count)))
    before, state, window = list(order.tasks), order.state, order.window(range(2 * count))
    assert order.change([*reversed(range(count)), *reversed(range(count, 2 * count))]) and order.tasks != before
    order.go_back(state)
    assert order.tasks == before and order.window(range(2 * count)) == window
    assert order.cycles_at(2 * count) == problem.in_order(before).cycles


def test_a_task_that_outlasts_all_behind_it_counts_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_order, "LOOK_AHEAD", 5)
    count = 200
    tasks = TaskGraph(
        queues=("A", "B"), computes=(True, True), link_rates=(), queue=(0, *(1,) * count),
        cost=(Cost(0, 1_000, 0), *(Cost(0, 1, 0),) * count), after=((),) * (count + 1), slot=(0,) * (count + 1),
    )  # fmt: skip
    problem = OrderProblem(tasks)
    order = TimedOrder(problem, problem.in_order(range(count + 1)))
    assert order.cycles_at(count + 1) == 1_000


def test_transfers_that_begin_at_first_are_served_in_their_order() -> None:
    """As all others that begin together, whatever the numbers of their queues."""
    tasks = TaskGraph(
        queues=("A", "B", "C"), computes=(True, True, True), link_rates=(1.0,), queue=(0, 1, 2),
        cost=(Cost(0, 5, 0, links=((0, 50),)), Cost(0, 5, 0, links=((0, 50),)), Cost(0, 15, 0)),
        after=((), (), (0,)), slot=(0, 0, 0),
    )  # fmt: skip
    problem = OrderProblem(tasks)
    for first, second in ((0, 1), (1, 0)):
        schedule = problem.in_order((first, second, 2))
        assert (schedule.stop[first], schedule.stop[second]) == (50, 100)
        check_schedule(tasks, schedule)
