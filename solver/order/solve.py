"""The order of all queues of a plan: a list schedule, forwards and backwards, and CP-SAT on windows of it.

The hint is the better of the order of emission and of list schedules. Timing the whole anew, with links and all, takes
as long as five to fifty windows, so as many of them, side by side in one schedule, are solved before their answers are
timed together; they count if the whole takes fewer cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from ...ir.plan import Plan, Prediction, QueueOrder, Solved
from ...ir.semantics.task_graph import TaskGraph, queue_orders
from ..cpsat.backend import Budget
from ..effort import NO_EFFORT, Effort, SearchPoint, thinned
from ..switches import ALL_ON, Disabled
from .list_schedule import OrderProblem, Schedule
from .model import Windows, improved

PASSES = 3
"""Forward and backward list schedules; more of them found nothing better on the ten networks that were tried."""
WINDOW_TASKS = 400
"""Tasks of a window: most are solved to optimality in a tenth of a second; with 1,200 fewer are, and found was less."""
WINDOW_LIMIT = 0.05
"""Deterministic seconds for a window."""
WINDOW_SECONDS, TASK_SECONDS = 0.1, 1e-5
"""About what a window takes that is not known to be optimal, and timing anew for each task of the whole: measured on
DenseNet-121, Conformer and MobileNet-V2 of 50,000 to 75,000 tasks, 0.07 to 0.14 and 0.4e-5 to 1e-5."""
WINDOWS_OF_TIMING = 4
"""How many times longer windows are solved than their answers are timed; chosen."""


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


def order_queues(tasks: TaskGraph, *, seconds: float, seed: int = 0, disabled: Disabled = ALL_ON) -> Ordering:
    """The best order found; ``seconds`` of searches in windows, counted and not by the clock."""
    problem = OrderProblem(tasks)
    emitted = best = problem.in_order(range(len(tasks)))
    priority: Sequence[float] = [float(task) for task in range(len(tasks))]
    for _ in range(PASSES):
        forward = problem.forward(priority)
        best = min(best, forward, key=lambda s: s.cycles)
        backward = problem.backward([-stop for stop in forward.stop])
        priority = [-stop for stop in backward.stop]
    listed = best.cycles
    effort = NO_EFFORT
    if "pipeline-model" not in disabled:
        best, effort = _windows(problem, best, seconds, seed)
    bound = lower_bound(tasks)
    status = "optimal" if best.cycles <= bound else "feasible"
    solved = Solved("order", status, float(round(best.cycles)), float(int(bound)), "cycles")
    points = (SearchPoint(0.0, listed, bound), *effort.points)
    return Ordering(
        queue_orders(tasks.queues, tasks.queue, best.order), best, solved, replace(effort, points=thinned(points)),
        emitted.cycles, listed,
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


def _windows(problem: OrderProblem, best: Schedule, seconds: float, seed: int) -> tuple[Schedule, Effort]:
    """Improve a schedule by windows side by side, then by those between them, as long as the seconds last and that
    helps."""
    effort = NO_EFFORT
    count = len(best.order)
    retiming = TASK_SECONDS * count
    seconds -= retiming
    together = max(1, ceil(WINDOWS_OF_TIMING * retiming / WINDOW_SECONDS))
    offset, fruitless = 0, 0
    while fruitless < 2:
        before = best.cycles
        for places in batched_windows(count, offset, together):
            schedule = Windows(problem, best)
            windows = {place: window for place in places if (window := schedule.window(place)).can_be_shorter}
            seconds -= WINDOW_SECONDS * len(windows) + retiming
            if seconds < 0:
                # A longer timeout pays for more windows.
                return best, replace(effort, limited=True)
            answers: dict[range, tuple[int, ...]] = {}
            for place, window in windows.items():
                tasks, solution = improved(window, Budget(10.0, WINDOW_LIMIT), seed)
                effort += replace(solution.effort, points=())
                if solution.interrupted:
                    return best, effort
                if tasks is not None:
                    answers[place] = tasks
            timed = with_answers(problem, best, answers)
            if timed.cycles < best.cycles:
                best = timed
                point = SearchPoint(effort.deterministic_seconds, best.cycles, None)
                effort = replace(effort, points=thinned((*effort.points, point)))
        fruitless = 0 if best.cycles < before else fruitless + 1
        offset = WINDOW_TASKS // 2 - offset
    return best, effort


def batched_windows(count: int, offset: int, together: int) -> Iterator[list[range]]:
    """Windows of ``count`` places that follow each other, the first one shorter by ``offset``, so many at a time."""
    firsts = range(-offset if offset < count else 0, count, WINDOW_TASKS)
    windows = [range(max(0, first), min(count, first + WINDOW_TASKS)) for first in firsts]
    for first in range(0, len(windows), together):
        yield windows[first : first + together]


def with_answers(problem: OrderProblem, best: Schedule, answers: Mapping[range, tuple[int, ...]]) -> Schedule:
    """The better one of a schedule and that with the answers of windows, or else with either half of them.

    Each answer is for a whole with no other: together they may take longer, as transfers then meet on links.
    """
    if not answers:
        return best
    chosen = list(answers)
    for some in dict.fromkeys(tuple(part) for part in (chosen, chosen[: len(chosen) // 2], chosen[len(chosen) // 2 :])):
        order = list(best.order)
        for window in some:
            order[window.start : window.stop] = answers[window]
        timed = problem.in_order(order)
        if timed.cycles < best.cycles:
            return timed
    return best


def ordered_plan(plan: Plan, tasks: TaskGraph, ordering: Ordering) -> Plan:
    """The plan with the order, and what it predicts: the schedule, stretched as the order of emission is.

    Schedules know no banks, and links that serve one transfer after the other. What that leaves out is taken to be the
    same part of both orders: so much as the plan is predicted to take more, or less, than the schedule of emission.
    """
    schedule = ordering.schedule
    stretch = plan.cycles_predicted / ordering.emitted_cycles if ordering.emitted_cycles else 1.0
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
