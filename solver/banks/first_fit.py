"""Addresses without a solver: first fit in several orders, and how much any packing needs at least.

Everything here is in units (multiples of the alignment). Two requests are neighbours if their lives overlap; only
neighbours may not share addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain

ROUNDS = 60
"""Orders that are tried where the first few do not fit. Chosen, not measured."""
PLACEMENTS = 20_000
"""Items that are placed in all these rounds together, about. Chosen, not measured."""


@dataclass(frozen=True)
class Item:
    """``size`` units during ``first <= t < last`` and, if that is given, from ``again`` on."""

    size: int
    first: int
    last: int
    again: int | None = None

    @property
    def area(self) -> int:
        return self.size * (self.last - self.first)


def _spans(items: Sequence[Item]) -> list[tuple[int, int, int]]:
    """(first, last, item) for each time in a row that an item is wanted, in order of time."""
    spans = [(item.first, item.last, i) for i, item in enumerate(items)]
    again = [(item.again, i) for i, item in enumerate(items) if item.again is not None]
    end = max((*(item.last for item in items), *(first + 1 for first, _ in again)), default=0)
    spans += [(first, end, i) for first, i in again]
    return sorted(spans, key=lambda span: span[0])


def neighbours(items: Sequence[Item]) -> list[list[int]]:
    """For each item, those that live at some time with it."""
    living_with: list[dict[int, None]] = [{} for _ in items]
    alive: list[tuple[int, int]] = []
    for first, last, i in _spans(items):
        alive = [(end, j) for end, j in alive if end > first]
        for _, j in alive:
            if i != j:
                living_with[i][j] = None
                living_with[j][i] = None
        alive.append((last, i))
    return [list(others) for others in living_with]


def cliques(items: Sequence[Item]) -> list[tuple[int, ...]]:
    """The maximal sets of items that live at one time, in order of time."""
    maximal: list[tuple[int, ...]] = []
    alive: list[tuple[int, int]] = []
    for first, last, i in _spans(items):
        staying = [(end, j) for end, j in alive if end > first]
        if len(staying) < len(alive):
            maximal.append(tuple(sorted({j for _, j in alive})))
        alive = [*staying, (last, i)]
    if alive:
        maximal.append(tuple(sorted({j for _, j in alive})))
    return maximal


def first_fit(items: Sequence[Item], near: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """Each item in turn at the lowest address that is free during its whole life."""
    ends: dict[int, tuple[int, int]] = {}
    for i in order:
        size = items[i].size
        low = lowest_free(sorted([ends[j] for j in near[i] if j in ends]), size)
        ends[i] = low, low + size
    return [ends[i][0] for i in range(len(items))]


def lowest_free(occupied: Iterable[tuple[int, int]], size: int) -> int:
    """The lowest address with room for ``size`` units beside what is taken: (begin, end) in order."""
    low = 0
    for start, stop in occupied:
        if start - low >= size:
            break
        if stop > low:
            low = stop
    return low


def by_size(items: Sequence[Item]) -> list[int]:
    """The larger first, of equals those that live longer: the order of TVM's memory planner."""
    return sorted(range(len(items)), key=lambda i: (-items[i].size, items[i].first - items[i].last, i))


def lowest_first(items: Sequence[Item], near: Sequence[Sequence[int]]) -> list[int]:
    """Always the item that can start lowest, the larger of equals; nothing is put below what is there."""
    at: dict[int, int] = {}
    floor = [0] * len(items)
    # Floors only rise: an item is in the queue once for each that it had, and the lower ones are passed over.
    queue = [(0, -item.area, i) for i, item in enumerate(items)]
    heapify(queue)
    while queue:
        low, _, i = heappop(queue)
        if i in at or low < floor[i]:
            continue
        at[i] = low
        top = low + items[i].size
        for j in near[i]:
            if floor[j] < top:
                floor[j] = top
                if j not in at:
                    heappush(queue, (top, -items[j].area, j))
    return [at[i] for i in range(len(items))]


def peak(items: Sequence[Item], at: Sequence[int]) -> int:
    """The highest end of all items, which lie ``at`` these addresses."""
    return max((a + item.size for a, item in zip(at, items, strict=True)), default=0)


def pack(items: Sequence[Item], enough: int, rounds: int | None = None) -> list[int]:
    """The lowest packing of several; no more are tried once one fits into ``enough`` units.

    When no order fits, the items that ended above are put at the front of the best order, again and again: in so many
    ``rounds``, or else :data:`ROUNDS`, or fewer if the items are many.
    """
    if rounds is None:
        rounds = min(ROUNDS, PLACEMENTS // max(1, len(items)))
    near = neighbours(items)
    keys: list[Callable[[int], tuple[int, ...]]] = [
        lambda i: (-items[i].area, i),
        lambda i: (items[i].first - items[i].last, -items[i].size, i),
        lambda i: (-items[i].size * len(near[i]), i),
        lambda i: (items[i].first, -items[i].size, i),
    ]
    best = lowest_first(items, near)
    best_order = sorted(range(len(items)), key=lambda i: (best[i], i))
    for order in chain([by_size(items)], (sorted(range(len(items)), key=key) for key in keys)):
        if peak(items, best) <= enough:
            return best
        at = first_fit(items, near, order)
        if peak(items, at) < peak(items, best):
            best, best_order = at, order
    order, at = best_order, best
    for _ in range(rounds):
        if peak(items, best) <= enough:
            break
        high = [i for i in order if at[i] + items[i].size > enough]
        order = [*high, *(i for i in order if at[i] + items[i].size <= enough)] if high else best_order
        at = first_fit(items, near, order)
        if peak(items, at) < peak(items, best):
            best = at
    return best
