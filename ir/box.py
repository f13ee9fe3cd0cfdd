"""Half-open integer intervals, boxes of them, and affine index expressions.

Every interval in this project is half-open: ``Span(2, 5)`` holds 2, 3 and 4.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

Place = TypeVar("Place")


class Span(NamedTuple):
    """The integers ``lo <= i < hi``; empty when ``hi <= lo``."""

    lo: int
    hi: int

    @property
    def size(self) -> int:
        return max(0, self.hi - self.lo)


Box = tuple[Span, ...]
"""One span for each dimension of a tensor or each axis of a loop nest."""


def full(shape: tuple[int, ...]) -> Box:
    """The box that covers a whole tensor of this shape."""
    return tuple(Span(0, extent) for extent in shape)


# Boxes are looked at millions of times: plain loops and comparisons take a third of the time of expressions over
# generators, properties and calls.


def shape_of(box: Box) -> tuple[int, ...]:
    return tuple([hi - lo if lo < hi else 0 for lo, hi in box])


def volume(box: Box) -> int:
    """How many points the box holds (1 for the box of a scalar)."""
    points = 1
    for lo, hi in box:
        if hi <= lo:
            return 0
        points *= hi - lo
    return points


def is_empty(box: Box) -> bool:
    for lo, hi in box:  # noqa: SIM110
        if hi <= lo:
            return True
    return False


def intersect(a: Box, b: Box) -> Box:
    return tuple(
        [Span(low if low > lo else lo, high if high < hi else hi) for (low, high), (lo, hi) in zip(a, b, strict=True)]
    )


def hull(a: Box | None, b: Box | None) -> Box | None:
    """The smallest box that contains both; ``None`` and empty boxes add nothing."""
    if a is None or is_empty(a):
        return b
    if b is None or b == a or is_empty(b):
        return a
    return tuple(
        [Span(low if low < lo else lo, high if high > hi else hi) for (low, high), (lo, hi) in zip(a, b, strict=True)]
    )


def contains(outer: Box, inner: Box) -> bool:
    for (low, high), (lo, hi) in zip(outer, inner, strict=True):
        if lo < low or high < hi:
            return is_empty(inner)
    return True


def overlap(a: Box, b: Box) -> bool:
    for (low, high), (lo, hi) in zip(a, b, strict=True):
        if high <= lo or hi <= low or high <= low or hi <= lo:
            return False
    return True


def spread(box: Box, places: Iterable[tuple[Place, Box]]) -> list[tuple[Place, Box]] | None:
    """Which part of ``box`` each of the ``places`` holds; ``None`` if they do not hold all of it.

    The first place that holds the whole holds all of it. Otherwise, in their order, each place that touches the box
    holds what they share, if none before it holds a part of that.
    """
    parts: list[tuple[Place, Box]] = []
    for place, held in places:
        if contains(held, box):
            return [(place, box)]
        if overlap(held, box):
            parts.append((place, intersect(held, box)))
    disjoint: list[tuple[Place, Box]] = []
    for place, piece in parts:
        if not any(overlap(piece, earlier) for _, earlier in disjoint):
            disjoint.append((place, piece))
    return disjoint if sum(volume(piece) for _, piece in disjoint) == volume(box) else None


class Holders(Generic[Place]):
    """Tells which of many places, each with its box, is the first to hold all of a box."""

    def __init__(self, places: Sequence[tuple[Place, Box]]) -> None:
        self._places = places
        self._exact: dict[Box, Place] = {}
        for place, held in places:
            self._exact.setdefault(held, place)
        self._largest = max((volume(held) for _, held in places), default=0)

    def first(self, box: Box) -> Place | None:
        """The first place that contains ``box``; ``None`` if none does."""
        # Nothing but an equal box contains one as large as the largest, so that most are found without a search.
        if 0 < (points := volume(box)) == self._largest and box in self._exact:
            return self._exact[box]
        if not points:
            return next((place for place, held in self._places if contains(held, box)), None)
        number = self._spans.first(box) if self._places else None
        return None if number is None else self._places[number][0]

    @cached_property
    def _spans(self) -> _Spans:
        return _Spans([(number, held) for number, (_, held) in enumerate(self._places)], 0)


class _Spans:
    """Numbered boxes by their spans in dimension ``dim``, and those of one span by their spans in the next one.

    Boxes are parts of a tensor, most of them apart: so few spans of a dimension hold one that is looked for, and they
    lie side by side.
    """

    def __init__(self, boxes: Sequence[tuple[int, Box]], dim: int) -> None:
        self._dim = dim
        self._number = min(number for number, _ in boxes)
        by_span: dict[Span, list[tuple[int, Box]]] = {}
        if dim < len(boxes[0][1]):
            for number, box in boxes:
                by_span.setdefault(box[dim], []).append((number, box))
        spans = sorted(by_span)
        self._begins = [span.lo for span in spans]
        self._ends = [span.hi for span in spans]
        self._furthest = list(accumulate(self._ends, max))
        """The last end of the spans up to each."""
        self._within = [_Spans(by_span[span], dim + 1) for span in spans]

    def first(self, box: Box) -> int | None:
        """The lowest number of a box that contains this one, which is not empty."""
        if self._dim == len(box):
            return self._number
        lo, hi = box[self._dim]
        best: int | None = None
        at = bisect_right(self._begins, lo) - 1
        while at >= 0 and self._furthest[at] >= hi:
            within = self._within[at]
            if self._ends[at] >= hi and (best is None or within._number < best):
                number = within.first(box)
                if number is not None and (best is None or number < best):
                    best = number
            at -= 1
        return best


def part(extent: int, parts: int, index: int) -> Span:
    """Part ``index`` of an extent cut into ``parts`` whose sizes differ by at most one."""
    return Span(extent * index // parts, extent * (index + 1) // parts)


@dataclass(frozen=True)
class Affine:
    """``sum(coeffs[a] * axis[a]) + const``, with one coefficient for each axis of the loop nest."""

    coeffs: tuple[int, ...]
    const: int = 0

    @cached_property
    def terms(self) -> tuple[tuple[int, int], ...]:
        """(axis, coefficient) for each coefficient that is not zero."""
        return tuple((axis, c) for axis, c in enumerate(self.coeffs) if c)

    def at(self, point: tuple[int, ...]) -> int:
        return sum(c * p for c, p in zip(self.coeffs, point, strict=True)) + self.const

    def over(self, box: Box) -> Span:
        """The exact smallest span of values over a non-empty box of axis values."""
        lo = hi = self.const
        for axis, c in self.terms:
            first, stop = box[axis]
            if c > 0:
                lo += c * first
                hi += c * (stop - 1)
            else:
                lo += c * (stop - 1)
                hi += c * first
        return Span(lo, hi + 1)
