"""Makes early fetches give way until everything has a place.

Residency counts bytes, and a memory that is full to the last byte can seldom be packed. A fetch that comes later than
planned costs little, so a fetch whose planned life finds no free address is given the one that is free the longest
before its use:

    address   |-------- a: stays --------|            c is planned from here: |.....
              |--- b: until here ---|                   and begins here: |--- c ---|   where b has left

This is done by several orders, and the answer that costs least is taken. The last resort begins with the shortest
lives of all (each fetch in the slot of its use), packed as well as can be, from which fetches move back in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...ir.machine import Memory
from ...ir.semantics.box_arrays import Int
from ..banks.first_fit import Item, neighbours, pack, peak
from ..banks.model import BankProblem, Request, find
from ..cpsat.backend import Budget


@dataclass(frozen=True)
class Wish:
    """A request whose life may begin as late as ``latest``."""

    request: Request
    latest: int


Settled = tuple[Request, ...]
BLOCK = 64
"""Addresses that are tried at once."""


def settle(
    wishes: Sequence[Wish], memory: Memory, *, judge: Callable[[Settled], float], budget: Budget, seed: int = 0
) -> Settled | None:
    """The requests with lives that can be packed, and their addresses; ``None`` if not even the shortest can."""
    puzzle = _Puzzle(wishes, memory)
    found: list[Settled] = []
    planned = pack(puzzle.wanted, puzzle.capacity)
    if peak(puzzle.wanted, planned) <= puzzle.capacity:
        return puzzle.answer(planned, [w.first for w in puzzle.wanted])
    for order in puzzle.orders():
        for high in (True, False):
            answer = puzzle.place(order, high)
            if answer is not None:
                found.append(answer)
    answer = puzzle.from_shortest(budget, seed)
    if answer is not None:
        found.append(answer)
    return min(found, key=judge, default=None)


class _Puzzle:
    """The wishes in units of the memory's alignment; ``firm`` ones cannot begin later."""

    def __init__(self, wishes: Sequence[Wish], memory: Memory) -> None:
        self.wishes = wishes
        self.memory = memory
        self.capacity = memory.capacity // memory.alignment
        sizes = [-(-max(1, w.request.bytes) // memory.alignment) for w in wishes]
        self.wanted = [Item(size, *w.request.live) for size, w in zip(sizes, wishes, strict=True)]
        self.least = [Item(size, w.latest, w.request.live[1]) for size, w in zip(sizes, wishes, strict=True)]
        self.near = [np.array(near, dtype=np.int64) for near in neighbours(self.wanted)]
        self.sizes = np.array(sizes, dtype=np.int64)
        self.last = np.array([item.last for item in self.wanted], dtype=np.int64)

    def orders(self) -> list[list[int]]:
        """In the order of use; and what lives long, or cannot begin later, before the rest."""
        by_use = sorted(range(len(self.wishes)), key=lambda i: (self.least[i].first, -self.wanted[i].size, i))
        long = sorted(by_use, key=lambda i: -self.least[i].area)
        firm = [i for i in long if self.wanted[i] == self.least[i] and self.wanted[i].last - self.wanted[i].first > 1]
        kept = [i for i in long if self.least[i].last - self.least[i].first > 1]
        return [
            by_use,
            [*firm, *(i for i in by_use if i not in set(firm))],
            [*kept, *(i for i in by_use if i not in set(kept))],
        ]

    def place(self, order: Sequence[int], high: bool) -> Settled | None:
        """Each in turn where it can begin earliest; those that live long from the top down if ``high``."""
        at = np.full(len(order), -1)
        first = np.array([item.first for item in self.least])
        for i in order:
            item = self.least[i]
            near = self.near[i][at[self.near[i]] >= 0]
            down = high and item.last - item.first > 1
            first[i], at[i] = self.earliest(i, item, near, first, at, down)
            if at[i] < 0:
                return None
        return self.answer(at.tolist(), first.tolist())

    def from_shortest(self, budget: Budget, seed: int) -> Settled | None:
        """Pack the shortest lives; then each fetch moves back, among the others as they are."""
        items = list(self.least)
        at = pack(items, self.capacity)
        if peak(items, at) > self.capacity:
            requests = tuple(replace(w.request, live=(w.latest, w.request.live[1])) for w in self.wishes)
            problem = BankProblem(requests, self.memory, self.memory.alignment, tuple(items), self.capacity, 0, ())
            found, _ = find(problem, budget, seed)
            if found is None:
                return None
            at = found
        first, places = np.array([item.first for item in items]), np.array(at)
        for i in sorted(range(len(items)), key=lambda i: (items[i].first, self.wanted[i].first, i)):
            if self.wanted[i].first < items[i].first:
                first[i], places[i] = self.earliest(i, items[i], self.near[i], first, places, False)
        return self.answer(places.tolist(), first.tolist())

    def earliest(self, i: int, least: Item, near: Int, first: Int, at: Int, down: bool) -> tuple[int, int]:
        """See :func:`_earliest`: wish ``i`` beside those ``near``, which begin ``first`` and lie ``at``."""
        low = at[near]
        high = low + self.sizes[near]
        return _earliest(self.wanted[i], least, first[near], self.last[near], low, high, self.capacity, down=down)

    def answer(self, at: Sequence[int], first: Sequence[int]) -> Settled:
        return tuple(
            replace(w.request, live=(begin, w.request.live[1]), at=a * self.memory.alignment)
            for w, begin, a in zip(self.wishes, first, at, strict=True)
        )


def _earliest(
    wanted: Item, least: Item, first: Int, last: Int, low: Int, high: Int, capacity: int, *, down: bool
) -> tuple[int, int]:
    """The earliest begin for which there is an address, and the lowest such address (``down``: highest); -1 if none.

    The others live from ``first`` to ``last``, at addresses from ``low`` to ``high``: one of each for every other.
    """
    spots = np.unique(np.concatenate([[0, capacity - wanted.size], high, low - wanted.size]))
    spots = spots[(spots >= 0) & (spots + wanted.size <= capacity)][:: -1 if down else 1]
    there = (first < least.last) & (wanted.first < last)
    low, high, last = low[there], high[there], last[there]
    best = (least.first + 1, -1)
    for block in np.split(spots, range(BLOCK, len(spots), BLOCK)):
        meets = (low < block[:, None] + wanted.size) & (block[:, None] < high)
        # Of those in the way at an address, the one that stays the longest decides.
        begins = np.where(meets, last, wanted.first).max(axis=1, initial=wanted.first)
        if len(begins) and begins.min() < best[0]:
            best = (int(begins.min()), int(block[begins.argmin()]))
        if best[0] == wanted.first:
            break
    return best
