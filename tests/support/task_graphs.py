"""Random task graphs, and what their schedules take by the definition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations
from random import Random

from girih.ir.isa.timing import Cost
from girih.ir.semantics.task_graph import TaskGraph
from girih.solver.order.list_schedule import OrderProblem, Schedule


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


def check_schedule(tasks: TaskGraph, schedule: Schedule) -> None:
    """Every queue and link serves the tasks in the order of the schedule, and none begins before it may."""
    assert (list(schedule.start), list(schedule.stop)) == served(tasks, schedule.order)
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
    last = max(stop + cost.latency for stop, cost in zip(schedule.stop, tasks.cost, strict=True))
    assert schedule.cycles == last and sorted(schedule.order) == list(range(len(tasks)))


def best_by_brute_force(tasks: TaskGraph) -> float:
    """The fewest cycles of any order of emission that keeps the dependences, without links."""
    problem = OrderProblem(tasks)
    best = float("inf")
    for order in permutations(range(len(tasks))):
        place = {task: n for n, task in enumerate(order)}
        if all(place[other] < place[task] for task in order for other in tasks.after[task]):
            best = min(best, problem.in_order(order).cycles)
    return best
