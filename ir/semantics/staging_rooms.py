"""Where in a staging memory what is staged next has its room.

Each block of an instruction that stages anything gets a new room, behind the one before: the more rooms there are at
one time, the further can copies run ahead of the instructions that they are for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Place:
    """Of a new room: its address and number, and the numbers of the rooms that it takes bytes of."""

    address: int
    number: int
    taken: tuple[int, ...]


@dataclass(frozen=True)
class _Room:
    """Bytes ``low .. high`` that the room ``number`` still has."""

    low: int
    high: int
    number: int


class StagingRooms:
    """The rooms of one memory of ``capacity`` bytes, numbered from 0 as they are opened; each begins at a multiple of
    ``alignment``."""

    def __init__(self, capacity: int, alignment: int) -> None:
        self._capacity = capacity
        self._alignment = alignment
        self._rooms: list[_Room] = []
        self._next = 0
        self._count = 0

    def copy(self) -> StagingRooms:
        """The same rooms, opened so far."""
        other = StagingRooms(self._capacity, self._alignment)
        other._rooms, other._next, other._count = list(self._rooms), self._next, self._count
        return other

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the rooms that have bytes left, ascending."""
        return tuple(sorted({room.number for room in self._rooms}))

    def open(self, size: int) -> Place:
        """Where the next room is, of so many bytes.

        Behind the last one, or at the start again. One of more than a third, of which two fit, begins at the start or
        in the middle, so that smaller ones between do not make two of them share bytes.
        """
        middle = self._capacity // 2 // self._alignment * self._alignment
        address = self._next
        if 3 * size > self._capacity:
            address = middle if 0 < self._next <= middle else 0
        if address + size > self._capacity:
            address = 0
        taken = tuple(sorted({room.number for room in self._met(address, address + size)}))
        self._rooms = [*self._left(address, address + size), _Room(address, address + size, self._count)]
        self._next = -(-(address + size) // self._alignment) * self._alignment
        self._count += 1
        return Place(address, self._count - 1, taken)

    def _met(self, low: int, high: int) -> list[_Room]:
        return [room for room in self._rooms if room.low < high and low < room.high]

    def _left(self, low: int, high: int) -> list[_Room]:
        """What the rooms keep."""
        pieces = ((replace(r, high=min(r.high, low)), replace(r, low=max(r.low, high))) for r in self._rooms)
        return [piece for both in pieces for piece in both if piece.low < piece.high]
