"""What each instruction must come after, by the bytes that it touches.

Instructions are emitted in an order that is right if they ran one after the other. An instruction depends on every
earlier one that it conflicts with: both touch a byte, and one of the two writes it. Accesses of one queue whose ranges
of bytes (from the first that they touch to the last) overlap keep their order, also where both read, so that of each
queue the last one that touches a byte stands for all. What a direct dependence of an instruction depends on directly is
not named again.

A buffer with many accesses keeps fewer records: those of neighbours in address become one, whose range covers theirs
and for which their last instruction stands. The accesses to that buffer so far then keep their order in each queue, so
that the last comes after the others; what conflicts with the range comes after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...ir.isa.table import Instruction
from .stamp import OperandFootprint, Relocatable


@dataclass(slots=True)
class _Record:
    """One earlier access: of the bytes ``low..high``, those that lie in each of some rows: ``patterns`` of (pitch,
    where the first row begins in a pitch, its width), counted from the begin of the buffer."""

    low: int
    high: int
    patterns: tuple[tuple[int, int, int], ...]
    write: bool
    queue: int
    task: int


@dataclass
class LiveBuffer:
    """A buffer during one lifetime; ``earlier`` are the accesses to its bytes in earlier lifetimes.

    ``ordered``: by queue, the task up to which those that touched it depend on one another, each on the one before it.
    """

    memory: int
    core: int
    address: int
    bytes: int
    earlier: list[_Record] = field(default_factory=list[_Record])
    records: list[_Record] = field(default_factory=list[_Record])
    ordered: dict[int, int] = field(default_factory=dict[int, int])
    end: int = field(init=False)

    def __post_init__(self) -> None:
        self.end = self.address + self.bytes


@dataclass(frozen=True)
class Task:
    """An instruction without its place in its queue; ``after``: the tasks, by number, that must have retired.

    ``pattern``: what it was stamped from; equal ones take equally long. ``None`` for a kernel. ``slot``: of the plan.
    """

    queue: int
    instruction: Instruction
    after: tuple[int, ...]
    pattern: Relocatable | None
    slot: int


_CROWDED = 96
"""Records of an area beyond which neighbours of one queue and kind are merged."""


def _meet(a: _Record, b: _Record) -> bool:
    if a.low >= b.high or b.low >= a.high:
        return False
    return all(
        column < other + other_width and other < column + width
        for pitch, column, width in a.patterns
        for other_pitch, other, other_width in b.patterns
        if pitch == other_pitch
    )


class Dependences:
    """The tasks of a program under construction, in the order in which they are emitted."""

    def __init__(self, queues: int) -> None:
        self.tasks: list[Task] = []
        self.slot = 0
        """Of the plan: that of the tasks that come."""
        self._areas: dict[tuple[int, int], list[LiveBuffer]] = {}
        self._last: dict[int, int] = {}
        self._barrier: list[tuple[int, ...]] = [()] * queues

    def area(self, memory: int, core: int, address: int, size: int) -> LiveBuffer:
        """A new lifetime of these bytes; who uses some of them comes after what used these before."""
        lifetimes = self._areas.setdefault((memory, core), [])
        new = LiveBuffer(memory, core, address, size)
        end = address + size
        met = [old for old in lifetimes if old.address < end and address < old.end]
        new.earlier = _latest([r for old in met for r in (*old.earlier, *old.records)], address, end)
        gone = {id(old) for old in met if address <= old.address and old.end <= end}
        if gone:
            lifetimes[:] = [old for old in lifetimes if id(old) not in gone]
        lifetimes.append(new)
        return new

    def barrier(self) -> None:
        """Whatever comes next, in any queue, comes after everything so far."""
        self._barrier = [tuple(t for q, t in self._last.items() if q != queue) for queue in range(len(self._barrier))]

    def emit(
        self,
        queue: int,
        instruction: Instruction,
        pattern: Relocatable,
        bases: Sequence[int],
        areas: Sequence[Sequence[LiveBuffer]],
    ) -> None:
        """Add an instruction; for each operand of its pattern, in order: its base, and the buffers that it is in."""
        touched: list[tuple[LiveBuffer, _Record]] = []
        for covered, base, buffers in zip(pattern.footprints, bases, areas, strict=True):
            if not covered.empty:
                touched += [(area, self._record(queue, covered, base, area)) for area in buffers]
        self._append(queue, instruction, pattern, touched)

    def call(
        self, queue: int, instruction: Instruction, reads: Sequence[LiveBuffer], writes: Sequence[LiveBuffer]
    ) -> None:
        """Add an instruction that reads and writes whole areas."""
        touched = [
            (area, _Record(area.address, area.end, (), write, queue, len(self.tasks)))
            for write, areas in ((False, reads), (True, writes))
            for area in areas
        ]
        self._append(queue, instruction, None, touched)

    def _record(self, queue: int, covered: OperandFootprint, base: int, area: LiveBuffer) -> _Record:
        low, high = base + covered.low, base + covered.high
        begin = low - area.address
        patterns = tuple(
            [(pitch, begin % pitch, width) for pitch, width in covered.patterns if begin % pitch + width <= pitch]
        )
        return _Record(low, high, patterns, covered.writes, queue, len(self.tasks))

    def _append(
        self, queue: int, instruction: Instruction, pattern: Relocatable | None,
        touched: list[tuple[LiveBuffer, _Record]],
    ) -> None:  # fmt: skip
        after = set(self._barrier[queue])
        for area, record in touched:
            after |= _conflicts(area, record)
        # What one of them comes after need not be named again.
        after.difference_update(*[self.tasks[task].after for task in after])
        number = len(self.tasks)
        self.tasks.append(Task(queue, instruction, tuple(sorted(after)), pattern, self.slot))
        self._last[queue] = number
        self._barrier[queue] = ()
        for area, record in touched:
            if record.write and not record.patterns:
                # What comes after this comes after these too.
                area.records = [r for r in area.records if not (record.low <= r.low and r.high <= record.high)]
                if area.earlier:
                    area.earlier = [r for r in area.earlier if not (record.low <= r.low and r.high <= record.high)]
            area.records.append(record)
            if len(area.records) > _CROWDED:
                self._order(area)
                area.records = _merged(area.records)

    def _order(self, area: LiveBuffer) -> None:
        """Make the accesses to an area keep their order in each queue."""
        queues: dict[int, set[int]] = {}
        for record in area.records:
            queues.setdefault(record.queue, set()).add(record.task)
        for queue, tasks in queues.items():
            if queue not in area.ordered:
                # Merged records cover bytes between theirs too, where they stand for accesses of earlier lifetimes.
                tasks.update(old.task for old in area.earlier if old.queue == queue)
            last = area.ordered.get(queue, -1)
            for number in sorted(tasks):
                if number > last:
                    task = self.tasks[number]
                    if last >= 0 and last not in task.after:
                        self.tasks[number] = replace(task, after=tuple(sorted((*task.after, last))))
                    last = number
            area.ordered[queue] = last


def _conflicts(area: LiveBuffer, record: _Record) -> set[int]:
    """What an access to an area conflicts with, and what of its own queue touched the same bytes."""
    low, high, queue = record.low, record.high, record.queue
    near = [old for old in area.records if old.low < high and low < old.high]
    tasks = {old.task for old in near if old.queue == queue or ((old.write or record.write) and _meet(old, record))}
    tasks.update([old.task for old in area.earlier if old.low < high and low < old.high])
    return tasks


def _latest(records: Sequence[_Record], low: int, high: int) -> list[_Record]:
    """For each queue, the last access to each byte of ``low..high``, as disjoint records."""
    by_queue: dict[int, dict[tuple[int, int], int]] = {}
    for record in records:
        begin, end = record.low, record.high
        if begin < high and low < end:
            last = by_queue.setdefault(record.queue, {})
            touched = begin if begin > low else low, end if end < high else high
            if last.get(touched, -1) < record.task:
                last[touched] = record.task
    latest: list[_Record] = []
    for queue, last in by_queue.items():
        covered: list[tuple[int, int]] = []
        for (begin, end), task in sorted(last.items(), key=lambda item: -item[1]):
            gaps, covered = _cover(covered, begin, end)
            latest += [_Record(start, stop, (), True, queue, task) for start, stop in gaps]
            if covered == [(low, high)]:
                break
    return latest


def _cover(covered: list[tuple[int, int]], low: int, high: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """What of ``low..high`` lies in none of the disjoint ranges, which are in order; and the ranges with it."""
    gaps: list[tuple[int, int]] = []
    before = [r for r in covered if r[1] < low]
    behind = [r for r in covered if r[0] > high]
    at, start, stop = low, low, high
    for begin, end in covered[len(before) : len(covered) - len(behind)]:
        if at < begin:
            gaps.append((at, begin))
        at, start, stop = max(at, end), min(start, begin), max(stop, end)
    if at < high:
        gaps.append((at, high))
    return gaps, [*before, (start, stop), *behind]


def _merged(records: list[_Record]) -> list[_Record]:
    """Close neighbours become one, until half of ``_CROWDED`` are left, or one of each queue and kind of access."""
    groups: dict[tuple[int, bool], list[_Record]] = {}
    for r in sorted(records, key=lambda r: (r.low, r.high)):
        groups.setdefault((r.queue, r.write), []).append(r)
    reach, whole = (
        max(1, min(r.high - r.low for r in records)),
        max(r.high for r in records) - min(r.low for r in records),
    )
    while reach < whole:
        reach = min(2 * reach, whole)
        merged = [r for group in groups.values() for r in _within(reach, group)]
        if 2 * len(merged) <= _CROWDED:
            return merged
    return [r for group in groups.values() for r in _within(whole, group)]


def _within(reach: int, group: list[_Record]) -> list[_Record]:
    """The records of one queue and kind, in order of address; those that fit in so many bytes together become one."""
    merged: list[_Record] = []
    for r in group:
        last = merged[-1] if merged else r
        high = max(last.high, r.high)
        if merged and high - last.low <= reach:
            merged[-1] = _Record(last.low, high, (), r.write, r.queue, max(last.task, r.task))
        else:
            merged.append(r)
    return merged
