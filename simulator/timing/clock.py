"""Time: when each instruction begins and ends.

A fluid model. Nothing happens between events, so that the cost grows with instructions, not with cycles: an
instruction in flight works at a constant rate until another one begins or ends to share a link or a bank with it.
Instructions begin and end on whole cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil

from ..tasks.places import Banks
from ..tasks.sync import Wait
from ..tasks.tasks import Task
from .bandwidth import BankContention, Flow, max_min

_ISSUE, _BODY, _WAIT = 0, 1, 2


@dataclass(frozen=True)
class RunTimeline:
    """``start[q][i]`` and ``end[q][i]``: the cycles in which instruction i of queue q held its engine; -1: never.

    ``order`` lists (q, i) of everything but waits, as they ended: an order that respects queues and waits.
    ``conflict`` has, for each bank, the cycles that engines lost because it was overloaded. ``cycles`` is when the last
    result became visible. ``stuck`` are the queues that did not reach their ends.
    """

    start: list[list[int]]
    end: list[list[int]]
    order: list[tuple[int, int]]
    conflict: list[float]
    cycles: int
    stuck: tuple[int, ...]


class Clock:
    """Runs the queues of one cluster. One instruction of each queue is in flight at any time."""

    def __init__(self, tasks: Sequence[Sequence[Task]], banks: Banks, links: Sequence[float]) -> None:
        """``links``: bytes a cycle of each link."""
        count = len(tasks)
        self._tasks = tasks
        self._links = links
        self._load = BankContention(banks.capacity)
        self._flows: dict[Flow, set[int]] = {}
        self._fair: dict[tuple[tuple[Flow, int], ...], list[float]] = {}
        self._flows_changed = False
        self._events: list[tuple[int, int, int]] = []
        # Of the instruction in flight in each queue:
        self._phase = [_ISSUE] * count
        self._version = [0] * count
        self._left = [0.0] * count  # work to do, as of cycle `_since`
        self._since = [0] * count
        self._share = [0.0] * count  # work a cycle, before banks slow it down
        self._kept = [1.0] * count  # the part of it that banks leave
        self._limit = [-1] * count  # the bank that takes the rest
        self._fresh: set[int] = set()  # queues whose rate has to be set
        # Of each queue:
        self.start = [[-1] * len(stream) for stream in tasks]
        self.end = [[-1] * len(stream) for stream in tasks]
        self._next = [0] * count
        self._retired: list[list[int]] = [[] for _ in tasks]
        self._waiters: list[list[tuple[int, int]]] = [[] for _ in tasks]  # count, queue that waits for it
        self.order: list[tuple[int, int]] = []
        self.conflict = [0.0] * len(banks.capacity)

    def run(self) -> RunTimeline:
        for queue in range(len(self._tasks)):
            self._advance(queue, 0)
        events, version = self._events, self._version
        while events:
            time = events[0][0]
            while events and events[0][0] == time:
                _, queue, scheduled = heappop(events)
                if scheduled == version[queue]:
                    self._step(queue, time)
            self._set_rates(time)
        cycles = max([0, *(retired[-1] for retired in self._retired if retired)])
        stuck = tuple(q for q, stream in enumerate(self._tasks) if self._next[q] < len(stream))
        return RunTimeline(self.start, self.end, self.order, self.conflict, cycles, stuck)

    def _step(self, queue: int, time: int) -> None:
        """The awaited moment of ``queue`` has come: issue is over, or the body, or a wait."""
        phase = self._phase[queue]
        task = self._tasks[queue][self._next[queue]]
        if phase == _ISSUE and task.work:
            self._begin_body(queue, task, time)
            return
        if task.waits is not None and not self._pass(queue, task.waits, time):
            return
        if phase == _BODY:
            self._end_body(queue, task, time)
        if phase != _WAIT:
            self.order.append((queue, self._next[queue]))
        self._retire(queue, task, time)
        self._advance(queue, time)

    def _advance(self, queue: int, time: int) -> None:
        """Begin the next instruction of ``queue``; waits that are already satisfied take no time."""
        stream, start = self._tasks[queue], self.start[queue]
        while self._next[queue] < len(stream):
            index = self._next[queue]
            task = stream[index]
            start[index] = time
            if task.waits is None:
                self._phase[queue] = _ISSUE
                self._schedule(queue, time + task.issue)
                return
            if not self._pass(queue, task.waits, time):
                self._phase[queue] = _WAIT
                return
            self._retire(queue, task, time)

    def _pass(self, queue: int, waits: tuple[Wait, ...], time: int) -> bool:
        """Whether all waits are satisfied at ``time``; if not, ``queue`` is woken when the first open one may be."""
        for awaited, count in waits:
            retired = self._retired[awaited] if awaited < len(self._retired) else []
            if count > len(retired):
                if awaited < len(self._waiters):
                    self._waiters[awaited].append((count, queue))
                return False
            if count and retired[count - 1] > time:
                self._schedule(queue, retired[count - 1])
                return False
        return True

    def _retire(self, queue: int, task: Task, time: int) -> None:
        """The instruction leaves its engine; queues retire in order, each ``latency`` after it left."""
        self.end[queue][self._next[queue]] = time
        self._next[queue] += 1
        retired = self._retired[queue]
        done = time + task.latency
        retired.append(max(done, retired[-1]) if retired else done)
        waiters = self._waiters[queue]
        if waiters:
            satisfied = [w for w in waiters if w[0] <= len(retired)]
            for waiter in satisfied:
                waiters.remove(waiter)
                self._schedule(waiter[1], max(time, retired[waiter[0] - 1]))

    def _schedule(self, queue: int, when: int) -> None:
        self._version[queue] += 1
        heappush(self._events, (when, queue, self._version[queue]))

    def _begin_body(self, queue: int, task: Task, time: int) -> None:
        self._phase[queue] = _BODY
        self._version[queue] += 1
        self._left[queue] = task.work
        self._since[queue] = time
        self._kept[queue] = 1.0
        if task.links:
            self._share[queue] = 0.0
            self._flows.setdefault((task.links, task.cap), set()).add(queue)
            self._flows_changed = True
        else:
            self._share[queue] = task.cap
            self._load.change(queue, task.banks, 0.0, task.cap)
        self._fresh.add(queue)

    def _end_body(self, queue: int, task: Task, time: int) -> None:
        self._settle(queue, time)
        self._phase[queue] = _WAIT
        self._load.change(queue, task.banks, self._share[queue], 0.0)
        if task.links:
            flow = (task.links, task.cap)
            self._flows[flow].remove(queue)
            if not self._flows[flow]:
                del self._flows[flow]
            self._flows_changed = True

    def _settle(self, queue: int, time: int) -> None:
        """Account for the work done since the rate was last set."""
        passed = time - self._since[queue]
        if passed:
            kept = self._kept[queue]
            self._left[queue] -= passed * self._share[queue] * kept
            self._since[queue] = time
            if kept < 1.0:
                self.conflict[self._limit[queue]] += passed * (1.0 - kept)

    def _set_rates(self, time: int) -> None:
        """Share links and banks anew, and foretell the ends of all whose rate changed."""
        if self._flows_changed:
            self._flows_changed = False
            self._share_links(time)
        affected = self._fresh
        if self._load.disturbed:
            affected |= self._load.disturbed
            self._load.disturbed = set()
        self._fresh = set()
        for queue in sorted(affected):
            if self._phase[queue] != _BODY:
                continue
            self._settle(queue, time)
            task = self._tasks[queue][self._next[queue]]
            self._kept[queue], self._limit[queue] = self._load.slowdown(task.banks)
            rate = self._share[queue] * self._kept[queue]
            self._schedule(queue, time + max(0, ceil(self._left[queue] / rate - 1e-6)))

    def _share_links(self, time: int) -> None:
        flows = self._flows
        state = tuple((flow, len(users)) for flow, users in flows.items())
        shares = self._fair.get(state)
        if shares is None:
            shares = self._fair[state] = max_min(list(flows), [count for _, count in state], self._links)
        for users, share in zip(flows.values(), shares, strict=True):
            for queue in users:
                old = self._share[queue]
                if share != old:
                    self._settle(queue, time)
                    self._load.change(queue, self._tasks[queue][self._next[queue]].banks, old, share)
                    self._share[queue] = share
                    self._fresh.add(queue)
