"""Every memory of a cluster, each core's own ones included, and their banks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.machine import Machine

Place = tuple[int, int]
"""A memory (index in the machine's) and the core that it belongs to (-1: the cluster)."""


def places(machine: Machine) -> Iterator[Place]:
    """Every memory of one cluster."""
    for number, memory in enumerate(machine.memories):
        for core in range(machine.cores) if memory.scope == "core" else (-1,):
            yield number, core


@dataclass(frozen=True)
class Banks:
    """All banks, numbered: ``first`` bank of each place, and for each bank its bytes a cycle."""

    machine: Machine
    first: dict[Place, int]
    capacity: tuple[float, ...]

    @classmethod
    def of(cls, machine: Machine) -> Banks:
        first: dict[Place, int] = {}
        capacity: list[float] = []
        for place in places(machine):
            kind = machine.memories[place[0]]
            first[place] = len(capacity)
            capacity += [float(kind.bytes_per_cycle)] * kind.banks
        return cls(machine, first, tuple(capacity))

    def covered(self, place: Place, low: int, high: int) -> tuple[int, ...]:
        """The banks that hold a byte of ``low <= address < high``."""
        memory, first = self.machine.memories[place[0]], self.first[place]
        if memory.banks == 1:
            return (first,)
        size = memory.interleave or memory.capacity // memory.banks
        blocks = range(low // size, (high - 1) // size + 1)
        if len(blocks) >= memory.banks:
            return tuple(range(first, first + memory.banks))
        return tuple(sorted(first + block % memory.banks for block in blocks))
