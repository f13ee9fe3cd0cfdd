"""What let an instruction start: its past, walked backwards along the events that released one another.

An engine that is free takes the next instruction of its queue at once. So an instruction starts when the one before it
leaves the engine, or, behind waits that took time, when the last of them to end was satisfied: the *result* of an
instruction of another queue became visible. That instruction had a start, too, and so on to the first cycle: every
moment before a start belongs to exactly one instruction, that which was in the way of the start at that moment.

    MME0  ....idle....[j      the wait before j ended with the last load
    MTI0  [load][load]        both were in the way of j, and before them
    DMR [fetch]               the fetch that the first load waited for
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from ..ir.program import Program
from ..ir.trace import Trace

Node = tuple[int, int]
"""Queue, and index of an instruction in it."""


class Past:
    """Of a run: ``latency[q][i]`` is what instruction i of queue q takes from leaving its engine to being visible.

    Of a queue that was stuck, only what came to its end is looked at.
    """

    def __init__(self, program: Program, trace: Trace, latency: Sequence[Sequence[int]]) -> None:
        self.start = [times.tolist() for times in trace.start]
        self.end = [times.tolist() for times in trace.end]
        self._sync = [[i.row.kind == "sync" for i in stream] for stream in program.streams]
        self._visible = [
            np.maximum.accumulate(np.array(end, np.int64) + np.array(late, np.int64))[np.array(end, np.int64) >= 0]
            if end
            else np.zeros(0, np.int64)
            for end, late in zip(self.end, latency, strict=True)
        ]
        self._waits: dict[Node, list[Node]] = defaultdict(list)
        for queue, index, other, count in trace.waits.tolist():
            self._waits[queue, index].append((other, count))

    def before(self, node: Node) -> Node | None:
        """The instruction that released ``node``; ``None`` if nothing had to."""
        queue, index = node
        for previous in range(index - 1, -1, -1):
            if not self._sync[queue][previous]:
                return queue, previous
            if self.end[queue][previous] > self.start[queue][previous]:
                return self._satisfied(queue, previous)
        return None

    def last(self) -> Node | None:
        """The instruction whose result is visible last: with it the run ends."""
        ends = [(int(visible[-1]), -queue) for queue, visible in enumerate(self._visible) if len(visible)]
        if not ends:
            return None
        cycle, queue = max(ends)
        return self._visible_at(-queue, cycle)

    def in_the_way(self, node: Node | None, since: int, until: int) -> Iterator[tuple[Node, int, int]]:
        """(instruction, begin, end): what was in the way, from ``until``, when ``node`` released another, to ``since``.

        These spans follow one another backwards; that of an instruction includes the latency of its result.
        """
        while node is not None and until > since:
            begin = max(self.start[node[0]][node[1]], since)
            if begin < until:
                yield node, begin, until
                until = begin
            node = self.before(node)

    def _satisfied(self, queue: int, index: int) -> Node | None:
        """The instruction whose result ended a wait that took time."""
        when = self.end[queue][index]
        for other, count in self._waits[queue, index]:
            if 0 < count <= len(self._visible[other]) and int(self._visible[other][count - 1]) == when:
                return self._visible_at(other, when)
        return None

    def _visible_at(self, queue: int, cycle: int) -> Node | None:
        """The first instruction of a queue whose result was visible at ``cycle``, followed back if it is a wait."""
        index = bisect_left(self._visible[queue], cycle)
        return self._satisfied(queue, index) if self._sync[queue][index] else (queue, index)
