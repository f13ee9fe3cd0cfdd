"""The critical path to an instruction, walked backwards, and the attribution of idle cycles to instructions on it.

An engine that is free takes the next instruction of its queue at once. So an instruction starts when the one before it
leaves the engine, or, behind waits that took time, when the last of them to end was satisfied: the *result* of an
instruction of another queue became visible. That instruction is its *releaser*, which has a releaser in turn, and so on
to the first cycle: each idle cycle is attributed to exactly one instruction, the one on this path that ran then.

    MME0  ....idle....[j      the wait before j ended with the last load
    MTI0  [load][load]        the idle cycles of j are attributed to both, and before them
    DMR [fetch]               to the fetch that the first load waited for

References: Yang and Miller, ICDCS 1988; Fields, Rubin and Bodik, ISCA 2001.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from ...ir.program import Program
from ...ir.trace import Trace

Node = tuple[int, int]
"""Queue, and index of an instruction in it."""


class CriticalPath:
    """The releasers of a run's instructions.

    ``latency[q][i]``: cycles from when instruction i of queue q leaves its engine to when its result is visible. Of a
    queue that did not reach its end, only the instructions that ended are on paths.
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
        for queue, index, awaited, count in trace.waits.tolist():
            self._waits[queue, index].append((awaited, count))

    def releaser(self, node: Node) -> Node | None:
        """The instruction that let ``node`` start; ``None`` if it could start at once."""
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

    def attribute(self, node: Node | None, since: int, until: int) -> Iterator[tuple[Node, int, int]]:
        """(instruction, begin, end): to which instruction the cycles from ``since`` to ``until`` are attributed.

        ``node`` is the releaser of what started at ``until``. Spans are adjacent, the last one first; the span of an
        instruction includes the latency of its result.
        """
        while node is not None and until > since:
            begin = max(self.start[node[0]][node[1]], since)
            if begin < until:
                yield node, begin, until
                until = begin
            node = self.releaser(node)

    def _satisfied(self, queue: int, index: int) -> Node | None:
        """The instruction whose result ended a wait that took time."""
        when = self.end[queue][index]
        for awaited, count in self._waits[queue, index]:
            if 0 < count <= len(self._visible[awaited]) and int(self._visible[awaited][count - 1]) == when:
                return self._visible_at(awaited, when)
        return None

    def _visible_at(self, queue: int, cycle: int) -> Node | None:
        """The first instruction of a queue whose result was visible at ``cycle``, followed back if it is a wait."""
        index = bisect_left(self._visible[queue], cycle)
        return self._satisfied(queue, index) if self._sync[queue][index] else (queue, index)
