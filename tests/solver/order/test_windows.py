"""Passes of windows: what they search, what they give to equal tasks, and what the seconds pay for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from random import Random

import pytest

from girih.ir.isa.timing import Cost
from girih.ir.semantics.task_graph import TaskGraph
from girih.solver.effort import NO_EFFORT
from girih.solver.order import windows
from girih.solver.order.equal_tasks import EqualTasks
from girih.solver.order.list_schedule import OrderProblem, Schedule
from girih.solver.order.model import Window
from girih.solver.order.timed_order import TimedOrder
from girih.solver.parallel.workers import Workers
from tests.support import graphs
from tests.support.task_graphs import random_tasks


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


@pytest.mark.parametrize("count", [1, 199, 200, 201, 400, 401, 1234])
@pytest.mark.parametrize("offset", [0, 100])
def test_windows_of_a_pass_are_disjoint_and_leave_nothing_out(count: int, offset: int) -> None:
    places = windows.pass_windows(count, 200, offset)
    assert [place for window in places for place in window] == list(range(count))
    assert all(len(window) <= 200 for window in places)


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
    searches, judged = windows.SEARCH_SECONDS * 3 * 2.5, windows.JUDGING_SECONDS * 90 * 2
    seconds = windows.TIMING_SECONDS * 90 + searches + judged
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
    seconds = windows.SEARCH_SECONDS * 3 + windows.JUDGING_SECONDS * 90 * 5.5
    one.search(windows.pass_windows(90, 3, 0), seconds, 0, None)
    # The layer that is searched, and four more: each is judged with the whole.
    assert one.unpaid and one.effort.searches == 1 and one.seconds <= seconds
    assert problem.in_order(one.order.tasks).cycles == 30 * 101 - 5 * 50


@pytest.mark.parametrize("to_blame", [range(14, 19), range(10)])
def test_changes_without_which_the_whole_takes_fewer_cycles_behind_them_are_undone(
    to_blame: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From place 45 on, the whole takes longer for some changes in front of it: of layers that are still to be kept or
    undone then, or of some that were kept before."""
    problem, emitted = one_layer_at_a_time(monkeypatch)
    monkeypatch.setattr(windows, "LOOK_AHEAD", 12)
    cycles_at = TimedOrder.cycles_at

    def longer_behind(self: TimedOrder, place: int) -> float:
        blamed = len({*to_blame} & {*changed_layers(self.tasks)})
        return cycles_at(self, place) + (1_000 * blamed if place >= 45 else 0)

    monkeypatch.setattr(TimedOrder, "cycles_at", longer_behind)
    one = windows.WindowPass(problem, emitted, EqualTasks(problem))
    one.search(windows.pass_windows(90, 3, 0), 10.0, 0, None)
    undone = to_blame if to_blame.start == 14 else ()
    assert changed_layers(one.order.tasks) == [n for n in range(30) if n not in undone]


def test_the_last_changes_are_undone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, emitted = one_layer_at_a_time(monkeypatch)
    cycles_at = TimedOrder.cycles_at

    def longer_at_the_end(self: TimedOrder, place: int) -> float:
        return cycles_at(self, place) + (1_000 * len(changed_layers(self.tasks)) if place == 90 else 0)

    monkeypatch.setattr(TimedOrder, "cycles_at", longer_at_the_end)
    one = windows.WindowPass(problem, emitted, EqualTasks(problem))
    one.search(windows.pass_windows(90, 3, 0), 10.0, 0, None)
    assert changed_layers(one.order.tasks) == [*range(29)]


def test_an_order_that_no_pass_has_changed_is_not_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = OrderProblem(layers(3))
    best = windows.improve_windows(problem, problem.in_order(range(9)), 10.0, 0, None).schedule
    monkeypatch.delattr(OrderProblem, "in_order")
    assert windows.improve_windows(problem, best, 10.0, 0, None).schedule == best


def test_copies_are_equal_and_share_no_task() -> None:
    problem = OrderProblem(layers(5))
    equal = EqualTasks(problem)
    assert list(equal.copies((1, 0, 2))) == [(4, 3, 5), (7, 6, 8), (10, 9, 11), (13, 12, 14)]
    assert next(iter(equal.copies((4, 3, 5)))) == (1, 0, 2)
    # Two layers at a time, from the second on: one copy has room behind them, and none before them.
    assert list(equal.copies(tuple(range(3, 9)))) == [tuple(range(9, 15))]


def test_a_change_across_the_border_of_two_windows_is_seen_by_those_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The long task at place 3 delays the short one at place 4, for which another queue waits."""
    monkeypatch.setattr(windows, "WIDTHS", (4,))
    tasks = TaskGraph(
        queues=("A", "B"), computes=(True, True), link_rates=(), queue=(0, 0, 0, 0, 0, 1),
        cost=tuple(Cost(0, body, 0) for body in (10, 10, 10, 50, 1, 50)),
        after=((), (0,), (1,), (2,), (2,), (4,)), slot=(0,) * 6,
    )  # fmt: skip
    problem = OrderProblem(tasks)
    emitted = problem.in_order(range(6))
    assert emitted.cycles == 131
    assert windows.improve_windows(problem, emitted, 10.0, 0, None)[0].cycles == 81


def changed_layers(order: Sequence[int]) -> list[int]:
    """The layers of which the short task comes first."""
    return [task // 3 for task in range(0, len(order), 3) if order.index(task + 1) < order.index(task)]


def one_pass(
    monkeypatch: pytest.MonkeyPatch, tasks: TaskGraph, places: Sequence[range], order: Sequence[int] | None = None
) -> windows.WindowPass:
    """These windows, one after the other, as if each could be shorter; the order is that of emission by default."""
    monkeypatch.setattr(windows, "TOGETHER", 1)
    monkeypatch.setattr(Window, "can_be_shorter", True)
    problem = OrderProblem(tasks)
    one = windows.WindowPass(problem, problem.in_order(order or range(len(tasks))), EqualTasks(problem))
    one.search(places, 10.0, 0, None)
    return one


def test_equal_tasks_in_front_of_a_change_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    one = one_pass(monkeypatch, layers(5), [range(3, 6), range(12, 15)])
    assert changed_layers(one.order.tasks) == [1, 2, 3, 4]


def test_a_window_with_the_order_of_equal_tasks_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second layer has other costs than the first and the third."""
    graph = layers(3)
    costs = tuple(Cost(0, c.body + 1, 0) if 3 <= task < 6 else c for task, c in enumerate(graph.cost))
    graph = replace(graph, cost=costs)
    assert one_pass(monkeypatch, graph, [range(3), range(6, 9)]).effort.searches == 1
    # Half of the window has been given an order.
    assert one_pass(monkeypatch, graph, [range(3), range(3, 9)]).effort.searches == 2


@pytest.mark.parametrize(("between", "changed"), [(6, [0, 1]), (7, [0])])
def test_equal_tasks_among_too_many_others_are_left_as_they_are(
    between: int, changed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three tasks are changed if they are among nine, and are not if they are among ten."""
    graph = layers(2)
    graph = replace(
        graph, queue=(*graph.queue, *[0] * between), cost=(*graph.cost, *[Cost(0, 2, 0)] * between),
        after=(*graph.after, *[()] * between), slot=(0,) * (6 + between),
    )  # fmt: skip
    order = [0, 1, 2, 3, *range(6, 6 + between), 4, 5]
    one = one_pass(monkeypatch, graph, [range(3), range(3, 4)], order)
    assert changed_layers([task for task in one.order.tasks if task < 6]) == changed
