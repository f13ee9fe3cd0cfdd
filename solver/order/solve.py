"""The order of all queues of a plan: a list schedule, forwards and backwards, and CP-SAT on windows of it.

The hint of the windows (:mod:`.windows`) is the better of the order of emission and of list schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...ir.plan import Plan, Prediction, QueueOrder, Solved
from ...ir.semantics.task_graph import TaskGraph, queue_orders
from ..effort import NO_EFFORT, Effort, SearchPoint, thinned
from ..parallel.workers import Workers
from ..switches import ALL_ON, Disabled
from .list_schedule import OrderProblem, Schedule
from .windows import improve_windows

PASSES = 3
"""Forward and backward list schedules; more of them found nothing better on the ten networks that were tried."""


@dataclass(frozen=True)
class Ordering:
    """The order of each queue that differs from that of emission, and the schedule that it leads to."""

    orders: tuple[QueueOrder, ...]
    schedule: Schedule
    solved: Solved
    effort: Effort
    emitted_cycles: float
    """What the order of emission takes by the same model of time."""
    listed_cycles: float
    """What the best list schedule takes: the hint of the windows."""
    interrupted: bool
    """Whether the user ended the search."""


@dataclass(frozen=True)
class ListSchedules:
    """The better of the order of emission, which takes ``emitted_cycles``, and of list schedules."""

    problem: OrderProblem
    emitted_cycles: float
    best: Schedule


def list_schedules(tasks: TaskGraph) -> ListSchedules:
    """Schedules of the tasks without a search."""
    problem = OrderProblem(tasks)
    emitted = best = problem.in_order(range(len(tasks)))
    priority: Sequence[float] = [float(task) for task in range(len(tasks))]
    for _ in range(PASSES):
        forward = problem.forward(priority)
        best = min(best, forward, key=lambda s: s.cycles)
        backward = problem.backward([-stop for stop in forward.stop])
        priority = [-stop for stop in backward.stop]
    return ListSchedules(problem, emitted.cycles, best)


def order_queues(
    hint: ListSchedules, *, seconds: float, seed: int = 0, disabled: Disabled = ALL_ON, workers: Workers | None = None
) -> Ordering:
    """The best order found; ``seconds`` of searches in windows, counted and not by the clock."""
    tasks, best, effort, interrupted = hint.problem.tasks, hint.best, NO_EFFORT, False
    if "pipeline-model" not in disabled:
        best, effort, interrupted = improve_windows(hint.problem, best, seconds, seed, workers)
    bound = lower_bound(tasks)
    status = "optimal" if best.cycles <= bound else "feasible"
    solved = Solved("order", status, float(round(best.cycles)), float(int(bound)), "cycles")
    points = (SearchPoint(0.0, hint.best.cycles, bound), *effort.points)
    return Ordering(
        queue_orders(tasks.queues, tasks.queue, best.order), best, solved, replace(effort, points=thinned(points)),
        hint.emitted_cycles, hint.best.cycles, interrupted,
    )  # fmt: skip


def lower_bound(tasks: TaskGraph) -> float:
    """No order takes fewer cycles: the longest path, the busiest queue and the busiest link."""
    count = len(tasks)
    reached = [0.0] * count
    queues = [0.0] * len(tasks.queues)
    links = [0.0] * len(tasks.link_rates)
    longest = 0.0
    for task in range(count):
        cost = tasks.cost[task]
        begin = 0.0
        for other in tasks.after[task]:
            lag = 0 if tasks.queue[other] == tasks.queue[task] else tasks.cost[other].latency
            begin = max(begin, reached[other] + lag)
        reached[task] = begin + cost.busy
        longest = max(longest, reached[task] + cost.latency)
        queues[tasks.queue[task]] += cost.busy
        for link, crossing in cost.links:
            links[link] += crossing / tasks.link_rates[link]
    return max([longest, *queues, *links])


def stretched(plan: Plan, emitted_cycles: float) -> float:
    """By how much a plan is predicted to take longer than the schedule of its order of emission."""
    return plan.cycles_predicted / emitted_cycles if emitted_cycles else 1.0


def ordered_plan(plan: Plan, tasks: TaskGraph, ordering: Ordering) -> Plan:
    """The plan with the order, and what it predicts: the schedule, stretched as the order of emission is.

    Schedules know no banks, and links that serve one transfer after the other. What that leaves out is taken to be the
    same part of both orders: so much as the plan is predicted to take more, or less, than the schedule of emission.
    """
    schedule, stretch = ordering.schedule, stretched(plan, ordering.emitted_cycles)
    begun: dict[int, float] = {}
    ended: dict[int, float] = {}
    for task, slot in enumerate(tasks.slot):
        if tasks.computes[tasks.queue[task]]:
            begun[slot] = min(begun.get(slot, schedule.start[task]), schedule.start[task])
            ended[slot] = max(ended.get(slot, 0.0), schedule.stop[task])
    predictions = tuple(
        Prediction(p.step, p.op, int(begun[slot] * stretch), int(ended[slot] * stretch)) if slot in begun else p
        for slot, p in enumerate(plan.predictions)
    )
    return replace(
        plan,
        order=ordering.orders,
        predictions=predictions,
        cycles_predicted=max(round(schedule.cycles * stretch), plan.lower_bound_cycles),
        cycles_simulated=None,
        solved=(*plan.solved, ordering.solved),
    )
