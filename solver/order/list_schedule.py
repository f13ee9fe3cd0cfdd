"""A schedule of tasks in queues by a rule of priorities, forwards and backwards in time.

Serial in events: whenever a queue is free, it issues the task with the least priority value of those that wait for
nothing any more. A task is visible to other queues its latency after it ends, to its own at once. A link serves
transfers one after the other, in the order in which they begin: that is right for what crosses it in all, and late or
early for a single transfer that shares it.

Backwards, tasks begin when all that comes after them has. A forward schedule by the times of a backward one, and
again, is mostly shorter (Li and Willis, EJOR 56, 1992; Valls, Ballestin and Quintanilla, EJOR 165, 2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from ...ir.isa.timing import Cost
from ...ir.semantics.task_graph import TaskGraph


@dataclass(frozen=True)
class Schedule:
    """``order``: the tasks by their start. ``start`` and ``stop`` of each, and when the last is visible, in cycles."""

    order: tuple[int, ...]
    start: tuple[float, ...]
    stop: tuple[float, ...]
    cycles: float


Lagged = list[list[tuple[int, float]]]
"""Of each task: others, and the cycles that lie between the end of one and the begin of the other."""


class OrderProblem:
    """A task graph with its edges in both directions."""

    def __init__(self, tasks: TaskGraph) -> None:
        self.tasks = tasks
        self.queue = tasks.queue
        # Parts of costs, which are looked at millions of times.
        self.issue = [cost.issue for cost in tasks.cost]
        self.body = [cost.body for cost in tasks.cost]
        self.latency = [cost.latency for cost in tasks.cost]
        self.crossings = [cost.links for cost in tasks.cost]
        self.after: Lagged = [[] for _ in tasks.queue]
        self.before: Lagged = [[] for _ in tasks.queue]
        for task, earlier in enumerate(tasks.after):
            for other in earlier:
                lag = 0.0 if self.queue[other] == self.queue[task] else float(tasks.cost[other].latency)
                self.after[task].append((other, lag))
                self.before[other].append((task, lag))

    def forward(self, priority: Sequence[float]) -> Schedule:
        """Issue tasks as early as possible."""
        return self._with_end(self._issue(self.after, self.before, priority))

    def backward(self, priority: Sequence[float]) -> Schedule:
        """The same with time reversed."""
        return self._issue(self.before, self.after, priority)

    def in_order(self, order: Sequence[int]) -> Schedule:
        """Issue the tasks of each queue in this order, which need not be one of starts."""
        place = [0.0] * len(order)
        for number, task in enumerate(order):
            place[task] = float(number)
        chained: list[int | None] = [None] * len(order)
        last: dict[int, int] = {}
        for task in order:
            chained[task] = last.get(self.queue[task])
            last[self.queue[task]] = task
        after = [
            edges if (previous := chained[task]) is None else [*edges, (previous, 0.0)]
            for task, edges in enumerate(self.after)
        ]
        before = [list(edges) for edges in self.before]
        for task, previous in enumerate(chained):
            if previous is not None:
                before[previous].append((task, 0.0))
        return self._with_end(self._issue(after, before, place))

    def _with_end(self, schedule: Schedule) -> Schedule:
        """A schedule that goes forward in time ends when the results of all tasks are visible."""
        ends = zip(schedule.stop, self.tasks.cost, strict=True)
        return replace(schedule, cycles=max((stop + cost.latency for stop, cost in ends), default=0.0))

    def _issue(self, first: Lagged, then: Lagged, priority: Sequence[float]) -> Schedule:
        """Issue each task once those of ``first`` are done; ``then`` are the same edges from their other end."""
        count, queue, costs = len(self.queue), self.queue, self.tasks.cost
        missing = [len(edges) for edges in first]
        ready: list[list[tuple[float, int]]] = [[] for _ in self.tasks.queues]
        busy = [False] * len(ready)
        start, stop = [0.0] * count, [0.0] * count
        order: list[int] = []
        # (time, the task that need wait no longer or -1, the task that has ended)
        events: list[tuple[float, int, int]] = []
        links = _Links(self.tasks.link_rates)

        def issue(number: int, time: float) -> None:
            task = heappop(ready[number])[1]
            busy[number] = True
            order.append(task)
            start[task] = time
            end = stop[task] = links.carry(time, costs[task])
            heappush(events, (end, -1, task))
            for other, lag in then[task]:
                if lag:
                    heappush(events, (end + lag, other, task))

        def issue_able(time: float) -> None:
            idle = [number for number in able if ready[number] and not busy[number]]
            # Links serve those that begin together in this order.
            for number in sorted(idle, key=lambda n: ready[n][0]):
                issue(number, time)
            able.clear()

        def released(task: int) -> None:
            missing[task] -= 1
            if not missing[task]:
                heappush(ready[queue[task]], (priority[task], task))
                able.add(queue[task])

        able: set[int] = set()
        for task in range(count):
            if not missing[task]:
                heappush(ready[queue[task]], (priority[task], task))
        able.update(range(len(ready)))
        issue_able(0.0)
        while events:
            time = events[0][0]
            while events and events[0][0] == time:
                _, waiting, task = heappop(events)
                if waiting >= 0:
                    released(waiting)
                    continue
                busy[queue[task]] = False
                able.add(queue[task])
                for other, lag in then[task]:
                    if not lag:
                        released(other)
            issue_able(time)
        return Schedule(tuple(order), tuple(start), tuple(stop), max(stop, default=0.0))


class _Links:
    """Links that serve one transfer after the other."""

    def __init__(self, rates: Sequence[float]) -> None:
        self._rates = rates
        self._free = [0.0] * len(rates)

    def carry(self, start: float, cost: Cost) -> float:
        """When a task that begins now ends."""
        begin = start + cost.issue
        stop = begin + cost.body
        for link, crossing in cost.links:
            free = max(self._free[link], begin) + crossing / self._rates[link]
            self._free[link] = free
            stop = max(stop, free)
        return stop
