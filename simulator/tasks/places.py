"""Every memory of a cluster, each core's own ones included, and their banks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...ir.isa.footprint import Strided
from ...ir.machine import Machine

Shares = tuple[tuple[int, float], ...]
"""Numbers of banks, each with a part of a whole."""

Place = tuple[int, int]
"""A memory (index in the machine's) and the core that it belongs to (-1: the cluster)."""


def places(machine: Machine) -> Iterator[Place]:
    """Every memory of one cluster: those of all cores first, then core by core."""
    for core in range(-1, machine.cores):
        for number, memory in enumerate(machine.memories):
            if (memory.scope == "core") == (core >= 0):
                yield number, core


@dataclass(frozen=True)
class Banks:
    """All banks, numbered: ``first`` bank of each place, and for each bank its bytes a cycle.

    The banks of a core have the same order as those of any other, ``shared`` banks come before the first core's.
    """

    machine: Machine
    first: dict[Place, int]
    capacity: tuple[float, ...]
    shared: int

    @classmethod
    def of_machine(cls, machine: Machine) -> Banks:
        first: dict[Place, int] = {}
        capacity: list[float] = []
        shared = 0
        for place in places(machine):
            kind = machine.memories[place[0]]
            first[place] = len(capacity)
            capacity += [float(kind.bytes_per_cycle)] * kind.banks
            if place[1] < 0:
                shared = len(capacity)
        return cls(machine, first, tuple(capacity), shared)

    def moved(self, demand: Shares, cores: int) -> Shares:
        """The same demand on the banks of the core that is ``cores`` further on."""
        step = cores * (len(self.capacity) - self.shared) // self.machine.cores
        return tuple((bank + step if bank >= self.shared else bank, part) for bank, part in demand)

    def shares(self, place: Place, at: Strided, base: int) -> Shares:
        """The banks that hold the bytes of an operand, which is not empty, each with its part of them."""
        memory, first = self.machine.memories[place[0]], self.first[place]
        size = memory.interleave or memory.capacity // memory.banks
        low, high = base + at.low, base + at.high
        block = low // size
        if memory.banks == 1 or (high - 1) // size == block:
            return ((first + block % memory.banks, 1.0),)
        parts = _parts(at.itemsize, at.extents, at.strides, low - block * size, size, memory.banks)
        return tuple(sorted((first + (block + bank) % memory.banks, part) for bank, part in parts))


@lru_cache(maxsize=1 << 16)
def _parts(
    itemsize: int, extents: tuple[int, ...], strides: tuple[int, ...], offset: int, size: int, banks: int
) -> Shares:
    """The parts of a strided array in banks that take turns every ``size`` bytes; it begins ``offset`` bytes into 0."""
    run, starts = itemsize, np.full(1, offset, np.int64)
    for stride, extent in sorted((abs(s), e) for s, e in zip(strides, extents, strict=True) if e > 1 and s):
        if stride == run and len(starts) == 1:
            run *= extent
        else:
            starts = (starts[:, None] + np.arange(extent) * stride).reshape(-1)
    # Whole turns meet every bank alike; what is left of a run ends in the same turn or in the next one.
    turn = size * banks
    whole, rest = divmod(run, turn)
    starts %= turn
    ends = starts + rest
    begins = np.arange(2 * banks)[:, None] * size
    held = np.clip(np.minimum(ends, begins + size) - np.maximum(starts, begins), 0, None).sum(1)
    totals = (held.reshape(2, banks).sum(0) + len(starts) * whole * size).tolist()
    return tuple((bank, total / (len(starts) * run)) for bank, total in enumerate(totals) if total)


def home_numbers(machine: Machine) -> tuple[int, int]:
    """The memories, by their numbers, that tensors are placed in before a run: those that change, and constants."""
    numbers = [machine.memories.index(level.memory) for level in (machine.levels.home, machine.levels.constants)]
    return numbers[0], numbers[1]
