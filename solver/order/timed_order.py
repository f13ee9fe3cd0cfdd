"""An order of all tasks that is changed window by window, and timed only where it was changed.

Each task begins when its queue is free and when what it waits for is visible, and each link serves transfers as they
begin. What the whole takes follows from the tasks that are timed and from the longest path behind them, with queues and
links in their order: so a change of a window is judged by its tasks and some around it. Heads and tails of a schedule
serve local searches of job shops in the same way (Taillard, ORSA Journal on Computing 6, 1994).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import ceil, inf

from .list_schedule import OrderProblem, Schedule
from .model import Window

LOOK_AHEAD = 1600
"""Tasks behind a change that are timed to judge it. With 0 a pass of Conformer promised 19,069 cycles of 2,962,272 and
gained 1,135; with 1600 it gained 6,646. Twice as many, or half, gained less in two passes."""
MARGIN = 100
"""Tasks that are timed in front of a change, and behind each part that is timed: some of them begin before tasks of
that part, and links serve them first. Without those behind, the times of an order of Conformer ended at 2,857,951
cycles, and the whole took 2,865,193; with 50 of them, both were 2,854,684. Chosen to be more than enough."""


@dataclass(frozen=True)
class OrderTiming:
    """Tasks in the ``order`` of their starts, in cycles: when each starts and stops, when links are free after it."""

    order: list[int]
    starts: list[float]
    stops: list[float]
    links: list[tuple[float, ...]]


@dataclass(frozen=True)
class OrderState:
    """All of a :class:`TimedOrder` that a change modifies."""

    tasks: list[int]
    places: list[int]
    ranks: list[int]
    queues: list[list[int]]
    starts: list[float]
    stops: list[float]
    links: list[tuple[float, ...]]
    timed: int


class TimedOrder:
    """The order of a schedule, to be changed.

    A change leaves the times of tasks behind it for :meth:`time_until`. What comes after a task (its tail) is that of
    the schedule: changes are to be tried from the first task to the last, and one in front of an earlier change is
    judged by the tails from before that.
    """

    def __init__(self, problem: OrderProblem, schedule: Schedule) -> None:
        self._problem = problem
        self.tasks = list(schedule.order)
        self._place = [0] * len(self.tasks)
        self._rank = [0] * len(self.tasks)
        self._queues: list[list[int]] = [[] for _ in problem.tasks.queues]
        for place, task in enumerate(self.tasks):
            self._place[task] = place
            queue_tasks = self._queues[problem.queue[task]]
            self._rank[task] = len(queue_tasks)
            queue_tasks.append(task)
        self._start, self._stop = list(schedule.start), list(schedule.stop)
        self._length, self._link_tail = _tails(problem, schedule)
        idle = (0.0,) * len(problem.tasks.link_rates)
        self._link_free = [idle] * (len(self.tasks) + 1)
        """When links are free before the task at each place."""
        self._timed = 0

    def places(self, tasks: Iterable[int]) -> list[int]:
        """Where these tasks are, from the first place to the last."""
        return sorted(self._place[task] for task in tasks)

    def has(self, tasks: Sequence[int]) -> bool:
        """Whether these tasks come in this order."""
        return self.places(tasks) == [self._place[task] for task in tasks]

    @property
    def state(self) -> OrderState:
        """A copy of all that changes modify, for :meth:`go_back`."""
        queues = [list(queue_tasks) for queue_tasks in self._queues]
        lists = list(self.tasks), list(self._place), list(self._rank), queues
        return OrderState(*lists, list(self._start), list(self._stop), list(self._link_free), self._timed)

    def go_back(self, state: OrderState) -> None:
        """Undo all changes since the order had this state, which is not to be used again."""
        self.tasks, self._place, self._rank, self._queues = state.tasks, state.places, state.ranks, state.queues
        self._start, self._stop, self._link_free, self._timed = state.starts, state.stops, state.links, state.timed

    def cycles_at(self, place: int) -> float:
        """What the whole takes by the times of the tasks around this place, and the longest path behind them; at the
        end by the times of all."""
        last = min(len(self.tasks), place + LOOK_AHEAD)
        self.time_until(last)
        return self._cycles(range(max(0, place - LOOK_AHEAD) if place < len(self.tasks) else 0, last))

    def time_until(self, place: int) -> None:
        """Time the tasks before this place, as far as changes before them have not been followed yet."""
        if place > self._timed:
            places = range(self._timed, min(len(self.tasks), place + MARGIN))
            timing = self._timing(places, self.tasks[places.start : places.stop])
            assert timing is not None
            self._put(places, timing)

    def change(self, tasks: Sequence[int]) -> bool:
        """Give the places of these tasks to them in this order if the longest path through these and some places around
        them, with links, gets shorter by it.

        The whole takes fewer cycles then if no other path is as long.
        Where dependences do not allow it, a task comes as soon after its place in the order as they do.
        """
        places = self._timed_behind(tasks)
        before = self.tasks[places.start : places.stop]
        wanted = list(before)
        for place, task in zip(self.places(tasks), tasks, strict=True):
            wanted[place - places.start] = task
        after = self._as_allowed(wanted)
        if after == before:
            return False
        judged = self._judged(places)
        front, behind = self.tasks[judged.start : places.start], self.tasks[places.stop : judged.stop]
        timing = self._timing(judged, [*front, *after, *behind], self._cycles(judged))
        if timing is None:
            return False
        self._put(judged, timing)
        return True

    def _timed_behind(self, tasks: Sequence[int]) -> range:
        """From the first of these tasks to the last, when all by which a change of them is judged have been timed."""
        while True:
            changed, timed = self.places(tasks), self._timed
            places = range(changed[0], changed[-1] + 1)
            self.time_until(self._judged(places).stop)
            if self._timed == timed:
                return places
            # Tasks come to the places of their starts when they are timed.

    def _judged(self, places: range) -> range:
        """The places by which a change of these is judged.

        Transfers that begin at other times meet on links in another order: that may cost later tasks more. Some tasks
        in front may begin after the first that is changed.
        """
        return range(max(0, places.start - MARGIN), min(len(self.tasks), places.stop + LOOK_AHEAD))

    def window(self, places: range) -> Window:
        """The question in which order the tasks at these places are to come."""
        self.time_until(places.stop)
        problem, queue = self._problem, self._problem.queue
        tasks = sorted(self.tasks[places.start : places.stop])
        index = {task: i for i, task in enumerate(tasks)}
        spans = self._spans(tasks)
        release, tail, edges = list[int](), list[int](), list[tuple[int, int, int]]()
        for i, task in enumerate(tasks):
            first, last = spans[queue[task]]
            released = self._freed(queue[task], first)
            for other, lag in problem.after[task]:
                if other in index:
                    edges.append((index[other], i, ceil(lag)))
                else:
                    released = max(released, self._stop[other] + lag)
            rest = max(float(problem.tasks.cost[task].latency), self._rest_of_queue(queue[task], last))
            for other, lag in problem.before[task]:
                if other not in index:
                    rest = max(rest, self._length[other] + lag)
            release.append(ceil(released))
            tail.append(ceil(rest))
        return Window(
            tuple(tasks),
            tuple(queue[t] for t in tasks),
            tuple(ceil(self._stop[t] - self._start[t]) for t in tasks),
            tuple(release),
            tuple(tail),
            tuple(edges),
            tuple(ceil(self._start[t]) for t in tasks),
        )

    def _cycles(self, places: range) -> float:
        """The longest path through the tasks of these places, which have been timed."""
        problem, queue, length = self._problem, self._problem.queue, self._length
        cycles = 0.0
        last: dict[int, int] = {}
        for task in self.tasks[places.start : places.stop]:
            end = self._stop[task]
            cycles = max(cycles, end + problem.latency[task])
            for other, lag in problem.before[task]:
                if self._place[other] >= places.stop:
                    cycles = max(cycles, end + lag + length[other])
            last[queue[task]] = task
        for number, task in last.items():
            cycles = max(cycles, self._stop[task] + self._rest_of_queue(number, self._rank[task]))
        return max(cycles, self._rest_of_links(places.stop, self._link_free[places.stop]))

    def _timing(self, places: range, tasks: Sequence[int], limit: float = inf) -> OrderTiming | None:
        """What tasks of these places take if each queue issues its own in this order; times before them are right.

        Links serve transfers as they begin: the tasks that begin together in this order. ``None`` if that takes
        ``limit`` cycles or more.
        """
        problem, queue, rates = self._problem, self._problem.queue, self._problem.tasks.link_rates
        issue, body, latency, crossings = problem.issue, problem.body, problem.latency, problem.crossings
        links = list(self._link_free[places.start])
        free_of_links = tuple(links)
        spans = self._spans(tasks)
        free = {number: self._freed(number, first) for number, (first, _) in spans.items()}
        rank = {task: i for i, task in enumerate(tasks)}
        queued: dict[int, list[int]] = {number: [] for number in spans}
        start_of: dict[int, float] = {}
        missing: dict[int, int] = {}
        for task in reversed(tasks):
            queued[queue[task]].append(task)
            # The place in its queue is one more thing to wait for.
            waits, begin = 1, 0.0
            for other, lag in problem.after[task]:
                if other in rank:
                    waits += 1
                elif self._stop[other] + lag > begin:
                    begin = self._stop[other] + lag
            start_of[task], missing[task] = begin, waits
        ready: list[tuple[float, int]] = []

        def released(task: int, time: float) -> None:
            if time > start_of[task]:
                start_of[task] = time
            missing[task] -= 1
            if not missing[task]:
                heappush(ready, (start_of[task], rank[task]))

        for number in spans:
            released(queued[number].pop(), free[number])
        order, starts, stops, free_links = list[int](), list[float](), list[float](), list[tuple[float, ...]]()
        cycles = 0.0
        while ready:
            start, place = heappop(ready)
            task = tasks[place]
            begin = start + issue[task]
            end = begin + body[task]
            if crossings[task]:
                for link, crossing in crossings[task]:
                    links[link] = max(links[link], begin) + crossing / rates[link]
                    end = max(end, links[link])
                free_of_links = tuple(links)
            order.append(task)
            starts.append(start)
            stops.append(end)
            free_links.append(free_of_links)
            cycles = max(cycles, end + latency[task])
            for other, lag in problem.before[task]:
                if other in rank:
                    released(other, end + lag)
                else:
                    cycles = max(cycles, end + lag + self._length[other])
            if cycles >= limit:
                return None
            number = queue[task]
            free[number] = end
            if queued[number]:
                released(queued[number].pop(), end)
        for number, (_, last) in spans.items():
            cycles = max(cycles, free[number] + self._rest_of_queue(number, last))
        cycles = max(cycles, self._rest_of_links(places.stop, links))
        return OrderTiming(order, starts, stops, free_links) if cycles < limit else None

    def _put(self, places: range, timing: OrderTiming) -> None:
        """These tasks at these places, at these times."""
        queues: dict[int, list[int]] = {}
        for place, task, start, stop, links in zip(
            places, timing.order, timing.starts, timing.stops, timing.links, strict=True
        ):
            self.tasks[place], self._place[task] = task, place
            self._start[task], self._stop[task], self._link_free[place + 1] = start, stop, links
            queues.setdefault(self._problem.queue[task], []).append(task)
        for number, queue_tasks in queues.items():
            for rank, task in enumerate(queue_tasks, min(self._rank[task] for task in queue_tasks)):
                self._queues[number][rank], self._rank[task] = task, rank
        self._timed = places.stop if places.stop == len(self.tasks) else max(places.start, places.stop - MARGIN)

    def _as_allowed(self, tasks: Sequence[int]) -> list[int]:
        """In this order, but each after those that it waits for."""
        wanted = {task: i for i, task in enumerate(tasks)}
        missing = [sum(other in wanted for other, _ in self._problem.after[task]) for task in tasks]
        ready = [i for i, waits in enumerate(missing) if not waits]
        heapify(ready)
        allowed: list[int] = []
        while ready:
            task = tasks[heappop(ready)]
            allowed.append(task)
            for other, _ in self._problem.before[task]:
                if (i := wanted.get(other)) is not None:
                    missing[i] -= 1
                    if not missing[i]:
                        heappush(ready, i)
        return allowed

    def _spans(self, tasks: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Of each queue of the tasks, the least and the greatest rank of them in it."""
        spans: dict[int, tuple[int, int]] = {}
        for task in tasks:
            rank = self._rank[task]
            first, last = spans.get(self._problem.queue[task], (rank, rank))
            spans[self._problem.queue[task]] = (min(first, rank), max(last, rank))
        return spans

    def _freed(self, queue: int, rank: int) -> float:
        """When a queue is free for its task of this rank."""
        return self._stop[self._queues[queue][rank - 1]] if rank else 0.0

    def _rest_of_queue(self, queue: int, rank: int) -> float:
        """From the end of a queue's task of this rank to the end of all, by what comes after it in the queue."""
        queue_tasks = self._queues[queue]
        return self._length[queue_tasks[rank + 1]] if rank + 1 < len(queue_tasks) else 0.0

    def _rest_of_links(self, place: int, free: Sequence[float]) -> float:
        """When all ends by what crosses each link from this place on, if the links are ``free`` at these times."""
        return max((time + rest for time, rest in zip(free, self._link_tail[place], strict=True)), default=0.0)


def _tails(problem: OrderProblem, schedule: Schedule) -> tuple[list[float], list[tuple[float, ...]]]:
    """From the begin of each task, and from when each link is free before each place, to the end of all.

    Queues and links are served in the order of the schedule, and tasks take as long as in it, waits for links included.
    """
    costs, rates, queue = problem.tasks.cost, problem.tasks.link_rates, problem.queue
    length = [0.0] * len(costs)
    tail = [float(cost.latency) for cost in costs]
    following: dict[int, int] = {}
    links = [0.0] * len(rates)
    link_tail = [tuple(links)] * (len(costs) + 1)
    for place in range(len(costs) - 1, -1, -1):
        task = schedule.order[place]
        later = following.get(queue[task])
        following[queue[task]] = task
        rest = tail[task] if later is None else max(tail[task], length[later])
        length[task] = rest + schedule.stop[task] - schedule.start[task]
        for other, lag in problem.after[task]:
            tail[other] = max(tail[other], length[task] + lag)
        for link, crossing in costs[task].links:
            links[link] = crossing / rates[link] + max(rest, links[link])
        link_tail[place] = tuple(links)
    return length, link_tail
