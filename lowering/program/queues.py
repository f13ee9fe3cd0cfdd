"""Instruction queues, and the fewest waits that keep them in the order that the data needs.

Instructions are given in program order; each goes to the end of its queue. Queues run in order and side by side, so a
later instruction of another queue must wait for every earlier one that it conflicts with (one of the two writes). A
queue remembers what it already knows to be retired, directly or through the queues it waited for, and waits for
nothing twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...ir.isa.table import Instruction
from .stamp import OperandFootprint


@dataclass
class _Record:
    """One earlier access: bytes ``low..high``, in rows of ``width`` bytes every ``pitch`` (0: no such pattern)."""

    low: int
    high: int
    pitch: int
    column: int
    width: int
    write: bool
    queue: int
    index: int


@dataclass
class LiveBuffer:
    """A buffer during one lifetime; ``floor`` are the instructions that used its bytes in earlier lifetimes."""

    memory: int
    core: int
    address: int
    bytes: int
    floor: dict[int, int] = field(default_factory=dict[int, int])
    records: list[_Record] = field(default_factory=list[_Record])
    end: int = field(init=False)

    def __post_init__(self) -> None:
        self.end = self.address + self.bytes


_CROWDED = 96
"""Records of an area beyond which those of one queue and kind are merged."""


def _meet(a: _Record, b: _Record) -> bool:
    if a.low >= b.high or b.low >= a.high:
        return False
    if a.pitch and a.pitch == b.pitch:
        return a.column < b.column + b.width and b.column < a.column + a.width
    return True


class Streams:
    """The queues of a program under construction."""

    def __init__(self, queues: int) -> None:
        self.streams: list[list[Instruction]] = [[] for _ in range(queues)]
        self._known = [[0] * queues for _ in range(queues)]
        self._history: list[tuple[list[int], list[list[int]]]] = [([], []) for _ in range(queues)]
        self._areas: dict[tuple[int, int], list[LiveBuffer]] = {}
        self._barrier: list[dict[int, int]] = [{} for _ in range(queues)]

    def area(self, memory: int, core: int, address: int, size: int) -> LiveBuffer:
        """A new lifetime of these bytes; what used them before must retire before the first use."""
        lifetimes = self._areas.setdefault((memory, core), [])
        new = LiveBuffer(memory, core, address, size)
        end = address + size
        met = [old for old in lifetimes if old.address < end and address < old.end]
        for old in met:
            for queue, index in old.floor.items():
                new.floor[queue] = max(new.floor.get(queue, -1), index)
            for record in old.records:
                new.floor[record.queue] = max(new.floor.get(record.queue, -1), record.index)
        gone = {id(old) for old in met if address <= old.address and old.end <= end}
        if gone:
            lifetimes[:] = [old for old in lifetimes if id(old) not in gone]
        lifetimes.append(new)
        return new

    def barrier(self) -> None:
        """Whatever comes next, in any queue, waits for everything so far."""
        last = {q: len(s) - 1 for q, s in enumerate(self.streams) if s}
        for queue in range(len(self.streams)):
            self._barrier[queue] = {q: i for q, i in last.items() if q != queue}

    def emit(
        self,
        queue: int,
        instruction: Instruction,
        footprints: Sequence[OperandFootprint],
        bases: Sequence[int],
        areas: Sequence[Sequence[LiveBuffer]],
    ) -> None:
        """Append to a queue; for each operand, in order: what it covers, its base, and the buffers that it is in."""
        needs: dict[int, int] = dict(self._barrier[queue])
        self._barrier[queue] = {}
        touched: list[tuple[LiveBuffer, _Record]] = []
        for covered, base, buffers in zip(footprints, bases, areas, strict=True):
            if covered.empty:
                continue
            low, high = base + covered.low, base + covered.high
            for area in buffers:
                pitch, column, width = covered.pitch, 0, covered.width
                if pitch:
                    column = (low - area.address) % pitch
                    if column + width > pitch:
                        pitch = column = width = 0
                record = _Record(low, high, pitch, column, width, covered.writes, queue, 0)
                self._conflicts(area, record, needs)
                touched.append((area, record))
        self._append(queue, instruction, needs, touched)

    def call(
        self, queue: int, instruction: Instruction, reads: Sequence[LiveBuffer], writes: Sequence[LiveBuffer]
    ) -> None:
        """Append an instruction that reads and writes whole areas."""
        needs: dict[int, int] = dict(self._barrier[queue])
        self._barrier[queue] = {}
        touched: list[tuple[LiveBuffer, _Record]] = []
        for area, write in [*((a, False) for a in reads), *((a, True) for a in writes)]:
            record = _Record(area.address, area.address + area.bytes, 0, 0, 0, write, queue, 0)
            self._conflicts(area, record, needs)
            touched.append((area, record))
        self._append(queue, instruction, needs, touched)

    def _conflicts(self, area: LiveBuffer, record: _Record, needs: dict[int, int]) -> None:
        for queue, index in area.floor.items():
            if queue != record.queue and index > needs.get(queue, -1):
                needs[queue] = index
        for old in area.records:
            if (
                old.queue != record.queue
                and (old.write or record.write)
                and old.index > needs.get(old.queue, -1)
                and _meet(old, record)
            ):
                needs[old.queue] = old.index

    def _append(
        self, queue: int, instruction: Instruction, needs: dict[int, int], touched: list[tuple[LiveBuffer, _Record]]
    ) -> None:
        self._wait(queue, needs, instruction.op)
        stream = self.streams[queue]
        index = len(stream)
        stream.append(instruction)
        for area, record in touched:
            record.index = index
            if record.write and not record.pitch:
                area.records = [r for r in area.records if not (record.low <= r.low and r.high <= record.high)]
            area.records.append(record)
            if len(area.records) > _CROWDED:
                area.records = _merged(area.records)

    def _wait(self, queue: int, needs: dict[int, int], op: int) -> None:
        known = self._known[queue]
        open_needs = {q: i + 1 for q, i in needs.items() if known[q] < i + 1}
        if not open_needs:
            return
        if len(open_needs) == 1:
            ((q, count),) = open_needs.items()
            self.streams[queue].append(Instruction("wait", op, (q, count)))
            known[:] = map(max, known, self._clock(q, count - 1))
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
            known[:] = map(max, known, clocks[q])
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
        clocks.append(list(self._known[queue]))

    def _clock(self, queue: int, index: int) -> list[int]:
        """What is retired once instruction ``index`` of ``queue`` is."""
        positions, clocks = self._history[queue]
        at = bisect_right(positions, index) - 1
        clock = list(clocks[at]) if at >= 0 else [0] * len(self.streams)
        clock[queue] = index + 1
        return clock


def _merged(records: list[_Record]) -> list[_Record]:
    """One record for each queue and kind of access: bounds that cover all of them, and the last index."""
    merged: dict[tuple[int, bool], _Record] = {}
    for r in records:
        old = merged.get((r.queue, r.write))
        if old is None:
            merged[(r.queue, r.write)] = _Record(r.low, r.high, 0, 0, 0, r.write, r.queue, r.index)
        else:
            old.low, old.high, old.index = min(old.low, r.low), max(old.high, r.high), max(old.index, r.index)
    return list(merged.values())
