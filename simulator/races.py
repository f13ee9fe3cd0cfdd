"""Data races: two accesses to a byte, one of them a write, that neither queue order nor waits put in an order.

The check does not depend on timing. A clock vector tells for each instruction how many instructions of every queue
are certain to have retired before it begins: those that its queue waited for, and what those had waited for.

    MTI:  0 copy ──────────┐               wait(MTI, 1) gives queue VME the vector {MTI: 1};
    VME:  0 wait(MTI, 1) ──┴─ 1 add        its add may read what instruction 0 of MTI wrote, and no more.

For each queue and memory there is an array with the last instruction that wrote each granule, and one with the last
that read it; an access is a race if it finds one later than its vector allows. Instructions of one queue are in order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

import numpy as np

from ..ir.isa.footprint import Strided
from ..ir.machine import Machine
from ..ir.program import Placed, Program
from .execution.memory import dense
from .tasks.places import Place, home_numbers
from .tasks.tasks import Prepared, operand_cores
from .tasks.violations import Violations


@dataclass(frozen=True)
class _Blocks:
    """A strided array as contiguous blocks of ``run`` bytes, at ``start`` plus multiples of the positive strides."""

    start: int
    run: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def granule(self) -> int:
        """The number of bytes that divides the size and all distances of the blocks."""
        return gcd(self.run, *self.strides)


@lru_cache(maxsize=1 << 16)
def _blocks(at: Strided) -> _Blocks:
    """Negative strides are turned round, and dimensions without a gap between their elements are merged."""
    dims = sorted((abs(s), e) for e, s in zip(at.extents, at.strides, strict=True) if e > 1 and s)
    run = at.itemsize
    while dims and dims[0][0] <= run:
        stride, extent = dims.pop(0)
        run += stride * (extent - 1)
    return _Blocks(at.low, run, tuple(e for _, e in dims), tuple(s for s, _ in dims))


@dataclass(frozen=True)
class _Access:
    place: Place
    operand: Strided
    base: int


@dataclass(frozen=True)
class _Met:
    """An earlier instruction, and the first byte where another one meets it."""

    queue: int
    index: int
    address: int


class _Shadow:
    """The last access of each queue to each granule of one place, as instruction numbers from 1; 0 is none."""

    def __init__(self, size: int, granule: int) -> None:
        self._granule = granule
        self._count = -(-size // granule)
        self._last: dict[int, np.ndarray] = {}
        self.latest: dict[int, int] = {}
        """Of each queue, its latest access to the whole place."""

    def view(self, queue: int, access: _Access) -> np.ndarray:
        if queue not in self._last:
            self._last[queue] = np.zeros(self._count, np.int32)
        blocks, g = _blocks(access.operand), self._granule
        return np.ndarray(
            (*blocks.extents, blocks.run // g),
            np.int32,
            self._last[queue],
            (access.base + blocks.start) // g * 4,
            (*(s // g * 4 for s in blocks.strides), 4),
        )

    def mark(self, queue: int, access: _Access, number: int) -> None:
        self.view(queue, access)[...] = number
        self.latest[queue] = number

    def conflict(self, queue: int, access: _Access, vector: Sequence[int]) -> _Met | None:
        """An access by another queue that ``vector`` does not cover."""
        for earlier, latest in self.latest.items():
            if earlier != queue and latest > vector[earlier]:
                numbers = self.view(earlier, access)
                if int(numbers.max()) > vector[earlier]:
                    place = np.unravel_index(int(np.argmax(numbers > vector[earlier])), numbers.shape)
                    blocks = _blocks(access.operand)
                    steps = (*blocks.strides, self._granule)
                    address = access.base + blocks.start + sum(int(i) * s for i, s in zip(place, steps, strict=True))
                    return _Met(earlier, int(numbers[place]) - 1, address)
        return None


def _contended(accesses: Sequence[Sequence[_Access]]) -> list[list[_Access]]:
    """Without the reads of what nothing writes: constants, above all."""
    hull: dict[Place, tuple[int, int]] = {}
    for access in (access for touched in accesses for access in touched if access.operand.writes):
        low, high = hull.get(access.place, (access.base + access.operand.low, 0))
        hull[access.place] = min(low, access.base + access.operand.low), max(high, access.base + access.operand.high)

    def matters(access: _Access) -> bool:
        low, high = hull.get(access.place, (0, 0))
        return access.base + access.operand.low < high and low < access.base + access.operand.high

    return [[access for access in touched if matters(access)] for touched in accesses]


class Races:
    """Finds races among the instructions that ran."""

    def __init__(self, program: Program, machine: Machine, prepared: Prepared, violations: Violations) -> None:
        self._program = program
        self._machine = machine
        self._prepared = prepared
        self._violations = violations
        self._home_numbers = home_numbers(machine)
        self._next = [0] * len(program.queues)
        # Of each queue: the instructions at which its vector changed, and the vectors from there on.
        self._changes: list[list[int]] = [[0] for _ in program.queues]
        self._vectors: list[list[list[int]]] = [[[0] * len(program.queues)] for _ in program.queues]

    def check(self, order: Sequence[tuple[int, int]]) -> None:
        """Report every instruction (queue, index) that races with an earlier one; ``order`` respects all waits."""
        accesses = _contended([list(self._accesses(queue, index)) for queue, index in order])
        written, read = self._shadows(accesses)
        for (queue, index), touched in zip(order, accesses, strict=True):
            self._catch_up(queue, index)
            vector = self._vectors[queue][-1]
            for access in touched:
                writes, reads = written[access.place], read[access.place]
                met, wrote = writes.conflict(queue, access, vector), True
                if met is None and access.operand.writes:
                    met, wrote = reads.conflict(queue, access, vector), False
                if met is not None:
                    self._report(queue, index, access, met, wrote)
            for access in touched:
                shadow = written if access.operand.writes else read
                shadow[access.place].mark(queue, access, index + 1)

    def _catch_up(self, queue: int, stop: int) -> None:
        """Take in the waits of ``queue`` before instruction ``stop``."""
        tasks = self._prepared.tasks[queue]
        while self._next[queue] < stop:
            index = self._next[queue]
            self._next[queue] += 1
            task = tasks[index]
            vector = self._vectors[queue][-1]
            for awaited, count in task.waits or ():
                if count == 0 or vector[awaited] >= count:
                    continue
                self._catch_up(awaited, count)
                known = self._vectors[awaited][bisect_right(self._changes[awaited], count) - 1]
                vector = [max(a, b) for a, b in zip(vector, known, strict=True)]
                vector[awaited] = max(vector[awaited], count)
            if vector is not self._vectors[queue][-1]:
                self._changes[queue].append(index + 1)
                self._vectors[queue].append(vector)

    def _accesses(self, queue: int, index: int) -> Iterator[_Access]:
        """Everything that one instruction touches."""
        if (queue, index) in self._prepared.broken:
            return
        instruction = self._program.streams[queue][index]
        template = self._prepared.templates[queue][index]
        if template.row.latency == "kernel":
            kernel = self._program.kernels[int(instruction.values[0])]
            yield from (self._dense(placed, False) for placed in kernel.inputs)
            yield from (self._dense(placed, True) for placed in kernel.outputs)
        for operand, at in zip(template.operands, template.bases, strict=True):
            if operand.low < operand.high:
                for core in operand_cores(self._machine, self._program.queues[queue], instruction, operand):
                    yield _Access((operand.memory, core), operand, int(instruction.values[at]))

    def _dense(self, placed: Placed, writes: bool) -> _Access:
        number = self._home_numbers[1 if placed.sha256 else 0]
        return _Access((number, -1), dense(placed, number, writes=writes), 0)

    def _shadows(self, accesses: Sequence[Sequence[_Access]]) -> tuple[dict[Place, _Shadow], dict[Place, _Shadow]]:
        """Empty shadows for writes and reads, as coarse as the accesses to each place allow."""
        granule: dict[Place, int] = {}
        size: dict[Place, int] = {}
        for access in (access for touched in accesses for access in touched):
            blocks, place = _blocks(access.operand), access.place
            granule[place] = gcd(granule.get(place, 0), blocks.granule, access.base + blocks.start)
            size[place] = max(size.get(place, 0), access.base + access.operand.high)
        written, read = ({place: _Shadow(size[place], g) for place, g in granule.items()} for _ in range(2))
        return written, read

    def _report(self, queue: int, index: int, access: _Access, met: _Met, wrote: bool) -> None:
        """``wrote``: the earlier one wrote the byte; else it read it."""
        verb, did = "writes" if access.operand.writes else "reads", "wrote" if wrote else "read"
        core = "" if access.place[1] < 0 else f" of core {access.place[1]}"
        where = f"{self._machine.memories[access.place[0]].name}{core} at {met.address:#x}"
        whom = f"queue {met.queue} ({self._program.queues[met.queue]})"
        message = f"{verb} {where}, which {whom} {did}, and nothing orders the two"
        begin = next(
            a.base + a.operand.low
            for a in self._accesses(met.queue, met.index)
            if (a.place, a.operand.writes) == (access.place, wrote)
            and a.base + a.operand.low <= met.address < a.base + a.operand.high
        )
        self._violations.add("race", queue, index, met.address, message, (met.queue, met.index, begin))
