"""Room for the private buffers of an operator in the accumulator memory, by lifetime.

What the matrix engine reads or writes is held ``depth`` times, each buffer at an address of its own: while one engine
is with a tile, the other works on the next. All other buffers belong to the vector engine alone, which runs its
instructions in order: one version is enough, and two of them share an address if the last stage that touches the one
comes before the first stage that touches the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir.graph import Op


@dataclass(frozen=True)
class ScratchBytes:
    """What a tile takes of the accumulator memory: ``versioned`` bytes for each version, and ``single`` once."""

    versioned: int = 0
    single: int = 0

    def total(self, depth: int) -> int:
        """With ``depth`` versions."""
        return depth * self.versioned + self.single


@dataclass(frozen=True)
class ScratchRooms:
    """The names of an operator's private buffers: ``versioned`` ones, and groups that share one room each."""

    versioned: tuple[str, ...]
    shared: tuple[tuple[str, ...], ...]

    def sizes(self, largest: Mapping[str, int], alignment: int) -> dict[str, int]:
        """Bytes of the room of each buffer in one version; ``largest`` has the bytes of the buffers in use."""
        groups = (*((name,) for name in self.versioned), *self.shared)
        rooms = {group: max(largest.get(name, 0) for name in group) for group in groups}
        return {
            name: -(-size // alignment) * alignment
            for group, size in rooms.items()
            for name in group
            if largest.get(name)
        }

    def bytes(self, largest: Mapping[str, int], alignment: int) -> ScratchBytes:
        """What all rooms take."""
        rooms = self.sizes(largest, alignment)
        return ScratchBytes(
            sum(rooms.get(name, 0) for name in self.versioned),
            sum(max(rooms.get(name, 0) for name in group) for group in self.shared),
        )


def scratch_rooms(op: Op, engine: str) -> ScratchRooms:
    """The rooms of ``op`` where ``engine`` ("matrix" or "vector") runs its contraction.

    Buffers are assigned in the order of their first stage, each to the free room that grows the least, and among those
    to the one that it fills best: first fit for intervals, which needs no more rooms than buffers live at one time.
    """
    life: dict[str, tuple[int, int]] = {}
    for position, stage in enumerate(op.stages):
        for access in (stage.write, *stage.reads):
            life[access.tensor] = life.get(access.tensor, (position, position))[0], position
    by_matrix: set[str] = set()
    if engine == "matrix" and op.contraction is not None:
        anchor = op.stages[op.contraction]
        by_matrix = {access.tensor for access in (anchor.write, *anchor.reads)}
    groups: list[list[str]] = []
    last: list[int] = []
    room: list[int] = []
    alone = [b for b in op.buffers if b.name in life and b.name not in by_matrix]
    for buffer in sorted(alone, key=lambda b: life[b.name]):
        first, end = life[buffer.name]
        free = [i for i in range(len(groups)) if last[i] < first]
        if free:
            size = buffer.bytes
            best = min(free, key=lambda i: (max(0, size - room[i]), abs(room[i] - size), i))
            groups[best].append(buffer.name)
            last[best], room[best] = end, max(room[best], size)
        else:
            groups.append([buffer.name])
            last.append(end)
            room.append(buffer.bytes)
    return ScratchRooms(tuple(b.name for b in op.buffers if b.name in by_matrix), tuple(map(tuple, groups)))
