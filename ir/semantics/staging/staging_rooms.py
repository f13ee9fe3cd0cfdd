"""Where in a staging memory what is staged next has its room.

Each block of an instruction that stages anything gets a new room, behind the one before: the more rooms there are at
one time, the further can copies run ahead of the instructions that they are for. Operands that are walked by a window
are read again for each of its points, so that the instruction takes longer than its copies, and what counts is that
banks serve it at full pace: these lie in banks of their own (:func:`layout`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...machine import Memory


@dataclass(frozen=True)
class RoomLayout:
    """Where the operands of a block lie in their room, the ``bytes`` of the room, and what its address is a multiple
    of."""

    offsets: tuple[int, ...]
    bytes: int
    alignment: int

    def fits(self, capacity: int, share: int) -> bool:
        """Whether so many of these rooms fit a memory at one time."""
        return self.bytes <= capacity // share // self.alignment * self.alignment


def ways_to_stage(*, windows: bool) -> tuple[tuple[bool, int], ...]:
    """(whether operands lie apart, how many rooms there are to be at one time), in the order in which an instruction is
    cut by them; ``windows``: whether it has operands that are walked by a window."""
    return ((True, 2),) * windows + ((False, 2), (False, 1))


def layout(sizes: Sequence[int], memory: Memory, *, apart: bool) -> RoomLayout:
    """The room of operands of these bytes in a staging memory, one behind the other.

    ``apart``: no two of them in one bank, if the memory has banks of consecutive bytes, two for each of
    them, that begin at multiples of its alignment.
    """
    alignment = memory.alignment
    if apart and 2 * len(sizes) <= memory.banks and len(sizes) > 1 and not memory.interleave:
        bank = memory.capacity // memory.banks
        alignment = bank if bank % alignment == 0 else alignment
    offsets: list[int] = []
    end = 0
    for size in sizes:
        offsets.append(-(-end // alignment) * alignment)
        end = offsets[-1] + -(-size // memory.alignment) * memory.alignment
    return RoomLayout(tuple(offsets), end, alignment)


@dataclass(frozen=True)
class OpenedRoom:
    """Of a new room: its address and number, and the numbers of the rooms that it takes bytes of."""

    address: int
    number: int
    overlapped: tuple[int, ...]


class StagingRooms:
    """The rooms of one memory of ``capacity`` bytes, numbered from 0 as they are opened; each begins at a multiple of
    ``alignment``, or of a larger one that it asks for.

    A room of which bytes were taken is gone: who took them waits until it is not used any more, and who comes later
    comes after that.
    """

    def __init__(self, capacity: int, alignment: int) -> None:
        self._capacity = capacity
        self._alignment = alignment
        self._rooms: list[tuple[int, int, int]] = []
        """First address, the one after the last, and number of each."""
        self._next = 0
        self._count = 0

    def copy(self) -> StagingRooms:
        """The same rooms, opened so far."""
        other = StagingRooms(self._capacity, self._alignment)
        other._rooms, other._next, other._count = list(self._rooms), self._next, self._count
        return other

    def open(self, size: int, alignment: int = 1) -> OpenedRoom:
        """Where the next room is, of so many bytes, at a multiple of ``alignment``.

        Behind the last one, or at the start again. One of more than a third, of which two fit, begins at the start or
        in the middle, so that smaller ones between do not make two of them share bytes.
        """
        alignment = max(alignment, self._alignment)
        middle = self._capacity // 2 // alignment * alignment
        address = -(-self._next // alignment) * alignment
        if 3 * size > self._capacity:
            address = middle if 0 < self._next <= middle else 0
        if address + size > self._capacity:
            address = 0
        end = address + size
        overlapped = tuple(number for low, high, number in self._rooms if low < end and address < high)
        if overlapped:
            self._rooms = [room for room in self._rooms if room[2] not in overlapped]
        self._rooms.append((address, end, self._count))
        self._next = -(-end // self._alignment) * self._alignment
        self._count += 1
        return OpenedRoom(address, self._count - 1, overlapped)
