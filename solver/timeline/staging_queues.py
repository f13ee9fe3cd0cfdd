"""Operands that are staged, in the predicted timeline: the copies around instructions, on the queues of their engines.

    copies into staging memory      1 . 2 . 3 . 4 .
    instructions                        1 . 2 . 3 . 4 .
    copies back                             1 . 2 . 3 . 4

Block by block, as :mod:`girih.lowering.emission.staging` cuts them: a block is copied when its room in the staging
memory is free and its operands are where they are copied from, and an engine waits until what another copied is
visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.machine import Engine, Machine
from ...ir.semantics.staging.staging_rooms import StagingRooms
from ..cost.copy_time import CopyTime, Stopover
from ..cost.staged_run import Operand, StagedCopy, StagedRun

FOLLOWED = 16
"""Blocks of one run that are followed one by one; the others go at the pace of the last half of these. Chosen, not
measured."""


@dataclass(frozen=True)
class StagedSpan:
    """When an engine works on blocks, waits in between included: since when, and until when.

    ``last_copies``: of each operand that was staged, when the last copy of it is over, and its engine.
    """

    begun: float
    ended: float
    last_copies: dict[Operand, tuple[float, str]]


class StagingTimes:
    """Until when the rooms of a staging memory are in use."""

    def __init__(self, rooms: StagingRooms) -> None:
        self._rooms = rooms
        self._free: dict[int, float] = {}
        """By the number of a room that has bytes left."""
        self._last = 0

    def copy(self) -> StagingTimes:
        """The same, of another core."""
        other = StagingTimes(self._rooms.copy())
        other._free, other._last = dict(self._free), self._last
        return other

    def open(self, size: int, alignment: int = 1) -> float:
        """When the next room, of so many bytes at such an address, is free; :meth:`use` is of this one from now on."""
        place = self._rooms.open(size, alignment)
        free = max((self._free.pop(number) for number in place.overlapped), default=0.0)
        self._last = place.number
        self._free[place.number] = free
        return free

    def use(self, until: float) -> None:
        """What is in the room that was opened last is used until then."""
        self._free[self._last] = max(self._free[self._last], until)

    def delay(self, cycles: float) -> None:
        """All rooms are in use so much longer."""
        self._free = {number: time + cycles for number, time in self._free.items()}


@dataclass
class StagingQueues:
    """Of one core: until when the engines that stage operands are occupied, and the rooms of its staging memories."""

    queues: dict[str, float]
    rooms: dict[str, StagingTimes]

    @staticmethod
    def from_machine(machine: Machine) -> StagingQueues:
        """Those of a machine's core, idle."""
        rings = {
            name: StagingTimes(StagingRooms(machine.memory[name].capacity, machine.memory[name].alignment))
            for name in machine.staging_memories
        }
        return StagingQueues({name: 0.0 for name, _, _ in sorted(machine.staging_copies)}, rings)

    def copy(self) -> StagingQueues:
        """The same of another core that has done the same so far."""
        return StagingQueues(dict(self.queues), {name: ring.copy() for name, ring in self.rooms.items()})

    def take(self, queues: Mapping[str, Sequence[float]]) -> None:
        """Go on with the queues of all cores, of each engine that is given."""
        for name, time in self.queues.items():
            self.queues[name] = max(time, *queues.get(name, (0.0,)))

    def give(self, queues: Mapping[str, list[float]]) -> None:
        """Tell the queues of all cores until when engines stage operands, of each that is given."""
        for name, times in queues.items():
            if name in self.queues:
                times[:] = [max(self.queues[name], other) for other in times]

    def copy_by_room(self, move: CopyTime, engine: Engine, ready: float, free: float) -> float:
        """Make a copy by a staging memory, of which this engine makes the second half; when it is there.

        ``ready``: when its source is; ``free``: when its target is.
        """
        stopover = move.stopover
        assert stopover is not None
        cycles = engine.issue + move.payload / stopover.parts / engine.bytes_per_cycle
        first = self.copy_into_room(stopover, ready)
        begin = max(self.queues[engine.name], free)
        over = self.copy_from_rooms(stopover, ready, first, begin, cycles, engine.latency)
        self.queues[engine.name] = over
        return over + engine.latency

    def copy_into_room(self, stopover: Stopover, ready: float) -> float:
        """Copy a part to its room in the staging memory; when it is there."""
        opened = self.rooms[stopover.memory].open(stopover.bytes)
        over = self.queues[stopover.engine] = max(self.queues[stopover.engine], opened, ready) + stopover.cycles
        return over + stopover.latency

    def copy_from_rooms(
        self, stopover: Stopover, ready: float, first: float, begin: float, cycles: float, latency: int
    ) -> float:
        """Copy part after part from its room, and all but the first into theirs; when the last has left.

        ``first``: when the first is in its room. What makes the second half is free at ``begin``, takes so many
        ``cycles`` for a part, and is done with its room after ``latency``.
        """
        over = begin
        for part in range(stopover.parts):
            arrived = self.copy_into_room(stopover, ready) if part else first
            over = max(over, arrived) + cycles
            self.rooms[stopover.memory].use(over + latency)
        return over

    def run(
        self, parts: Sequence[StagedRun], free: float, ready: float, arrived: Mapping[Operand, float], target: float,
        latency: int, slower: float,
    ) -> StagedSpan:  # fmt: skip
        """Run instructions with their copies on an engine, ``free`` since then.

        ``ready``: when what it takes from where it lies is there; ``arrived``: when operands can be copied in, and
        ``target`` when they can be copied back. What the engine makes is visible after ``latency``; its work takes
        ``1 + slower`` times as long as alone.
        """
        last_copies: dict[Operand, tuple[float, str]] = {}
        begun: float | None = None
        state = max(free, ready)
        for part in parts:
            blocks = _BlockSequence(self, part, ready, arrived, target, latency, slower)
            start, state = blocks.follow(state, last_copies)
            begun = start if begun is None else begun
        return StagedSpan(state if begun is None else begun, state, last_copies)


class _BlockSequence:
    """The blocks of one run."""

    def __init__(
        self, queues: StagingQueues, part: StagedRun, ready: float, arrived: Mapping[Operand, float], target: float,
        latency: int, slower: float,
    ) -> None:  # fmt: skip
        self._queues = queues
        self._part = part
        self._ready = ready
        self._arrived = arrived
        self._target = target
        self._latency = latency
        self._busy = part.busy / part.blocks * (1.0 + slower)
        self._memories = tuple(dict.fromkeys(copy.memory for copy in part.copies))
        self._rooms = {name: (size, alignment) for name, size, alignment in part.rooms}

    def follow(self, free: float, last_copies: dict[Operand, tuple[float, str]]) -> tuple[float, float]:
        """Since when, and until when the engine works on all blocks, if it is free then."""
        blocks = self._part.blocks
        begun, free = self._next(0, free, last_copies)
        followed = min(blocks, FOLLOWED)
        before = free
        for number in range(1, followed):
            before = free if number == followed // 2 else before
            _, free = self._next(number, free, last_copies)
        if blocks > followed:
            # All of them take turns at the same pace.
            more = (free - before) * (blocks - followed) / (followed - followed // 2)
            free += more
            self._delay(more, last_copies)
        return begun, free

    def _next(self, number: int, free: float, last_copies: dict[Operand, tuple[float, str]]) -> tuple[float, float]:
        """Since when, and until when the engine works on a block."""
        queues, blocks = self._queues.queues, self._part.blocks
        copied = [c for c in self._part.copies if _copies(c, number, blocks)]
        begun = max(free, self._ready)
        for name in dict.fromkeys(copy.memory for copy in copied):
            opened = self._queues.rooms[name].open(*self._rooms[name])
            read = False
            for copy in copied:
                if copy.memory == name and not copy.back:
                    read = True
                    start = max(queues[copy.engine], opened, self._arrived.get(copy.operand, 0.0))
                    stop = queues[copy.engine] = start + copy.cycles / copy.times
                    last_copies[copy.operand] = stop + copy.latency, copy.engine
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
                    last_copies[copy.operand] = over, copy.engine
            self._queues.rooms[name].use(over)
        return begun, ended

    def _delay(self, cycles: float, last_copies: dict[Operand, tuple[float, str]]) -> None:
        """All that goes on with the blocks ends so much later."""
        for name in dict.fromkeys(copy.engine for copy in self._part.copies):
            self._queues.queues[name] += cycles
        for operand in dict.fromkeys(copy.operand for copy in self._part.copies):
            time, engine = last_copies[operand]
            last_copies[operand] = time + cycles, engine
        for name in self._memories:
            self._queues.rooms[name].delay(cycles)


def _copies(copy: StagedCopy, number: int, blocks: int) -> bool:
    """Whether a block copies an operand, or finds what the one before has staged."""
    return number == 0 or number * copy.times // blocks != (number - 1) * copy.times // blocks
