"""Repair of a residency that cannot be packed: fetches are delayed until everything has an address.

Residency counts bytes, and a memory that is full to the last byte can seldom be packed. A fetch that comes later than
planned costs little. Where first fit does not find addresses for all planned lifetimes, a fetch whose lifetime finds
none is given the address that is free the longest before its use:

    address   |-------- a: resident -----|            c is planned from here: |.....
              |--- b: until here ---|                   and begins here: |--- c ---|   where b has left

This is done in several orders. Another way begins with the shortest lifetimes of all (each fetch in the slot of its
use), packed by first fit, from which fetches move back in turn. The answer that costs least is taken; where there is
none, the model of banks looks for addresses of the shortest lifetimes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...ir.machine import Memory
from ...ir.semantics.box_arrays import Int
from ..banks.first_fit import Item, neighbours, pack, peak
from ..banks.model import find
from ..banks.problem import BankProblem, BufferRequest
from ..cpsat.backend import Budget
from ..effort import NO_EFFORT, Effort


@dataclass(frozen=True)
class MovableRequest:
    """A request whose lifetime may begin as late as ``latest``."""

    request: BufferRequest
    latest: int


Repaired = tuple[BufferRequest, ...]


@dataclass(frozen=True)
class Repair:
    """The ``requests`` at their addresses, ``None`` if none were found; and what the search for them took."""

    requests: Repaired | None
    effort: Effort = NO_EFFORT


BLOCK = 64
"""Addresses that are tried at once: enough that NumPy's overhead does not count, few enough to stop early. Chosen, not
measured."""


def repair(
    movable: Sequence[MovableRequest],
    memory: Memory,
    *,
    cost: Callable[[Repaired], float],
    budget: Budget,
    seed: int = 0,
) -> Repair:
    """The requests with lifetimes that can be packed, and their addresses, at the least ``cost`` that is found.

    There are none if not even the shortest lifetimes can be packed.
    """
    packing = _Packing(movable, memory)
    planned = pack(packing.planned, packing.capacity)
    if peak(packing.planned, planned) <= packing.capacity:
        return Repair(packing.repaired(planned, [item.first for item in packing.planned]))
    answers = [packing.place(order, high) for order in packing.orders() for high in (True, False)]
    answers.append(packing.from_shortest(pack(packing.shortest, packing.capacity)))
    valid = [answer for answer in answers if answer is not None]
    return Repair(min(valid, key=cost)) if valid else packing.searched(budget, seed)


class _Packing:
    """The requests in units of the memory's alignment: with their planned and with their shortest lifetimes."""

    def __init__(self, movable: Sequence[MovableRequest], memory: Memory) -> None:
        self.movable = movable
        self.memory = memory
        self.capacity = memory.capacity // memory.alignment
        sizes = [-(-max(1, m.request.bytes) // memory.alignment) for m in movable]
        self.planned = [Item(size, *m.request.live) for size, m in zip(sizes, movable, strict=True)]
        self.shortest = [Item(size, m.latest, m.request.live[1]) for size, m in zip(sizes, movable, strict=True)]
        self.near = [np.array(near, dtype=np.int64) for near in neighbours(self.planned)]
        self.sizes = np.array(sizes, dtype=np.int64)
        self.last = np.array([item.last for item in self.planned], dtype=np.int64)

    def orders(self) -> list[list[int]]:
        """In the order of use; and what lives long, or cannot begin later, before the rest."""
        by_use = sorted(range(len(self.movable)), key=lambda i: (self.shortest[i].first, -self.planned[i].size, i))
        by_area = sorted(by_use, key=lambda i: -self.shortest[i].area)
        long = [i for i in by_area if self.shortest[i].last - self.shortest[i].first > 1]
        fixed = [i for i in long if self.planned[i] == self.shortest[i]]
        return [by_use, *(list(dict.fromkeys([*early, *by_use])) for early in (fixed, long))]

    def place(self, order: Sequence[int], high: bool) -> Repaired | None:
        """Each in turn where it can begin earliest; those that live long from the top down if ``high``."""
        addresses = np.zeros(len(order), dtype=np.int64)
        placed = np.zeros(len(order), dtype=np.bool_)
        first = np.array([item.first for item in self.shortest])
        for i in order:
            item = self.shortest[i]
            near = self.near[i][placed[self.near[i]]]
            earliest = self._earliest(i, item, near, first, addresses, high and item.last - item.first > 1)
            if earliest is None:
                return None
            first[i], addresses[i] = earliest
            placed[i] = True
        return self.repaired(addresses.tolist(), first.tolist())

    def searched(self, budget: Budget, seed: int) -> Repair:
        """The shortest lifetimes, packed by the model of banks; then as :meth:`from_shortest`."""
        requests = tuple(replace(m.request, live=(m.latest, m.request.live[1])) for m in self.movable)
        items = tuple(self.shortest)
        problem = BankProblem(requests, self.memory, self.memory.alignment, items, self.capacity, 0, ())
        packed, solution = find(problem, budget, seed)
        effort = solution.effort if solution else NO_EFFORT
        return Repair(None if packed is None else self.from_shortest(packed), effort)

    def from_shortest(self, packed: Sequence[int]) -> Repaired | None:
        """The shortest lifetimes at these addresses; then each fetch moves back, among the others as they are.

        ``None`` if they end beyond the memory.
        """
        items = self.shortest
        if peak(items, packed) > self.capacity:
            return None
        first, addresses = np.array([item.first for item in items]), np.array(packed)
        for i in sorted(range(len(items)), key=lambda i: (items[i].first, self.planned[i].first, i)):
            if self.planned[i].first < items[i].first:
                earliest = self._earliest(i, items[i], self.near[i], first, addresses, False)
                # Its own place is free for its shortest lifetime.
                assert earliest is not None
                first[i], addresses[i] = earliest
        return self.repaired(addresses.tolist(), first.tolist())

    def _earliest(
        self, i: int, shortest: Item, near: Int, first: Int, addresses: Int, down: bool
    ) -> tuple[int, int] | None:
        """See :func:`earliest`: request ``i`` beside those ``near``, which begin ``first`` and lie at ``addresses``."""
        low = addresses[near]
        high = low + self.sizes[near]
        return earliest(self.planned[i], shortest, first[near], self.last[near], low, high, self.capacity, down=down)

    def repaired(self, addresses: Sequence[int], first: Sequence[int]) -> Repaired:
        """The requests that begin ``first``, at ``addresses`` in units."""
        return tuple(
            replace(m.request, live=(begin, m.request.live[1]), at=address * self.memory.alignment)
            for m, begin, address in zip(self.movable, first, addresses, strict=True)
        )


def earliest(
    planned: Item, shortest: Item, first: Int, last: Int, low: Int, high: Int, capacity: int, *, down: bool
) -> tuple[int, int] | None:
    """The earliest begin for which there is an address, and the lowest such address (``down``: highest).

    The others live from ``first`` to ``last``, at addresses from ``low`` to ``high``: one of each for every other.
    ``None`` if there is no address even for the shortest lifetime.
    """
    spots = np.unique(np.concatenate([[0, capacity - planned.size], high, low - planned.size]))
    spots = spots[(spots >= 0) & (spots + planned.size <= capacity)][:: -1 if down else 1]
    meet_in_time = (first < shortest.last) & (planned.first < last)
    low, high, last = low[meet_in_time], high[meet_in_time], last[meet_in_time]
    best: tuple[int, int] | None = None
    for block in np.split(spots, range(BLOCK, len(spots), BLOCK)):
        meets = (low < block[:, None] + planned.size) & (block[:, None] < high)
        # Of those in the way at an address, the one that stays the longest decides.
        begins = np.where(meets, last, planned.first).max(axis=1, initial=planned.first)
        if len(begins) and begins.min() < (shortest.first + 1 if best is None else best[0]):
            best = (int(begins.min()), int(block[begins.argmin()]))
        if best is not None and best[0] == planned.first:
            break
    return best
