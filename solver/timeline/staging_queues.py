"""Operands that are staged, in the predicted timeline: the copies around instructions, on the queues of their engines.

    copies into staging memory      1 . 2 . 3 . 4 .
    instructions                        1 . 2 . 3 . 4 .
    copies back                             1 . 2 . 3 . 4

Block by block, as :mod:`girih.lowering.emission.staging` cuts them: a block is copied when half of the staging memory
is free and its operands are where they are copied from, and an engine waits until what another copied is visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...ir.machine import Machine
from ..cost.staged_run import Operand, StagedCopy, StagedRun

FOLLOWED = 16
"""Blocks of one run that are followed one by one; the others go at the pace of the last half of these. Chosen, not
measured."""


@dataclass(frozen=True)
class StagedSpan:
    """When an engine works on blocks, waits in between included: since when, and until when.

    ``left``: of each operand that was staged, when the last copy of it is over, and its engine.
    """

    begun: float
    ended: float
    left: dict[Operand, tuple[float, str]]


@dataclass
class StagingQueues:
    """Of one core: until when the engines that stage operands are occupied, and the halves of staging memories in use.

    ``rooms``: of each memory, when its halves are free; ``turn``: which of them is next.
    """

    queues: dict[str, float]
    rooms: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    turn: dict[str, int] = field(default_factory=dict[str, int])

    @staticmethod
    def of(machine: Machine) -> StagingQueues:
        """Those of a machine's core, idle."""
        return StagingQueues({name: 0.0 for name, _, _ in sorted(machine.staging_copies)})

    def copy(self) -> StagingQueues:
        """The same of another core that has done the same so far."""
        rooms = {name: list(times) for name, times in self.rooms.items()}
        return StagingQueues(dict(self.queues), rooms, dict(self.turn))

    def take(self, queues: Mapping[str, Sequence[float]]) -> None:
        """Go on with the queues of all cores, of each engine."""
        for name, time in self.queues.items():
            self.queues[name] = max(time, *queues[name])

    def give(self, queues: Mapping[str, list[float]]) -> None:
        """Tell the queues of all cores until when engines stage operands."""
        for name, time in self.queues.items():
            queues[name][:] = [max(time, other) for other in queues[name]]

    def run(
        self, parts: Sequence[StagedRun], free: float, ready: float, arrived: Mapping[Operand, float], target: float,
        latency: int, slower: float,
    ) -> StagedSpan:  # fmt: skip
        """Run instructions with their copies on an engine, ``free`` since then.

        ``ready``: when what it takes from where it lies is there; ``arrived``: when operands can be copied in, and
        ``target`` when they can be copied back. What the engine makes is visible after ``latency``; its work takes
        ``1 + slower`` times as long as alone.
        """
        left: dict[Operand, tuple[float, str]] = {}
        begun: float | None = None
        state = max(free, ready)
        for part in parts:
            block = _Block(self, part, ready, arrived, target, latency, slower)
            start, state = block.follow(state, left)
            begun = start if begun is None else begun
        return StagedSpan(state if begun is None else begun, state, left)


class _Block:
    """The blocks of one run."""

    def __init__(
        self, queues: StagingQueues, part: StagedRun, ready: float, arrived: Mapping[Operand, float], target: float,
        latency: int, slower: float,
    ) -> None:  # fmt: skip
        self._of = queues
        self._part = part
        self._ready = ready
        self._arrived = arrived
        self._target = target
        self._latency = latency
        self._busy = part.busy / part.blocks * (1.0 + slower)
        self._memories = tuple(dict.fromkeys(copy.memory for copy in part.copies))

    def follow(self, free: float, left: dict[Operand, tuple[float, str]]) -> tuple[float, float]:
        """Since when, and until when the engine works on all blocks, if it is free then."""
        blocks = self._part.blocks
        begun, free = self._next(0, free, left)
        followed = min(blocks, FOLLOWED)
        before = free
        for number in range(1, followed):
            before = free if number == followed // 2 else before
            _, free = self._next(number, free, left)
        if blocks > followed:
            # All of them take turns at the same pace.
            more = (free - before) * (blocks - followed) / (followed - followed // 2)
            free += more
            self._delay(more, left)
        return begun, free

    def _next(self, number: int, free: float, left: dict[Operand, tuple[float, str]]) -> tuple[float, float]:
        """Since when, and until when the engine works on a block."""
        queues, blocks = self._of.queues, self._part.blocks
        copied = [c for c in self._part.copies if _copies(c, number, blocks)]
        halves: dict[str, int] = {}
        opened = 0.0
        begun = max(free, self._ready)
        for name in dict.fromkeys(copy.memory for copy in copied):
            half = halves[name] = self._of.turn.get(name, 0)
            self._of.turn[name] = 1 - half
            times = self._of.rooms.setdefault(name, [0.0, 0.0])
            opened = max(times) if name in self._part.whole else times[half]
            read = False
            for copy in copied:
                if copy.memory == name and not copy.back:
                    read = True
                    start = max(queues[copy.engine], opened, self._arrived.get(copy.operand, 0.0))
                    stop = queues[copy.engine] = start + copy.cycles / copy.times
                    left[copy.operand] = stop + copy.latency, copy.engine
                    begun = max(begun, stop + copy.latency)
            begun = begun if read else max(begun, opened)
        ended = begun + self._busy
        for name in self._memories:
            over = ended + self._latency
            for copy in copied:
                if copy.memory == name and copy.back:
                    start = max(queues[copy.engine], ended + self._latency, self._target)
                    queues[copy.engine] = start + copy.cycles / copy.times
                    over = queues[copy.engine] + copy.latency
                    left[copy.operand] = over, copy.engine
            half = halves.get(name, 1 - self._of.turn.get(name, 0))
            times = self._of.rooms[name]
            for place in (0, 1) if name in self._part.whole else (half,):
                times[place] = max(times[place], over)
        return begun, ended

    def _delay(self, cycles: float, left: dict[Operand, tuple[float, str]]) -> None:
        """All that goes on with the blocks ends so much later."""
        of = self._of
        for name in dict.fromkeys(copy.engine for copy in self._part.copies):
            of.queues[name] += cycles
        for operand in dict.fromkeys(copy.operand for copy in self._part.copies):
            time, engine = left[operand]
            left[operand] = time + cycles, engine
        for name in self._memories:
            of.rooms[name] = [time + cycles for time in of.rooms[name]]


def _copies(copy: StagedCopy, number: int, blocks: int) -> bool:
    """Whether a block copies an operand, or finds what the one before has staged."""
    return number == 0 or number * copy.times // blocks != (number - 1) * copy.times // blocks
