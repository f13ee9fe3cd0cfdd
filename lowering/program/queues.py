"""Instruction queues, and the fewest waits that keep them in the order that the data needs.

Queues run in order and side by side, so an instruction must wait for those of other queues that it comes after. A queue
remembers what it already knows to be retired, directly or through the queues it waited for, and waits for nothing
twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import numpy as np

from ...ir.isa.table import Instruction
from ...ir.semantics.box_arrays import Int
from .dependences import Task

Runs = list[tuple[int, int]]
"""(slot, instructions) of a stream, one after the other."""


def arrange(tasks: Sequence[Task], order: Iterable[int], queues: int) -> tuple[list[list[Instruction]], list[Runs]]:
    """The streams of all queues, and the slots of their instructions.

    ``tasks`` are in an ``order`` in which each comes after those that it depends on. Waits are of the slot of the
    instruction behind them.
    """
    streams = _Streams(queues)
    place = [0] * len(tasks)
    slots: list[Runs] = [[] for _ in range(queues)]
    counted = [0] * queues
    for number in order:
        task = tasks[number]
        needs: dict[int, int] = {}
        for earlier in task.after:
            queue = tasks[earlier].queue
            if queue != task.queue and place[earlier] > needs.get(queue, -1):
                needs[queue] = place[earlier]
        place[number] = streams.append(task.queue, task.instruction, needs)
        _count(slots[task.queue], task.slot, place[number] + 1 - counted[task.queue])
        counted[task.queue] = place[number] + 1
    return streams.streams, slots


def _count(runs: Runs, slot: int, instructions: int) -> None:
    if runs and runs[-1][0] == slot:
        runs[-1] = slot, runs[-1][1] + instructions
    else:
        runs.append((slot, instructions))


class _Streams:
    """The queues under construction."""

    def __init__(self, queues: int) -> None:
        self.streams: list[list[Instruction]] = [[] for _ in range(queues)]
        self._known = np.zeros((queues, queues), dtype=np.int64)
        self._history: list[tuple[list[int], list[Int]]] = [([], []) for _ in range(queues)]

    def append(self, queue: int, instruction: Instruction, needs: dict[int, int]) -> int:
        """Add an instruction behind waits for the last that it ``needs`` of other queues; its place in its queue."""
        self._wait(queue, needs, instruction.op)
        self.streams[queue].append(instruction)
        return len(self.streams[queue]) - 1

    def _wait(self, queue: int, needs: dict[int, int], op: int) -> None:
        known = self._known[queue]
        open_needs = {q: i + 1 for q, i in needs.items() if known[q] < i + 1}
        if not open_needs:
            return
        if len(open_needs) == 1:
            ((q, count),) = open_needs.items()
            self.streams[queue].append(Instruction("wait", op, (q, count)))
            np.maximum(known, self._clock(q, count - 1), out=known)
            self._remember(queue)
            return
        clocks = {q: self._clock(q, count - 1) for q, count in open_needs.items()}
        for q, count in sorted(open_needs.items()):
            if known[q] >= count or any(
                source != q and clock[q] >= count
                for source, clock in clocks.items()
                if known[source] < open_needs[source]
            ):
                continue
            self.streams[queue].append(Instruction("wait", op, (q, count)))
            np.maximum(known, clocks[q], out=known)
        for q, count in sorted(open_needs.items()):
            # A need that another's clock covered is known by now, unless two covered one another.
            if known[q] < count:
                self.streams[queue].append(Instruction("wait", op, (q, count)))
                known[q] = count
        self._remember(queue)

    def _remember(self, queue: int) -> None:
        """What the queue knows to be retired from its next instruction on."""
        positions, clocks = self._history[queue]
        positions.append(len(self.streams[queue]))
        clocks.append(self._known[queue].copy())

    def _clock(self, queue: int, index: int) -> Int:
        """What is retired once instruction ``index`` of ``queue`` is."""
        positions, clocks = self._history[queue]
        at = bisect_right(positions, index) - 1
        clock = clocks[at].copy() if at >= 0 else np.zeros(len(self.streams), dtype=np.int64)
        clock[queue] = index + 1
        return clock
