"""List schedules keep every dependence and every queue's own time, and windows find what brute force finds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise, permutations
from math import ceil
from random import Random

import pytest

from girih.ir.isa.timing import Cost
from girih.ir.load_machine import load_machine
from girih.ir.plan import Prediction
from girih.ir.semantics.task_graph import TaskGraph
from girih.solver.cpsat.backend import Budget
from girih.solver.effort import NO_EFFORT
from girih.solver.order import windows
from girih.solver.order.equal_tasks import EqualTasks
from girih.solver.order.list_schedule import OrderProblem, Schedule
from girih.solver.order.model import Window, improved
from girih.solver.order.solve import list_schedules, lower_bound, order_queues, ordered_plan
from girih.solver.order.timed_order import TimedOrder
from girih.solver.parallel.workers import Workers
from tests.support import graphs
from tests.support.plans.plain_plans import plain_plan
from tests.support.sampled import sampled


def random_tasks(random: Random, count: int, queues: int = 3, links: int = 1) -> TaskGraph:
    costs = [
        Cost(
            random.randint(0, 3), random.randint(1, 30), random.randint(0, 9),
            links=tuple((n, random.randint(1, 60)) for n in range(links) if random.random() < 0.4),
        )
        for _ in range(count)
    ]  # fmt: skip
    return TaskGraph(
        queues=tuple(f"Q{n}" for n in range(queues)),
        computes=(True,) * queues,
        link_rates=(4.0,) * links,
        queue=tuple(random.randrange(queues) for _ in range(count)),
        cost=tuple(costs),
        after=tuple(tuple(sorted(t for t in range(task) if random.random() < 2 / count)) for task in range(count)),
        slot=(0,) * count,
    )


def check(tasks: TaskGraph, schedule: Schedule) -> None:
    """Nothing begins before it may, and nothing takes less time than it needs; judged from the definition."""
    busy: dict[int, list[tuple[float, float]]] = {}
    for task, cost in enumerate(tasks.cost):
        start, stop = schedule.start[task], schedule.stop[task]
        assert stop >= start + cost.issue + cost.body
        for other in tasks.after[task]:
            lag = 0 if tasks.queue[other] == tasks.queue[task] else tasks.cost[other].latency
            assert start >= schedule.stop[other] + lag
        busy.setdefault(tasks.queue[task], []).append((start, stop))
    for spans in busy.values():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
    for link, rate in enumerate(tasks.link_rates):
        crossing = sum(size for cost in tasks.cost for number, size in cost.links if number == link)
        assert schedule.cycles >= crossing / rate
    last = max(stop + cost.latency for stop, cost in zip(schedule.stop, tasks.cost, strict=True))
    assert schedule.cycles == last and sorted(schedule.order) == list(range(len(tasks)))


@pytest.mark.parametrize("seed", sampled(range(30)))
def test_schedules_are_feasible_and_above_the_bound(seed: int) -> None:
    random = Random(seed)
    tasks = random_tasks(random, random.randint(1, 40), links=seed % 3)
    problem = OrderProblem(tasks)
    emitted = problem.in_order(range(len(tasks)))
    listed = problem.forward([random.random() for _ in range(len(tasks))])
    for schedule in (emitted, listed, problem.in_order(listed.order)):
        check(tasks, schedule)
        assert schedule.cycles >= lower_bound(tasks) - 1e-6
    places: dict[int, list[int]] = {}
    for task in emitted.order:
        places.setdefault(tasks.queue[task], []).append(task)
    assert all(own == sorted(own) for own in places.values())


@pytest.mark.parametrize("seed", sampled(range(20)))
def test_the_order_is_never_worse_than_that_of_emission(seed: int) -> None:
    tasks = random_tasks(Random(seed), 60, links=seed % 2)
    ordering = order_queues(list_schedules(tasks), seconds=5.0)
    assert ordering.schedule.cycles <= ordering.listed_cycles <= ordering.emitted_cycles
    assert (ordering.solved.bound or 0.0) <= ordering.schedule.cycles + 1e-6
    check(tasks, ordering.schedule)


def test_workers_find_the_same_order() -> None:
    random = Random(3)
    tasks = random_tasks(random, 3_000, queues=3, links=0)
    near = tuple(tuple({t - random.randint(1, min(t, 40))}) if t else () for t in range(len(tasks)))
    problem = OrderProblem(replace(tasks, after=near))
    emitted = problem.in_order(range(len(tasks)))
    alone, effort, _ = windows.improve_windows(problem, emitted, 1.0, 0, None)
    assert effort.searches >= windows.TOGETHER and alone.cycles < emitted.cycles
    with closing(Workers(graphs.matmul(), 2)) as workers:
        assert windows.improve_windows(problem, emitted, 1.0, 0, workers)[0] == alone
        assert not workers.idle


def test_an_interrupt_while_workers_solve_keeps_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WIDTHS", (20,))
    problem = OrderProblem(random_tasks(Random(1), 60, queues=2, links=0))
    emitted = problem.in_order(range(60))
    assert windows.improve_windows(problem, emitted, 1.0, 0, None)[1].searches

    def interrupted(self: Workers, questions: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Workers, "answers", interrupted)
    with closing(Workers(graphs.matmul(), 2)) as workers:
        schedule, _, ended = windows.improve_windows(problem, emitted, 1.0, 0, workers)
    assert (schedule, ended) == (emitted, True)


@pytest.mark.parametrize("stretch", [1.0, 1.5, 0.8])
def test_an_order_is_predicted_to_gain_its_part_of_what_the_plan_takes(stretch: float) -> None:
    # What comes first is needed last: two queues that could work side by side take turns.
    tasks = TaskGraph(
        queues=("A", "B"), computes=(True, True), link_rates=(), queue=(0, 0, 1), cost=(Cost(0, 100, 0),) * 3,
        after=((), (), (1,)), slot=(0, 1, 2),
    )  # fmt: skip
    ordering = order_queues(list_schedules(tasks), seconds=1.0)
    assert (ordering.emitted_cycles, ordering.schedule.cycles) == (300.0, 200.0)
    plan = plain_plan(graphs.matmul(), load_machine("tiny"))
    emitted = replace(
        plan, cycles_predicted=round(300 * stretch), predictions=tuple(Prediction(n, "op", 0, 0) for n in range(3))
    )
    ordered = ordered_plan(emitted, tasks, ordering)
    assert ordered.cycles_predicted == round(200 * stretch)
    assert [(p.start, p.stop) for p in ordered.predictions] == [
        (round(begin * stretch), round((begin + 100) * stretch)) for begin in (100, 0, 100)
    ]


def best_by_brute_force(tasks: TaskGraph) -> float:
    """The fewest cycles of any order of emission that keeps the dependences, without links."""
    problem = OrderProblem(tasks)
    best = float("inf")
    for order in permutations(range(len(tasks))):
        place = {task: n for n, task in enumerate(order)}
        if all(place[other] < place[task] for task in order for other in tasks.after[task]):
            best = min(best, problem.in_order(order).cycles)
    return best


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


@pytest.mark.parametrize("count", [1, 199, 200, 201, 400, 401, 1234])
@pytest.mark.parametrize("offset", [0, 100])
def test_windows_of_a_pass_are_disjoint_and_leave_nothing_out(count: int, offset: int) -> None:
    places = windows.pass_windows(count, 200, offset)
    assert [place for window in places for place in window] == list(range(count))
    assert all(len(window) <= 200 for window in places)


def served(tasks: TaskGraph, order: Sequence[int]) -> tuple[list[float], list[float]]:
    """When each task starts and stops, if queues and links serve tasks in this order; by the definition."""
    start, stop = [0.0] * len(order), [0.0] * len(order)
    queues, links = [0.0] * len(tasks.queues), [0.0] * len(tasks.link_rates)
    for task in order:
        cost, queue = tasks.cost[task], tasks.queue[task]
        lags = {t: 0 if tasks.queue[t] == queue else tasks.cost[t].latency for t in tasks.after[task]}
        start[task] = max([queues[queue], *(stop[t] + lag for t, lag in lags.items())])
        ends = [start[task] + cost.issue + cost.body]
        for link, crossing in cost.links:
            links[link] = max(links[link], start[task] + cost.issue) + crossing / tasks.link_rates[link]
            ends.append(links[link])
        stop[task] = queues[queue] = max(ends)
    return start, stop


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
    check(tasks, problem.in_order(order.tasks))


def layers(count: int) -> TaskGraph:
    """Layers of a long task that nothing waits for and a short one that starts the next layer's, emitted last."""
    costs, queue, after = list[Cost](), list[int](), list[tuple[int, ...]]()
    for layer in range(count):
        costs += [Cost(0, 50, 0), Cost(0, 1, 0), Cost(0, 50, 0)]
        queue += [0, 0, 1]
        last = 3 * layer - 1
        after += [(last,) if layer else (), (last,) if layer else (), (3 * layer + 1,)]
    return TaskGraph(("A", "B"), (True, True), (), tuple(queue), tuple(costs), tuple(after), (0,) * len(queue))


def test_equal_windows_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WIDTHS", (3,))
    monkeypatch.setattr(windows, "TOGETHER", 1)
    problem = OrderProblem(layers(30))
    emitted = problem.in_order(range(90))
    assert emitted.cycles == 30 * 101
    with_copies, effort, _ = windows.improve_windows(problem, emitted, 10.0, 0, None)
    # Each layer but the first has the order of the first one; the last long task of A comes after all.
    assert with_copies.cycles < 30 * 52
    monkeypatch.setattr(EqualTasks, "copies", lambda self, tasks: iter(()))
    alone, effort_alone, _ = windows.improve_windows(problem, emitted, 10.0, 0, None)
    assert alone.cycles == with_copies.cycles and effort.searches < effort_alone.searches / 3


def one_layer_at_a_time(monkeypatch: pytest.MonkeyPatch) -> tuple[OrderProblem, Schedule]:
    """Thirty layers, and windows of one of them without copies."""
    monkeypatch.setattr(windows, "WIDTHS", (3,))
    monkeypatch.setattr(windows, "TOGETHER", 1)
    monkeypatch.setattr(EqualTasks, "copies", lambda self, tasks: iter(()))
    problem = OrderProblem(layers(30))
    return problem, problem.in_order(range(90))


def test_seconds_pay_for_so_many_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, emitted = one_layer_at_a_time(monkeypatch)
    assert windows.improve_windows(problem, emitted, 0.0, 0, None) == (emitted, replace(NO_EFFORT, limited=True), False)
    seconds = windows.TIMING_SECONDS * 90 + windows.SEARCH_SECONDS * 3 * 2.5
    better, effort, _ = windows.improve_windows(problem, emitted, seconds, 0, None)
    assert (effort.searches, effort.limited) == (2, True) and better.cycles < emitted.cycles


def test_windows_that_end_at_their_own_limit_leave_nothing_to_pay_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "TASK_LIMIT", 1e-9)
    problem = OrderProblem(random_tasks(Random(5), 120, queues=3, links=0))
    _, effort, _ = windows.improve_windows(problem, problem.in_order(range(120)), 1e6, 0, None)
    assert effort.searches and not effort.limited


def test_copies_are_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WIDTHS", (3,))
    monkeypatch.setattr(windows, "TOGETHER", 1)
    problem = OrderProblem(layers(30))
    one = windows.WindowPass(problem, problem.in_order(range(90)), EqualTasks(problem))
    seconds = windows.SEARCH_SECONDS * 3 + windows.COPY_SECONDS * 3 * 4.5
    one.search(windows.pass_windows(90, 3, 0), seconds, 0, None)
    # The layer that is searched, and four more.
    assert one.unpaid and one.effort.searches == 1 and one.seconds <= seconds
    assert problem.in_order(one.order.tasks).cycles == 30 * 101 - 5 * 50


def test_where_all_changes_take_longer_a_part_of_them_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, emitted = one_layer_at_a_time(monkeypatch)
    timed = list[list[int]]()
    in_order = OrderProblem.in_order

    def longer_at_first(self: OrderProblem, order: Sequence[int]) -> Schedule:
        timed.append(list(order))
        schedule = in_order(self, order)
        return replace(schedule, cycles=schedule.cycles + 10_000) if len(timed) == 1 else schedule

    monkeypatch.setattr(OrderProblem, "in_order", longer_at_first)
    windows.improve_windows(problem, emitted, windows.TIMING_SECONDS * 90 + 10.0, 0, None)
    whole, part = in_order(problem, timed[0]).cycles, in_order(problem, timed[1]).cycles
    assert whole < part < emitted.cycles


def test_copies_are_equal_and_share_no_task() -> None:
    problem = OrderProblem(layers(5))
    equal = EqualTasks(problem)
    assert list(equal.copies((1, 0, 2))) == [(4, 3, 5), (7, 6, 8), (10, 9, 11), (13, 12, 14)]
    assert next(iter(equal.copies((4, 3, 5)))) == (1, 0, 2)
    # Two layers at a time, from the second on: one copy has room behind them, and none before them.
    assert list(equal.copies(tuple(range(3, 9)))) == [tuple(range(9, 15))]


@pytest.mark.parametrize("seed", sampled(range(20)))
def test_a_window_promises_what_the_whole_takes(seed: int) -> None:
    """Without links, the schedule with the window's answer takes what the model says, or fewer cycles."""
    tasks = random_tasks(Random(seed), 50, links=0)
    problem = OrderProblem(tasks)
    before = problem.in_order(range(len(tasks)))
    places = range(15, 35)
    window = TimedOrder(problem, before).window(places)
    assert window.cycles <= before.cycles
    found, solution = improved(window, Budget(10.0, 1.0), 0)
    if found is not None:
        whole = (*before.order[: places.start], *found, *before.order[places.stop :])
        after = problem.in_order(whole)
        check(tasks, after)
        assert after.cycles <= max(solution.objective or 0.0, window.cycles)


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
