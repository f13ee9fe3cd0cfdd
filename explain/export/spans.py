"""Spans of time side by side: what runs at once goes to different rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import TypeVar

T = TypeVar("T")

Span = tuple[int, int, T]
"""(begin, end, what): half-open in cycles."""


def merged(spans: Iterable[Span[T]]) -> list[Span[tuple[T, ...]]]:
    """Spans that overlap or touch as one, with all that they are of."""
    rows: list[tuple[int, int, list[T]]] = []
    for begin, end, what in sorted(spans, key=lambda span: span[:2]):
        if rows and begin <= rows[-1][1]:
            first, last, members = rows[-1]
            members.append(what)
            rows[-1] = first, max(last, end), members
        else:
            rows.append((begin, end, [what]))
    return [(begin, end, tuple(members)) for begin, end, members in rows]


def lanes(spans: Sequence[Span[T]]) -> list[tuple[int, Span[T]]]:
    """(row, span) in the order of their beginnings: the fewest rows in none of which two overlap."""
    free: list[int] = []
    running: list[tuple[int, int]] = []
    rows: list[tuple[int, Span[T]]] = []
    used = 0
    for span in sorted(spans, key=lambda span: span[:2]):
        while running and running[0][0] <= span[0]:
            heappush(free, heappop(running)[1])
        row = heappop(free) if free else used
        used = max(used, row + 1)
        heappush(running, (span[1], row))
        rows.append((row, span))
    return rows
