"""First fit: the lowest address that is free, for one buffer after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """``size`` bytes, wanted during ``first <= t < last``."""

    size: int
    first: int
    last: int


def first_fit(items: Sequence[Item]) -> list[int]:
    """An address for each item, free during its life; the larger are placed first, as TVM's planner does by default."""
    at = [-1] * len(items)
    near = _neighbours(items)
    for i in sorted(range(len(items)), key=lambda i: (-items[i].size, items[i].first - items[i].last, i)):
        at[i] = lowest(sorted((at[j], at[j] + items[j].size) for j in near[i] if at[j] >= 0), items[i].size)
    return at


def lowest(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The lowest address with room beside what is taken: (begin, end) in order."""
    low = 0
    for begin, end in taken:
        if begin - low >= size:
            break
        low = max(low, end)
    return low


def _neighbours(items: Sequence[Item]) -> list[list[int]]:
    """For each item, those that live at some time with it."""
    found: list[list[int]] = [[] for _ in items]
    alive: list[int] = []
    for i in sorted(range(len(items)), key=lambda i: items[i].first):
        alive = [j for j in alive if items[j].last > items[i].first]
        for j in alive:
            found[i].append(j)
            found[j].append(i)
        alive.append(i)
    return found
