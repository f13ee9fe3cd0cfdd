"""Room for the private buffers of an operator in the accumulator memory, by lifetime.

What the matrix engine reads or writes is held ``depth`` times, each buffer at an address of its own: while one engine
is with a tile, the other works on the next. All other buffers belong to the vector engine alone, which runs its
instructions in order: one version is enough, and two of them share an address if the last stage that touches the one
comes before the first stage that touches the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

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
    Sizes are those of whole buffers: for a tile whose buffers are in other proportions see :func:`tile_rooms`.
    """
    life = _lifetimes(op)
    by_matrix = _by_matrix(op, engine)
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


def tile_rooms(op: Op, engine: str, largest: Mapping[str, int], alignment: int) -> ScratchRooms:
    """The rooms for tiles whose buffers have these bytes: those of :func:`scratch_rooms`, or others that take less.

    The others are assigned from the largest buffer to the smallest, each to the first room that is free. Neither is
    always the best there is: more than :func:`scratch_lower_bound` proves nothing.
    """
    usual = scratch_rooms(op, engine)
    need = usual.bytes(largest, alignment).total(1)
    if need <= scratch_lower_bound(op, engine, largest, alignment):
        return usual
    life = _lifetimes(op)
    groups: list[list[str]] = []
    alone = [name for name in largest if name in life and name not in usual.versioned]
    for name in sorted(alone, key=lambda n: (-largest[n], life[n], n)):
        first, end = life[name]
        free = (g for g in groups if all(life[n][1] < first or end < life[n][0] for n in g))
        room = next(free, None)
        if room is None:
            groups.append([name])
        else:
            room.append(name)
    by_size = ScratchRooms(usual.versioned, tuple(map(tuple, groups)))
    return by_size if by_size.bytes(largest, alignment).total(1) < need else usual


def equal_rooms(op: Op, engine: str, bytes_of: Mapping[str, int]) -> list[list[str]]:
    """The buffers of rooms of which only the sizes are known: equally large ones that are used in turn share one.

    Among equally large ones, first fit needs no more rooms than any other assignment.
    """
    life = _lifetimes(op)
    by_matrix = _by_matrix(op, engine)
    groups: list[list[str]] = []
    for name in sorted(bytes_of, key=lambda n: life[n]):
        free = (
            g
            for g in groups
            if g[0] not in by_matrix and bytes_of[g[0]] == bytes_of[name] and life[g[-1]][1] < life[name][0]
        )
        room = None if name in by_matrix else next(free, None)
        if room is None:
            groups.append([name])
        else:
            room.append(name)
    return groups


def scratch_lower_bound(op: Op, engine: str, largest: Mapping[str, int], alignment: int) -> int:
    """Bytes that one version takes at least, however rooms are shared: ``largest`` has the bytes of the buffers in use.

    What the matrix engine touches has a room of its own, and all others that are live at one stage have different ones.
    """
    size = {name: -(-size // alignment) * alignment for name, size in largest.items()}
    by_matrix = _by_matrix(op, engine)
    change = [0] * (len(op.stages) + 1)
    for name, (first, end) in _lifetimes(op).items():
        if name not in by_matrix:
            change[first] += size.get(name, 0)
            change[end + 1] -= size.get(name, 0)
    return sum(size.get(name, 0) for name in by_matrix) + max(accumulate(change))


def _lifetimes(op: Op) -> dict[str, tuple[int, int]]:
    """The first and the last stage that touches each tensor."""
    life: dict[str, tuple[int, int]] = {}
    for position, stage in enumerate(op.stages):
        for access in (stage.write, *stage.reads):
            life[access.tensor] = life.get(access.tensor, (position, position))[0], position
    return life


def _by_matrix(op: Op, engine: str) -> set[str]:
    """What the matrix engine reads or writes."""
    if engine != "matrix" or op.contraction is None:
        return set()
    contraction = op.stages[op.contraction]
    return {access.tensor for access in (contraction.write, *contraction.reads)}
