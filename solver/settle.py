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

from ..ir.machine import Memory
from .bank_model import BankProblem, Request, find
from .cp import Budget
from .packing import Item, neighbours, pack, peak


@dataclass(frozen=True)
class Wish:
    """A request whose life may begin as late as ``latest``."""

    request: Request
    latest: int


Settled = tuple[Request, ...]


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
        self.near = neighbours(self.wanted)

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
        at = [-1] * len(order)
        first = [item.first for item in self.least]
        for i in order:
            item = self.least[i]
            others = [(Item(self.wanted[j].size, first[j], self.wanted[j].last), at[j]) for j in self.near[i]]
            down = high and item.last - item.first > 1
            begin, at[i] = _earliest(self.wanted[i], item, [o for o in others if o[1] >= 0], self.capacity, down)
            if at[i] < 0:
                return None
            first[i] = begin
        return self.answer(at, first)

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
        for i in sorted(range(len(items)), key=lambda i: (items[i].first, self.wanted[i].first, i)):
            if self.wanted[i].first < items[i].first:
                others = [(items[j], at[j]) for j in self.near[i]]
                begin, at[i] = _earliest(self.wanted[i], items[i], others, self.capacity, False)
                items[i] = Item(items[i].size, begin, items[i].last)
        return self.answer(at, [item.first for item in items])

    def answer(self, at: Sequence[int], first: Sequence[int]) -> Settled:
        return tuple(
            replace(w.request, live=(begin, w.request.live[1]), at=a * self.memory.alignment)
            for w, begin, a in zip(self.wishes, first, at, strict=True)
        )


def _earliest(
    wanted: Item, least: Item, others: Sequence[tuple[Item, int]], capacity: int, down: bool
) -> tuple[int, int]:
    """The earliest begin for which there is an address, and the lowest such address (``down``: highest); -1 if none."""
    tops = {0, *(at + other.size for other, at in others)}
    bottoms = {capacity, *(at for _, at in others)}
    spots = sorted({a - wanted.size for a in bottoms} | tops, reverse=down)
    # The first of them that is in the way is the one that is in the way the longest.
    there = sorted(
        (-other.last, at, at + other.size)
        for other, at in others
        if other.first < least.last and wanted.first < other.last
    )
    best = (least.first + 1, -1)
    for a in spots:
        top = a + wanted.size
        if a < 0 or top > capacity:
            continue
        begin = wanted.first
        for last, low, high in there:
            if low < top and a < high:
                begin = -last
                break
        if begin < best[0]:
            best = (begin, a)
    return best
