"""List schedules keep every dependence and every queue's own time, and a plan gains what they do."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from girih.ir.isa.timing import Cost
from girih.ir.load_machine import load_machine
from girih.ir.plan import Prediction
from girih.ir.semantics.task_graph import TaskGraph
from girih.solver.order.list_schedule import OrderProblem
from girih.solver.order.solve import list_schedules, lower_bound, order_queues, ordered_plan
from tests.support import graphs
from tests.support.plans.plain_plans import plain_plan
from tests.support.sampled import sampled
from tests.support.task_graphs import best_by_brute_force, check_schedule, random_tasks


@pytest.mark.parametrize("seed", sampled(range(30)))
def test_schedules_are_feasible_and_above_the_bound(seed: int) -> None:
    random = Random(seed)
    tasks = random_tasks(random, random.randint(1, 40), links=seed % 3)
    problem = OrderProblem(tasks)
    emitted = problem.in_order(range(len(tasks)))
    listed = problem.forward([random.random() for _ in range(len(tasks))])
    for schedule in (emitted, listed, problem.in_order(listed.order)):
        check_schedule(tasks, schedule)
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
    check_schedule(tasks, ordering.schedule)


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


def test_a_backward_schedule_by_the_times_of_a_forward_one_leads_to_a_better_one() -> None:
    """The second queue needs the task of 20 early, which no rule of emission says."""
    tasks = TaskGraph(
        queues=("A", "B"), computes=(True, True), link_rates=(), queue=(1, 0, 0, 0, 1, 0),
        cost=tuple(Cost(0, body, 0) for body in (40, 10, 20, 40, 40, 20)),
        after=((), (0,), (0,), (), (2,), (0,)), slot=(0,) * 6,
    )  # fmt: skip
    problem = OrderProblem(tasks)
    emitted = [float(task) for task in range(6)]
    forward = problem.forward(emitted)
    listed = list_schedules(tasks)
    assert (listed.emitted_cycles, forward.cycles, listed.best.cycles) == (130.0, 110.0, best_by_brute_force(tasks))
    # By the priorities of emission instead, the way backward leads nowhere.
    for backward in (problem.backward(emitted), problem.backward([-task for task in emitted])):
        assert problem.forward([-stop for stop in backward.stop]).cycles > listed.best.cycles
