"""Boxes of one tensor, joined where they overlap, or cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise, product
from math import prod

from ...ir.box import Box, Span, contains, hull, intersect, is_empty, overlap, volume

MOST_PARTS = 16
"""Parts of a tensor that are decided one by one."""
MOST_ATOMS = 64
"""Parts of what is fetched as data that are decided one by one."""


def grouped(reads: Sequence[tuple[int, Box]]) -> list[tuple[Box, list[int]]]:
    """Boxes with the slots that read them; those that overlap are joined where that does not double the largest."""
    found: list[tuple[Box, list[int]]] = []
    for whole in disjoint([b for _, b in reads]):
        inside = [(s, b) for s, b in reads if overlap(b, whole)]
        if volume(whole) <= 2 * max(volume(b) for _, b in inside):
            found.append((whole, [s for s, _ in inside]))
        else:
            found.extend((box, [s for s, b in inside if b == box]) for box in dict.fromkeys(b for _, b in inside))
    return found


def atoms(reads: Sequence[Box]) -> list[Box]:
    """The parts that any of these boxes consists of, cut wherever one of them begins or ends; nothing if too many."""
    boxes = list(dict.fromkeys(reads))
    cuts = [sorted({edge for span in spans for edge in (span.lo, span.hi)}) for spans in zip(*boxes, strict=True)]
    if prod(len(edges) - 1 for edges in cuts) > MOST_ATOMS:
        return []
    grid = product(*([Span(lo, hi) for lo, hi in pairwise(edges)] for edges in cuts))
    return [part for part in grid if any(contains(box, part) for box in boxes)]


def sliced(box: Box, most: int) -> list[Box]:
    """The box cut along its first dimension into parts of at most ``most`` elements, or of one position."""
    if not box or volume(box) <= most:
        return [box]
    step = max(1, most * box[0].size // volume(box))
    starts = range(box[0].lo, box[0].hi, step)
    return [(Span(lo, min(lo + step, box[0].hi)), *box[1:]) for lo in starts]


def divided(writes: Sequence[Box], reads: Sequence[Box], least: int) -> list[Box]:
    """The finest parts of what is written, none of fewer than ``least`` elements; nothing if there is no choice.

    Parts are what is made at once and taken at once, or one of the two. There is a choice if neither writes nor reads
    overlap among themselves, and everything that is written is read.
    """
    made, taken = list(dict.fromkeys(writes)), list(dict.fromkeys(reads))
    if max(len(made), len(taken)) > MOST_PARTS or any(
        overlap(a, b) for of in (made, taken) for a, b in combinations(of, 2)
    ):
        return []
    both = [intersect(w, r) for w in made for r in taken if overlap(w, r)]
    if sum(map(volume, both)) < sum(map(volume, made)):
        return []
    ways = sorted((both, taken, made), key=len, reverse=True)
    return next((way for way in ways if len(way) <= MOST_PARTS and min(map(volume, way)) >= least), [])


def disjoint(boxes: Sequence[Box]) -> list[Box]:
    """Join boxes that overlap by their hull, until none do."""
    left = list(dict.fromkeys(b for b in boxes if not is_empty(b) or not b))
    found: list[Box] = []
    while left:
        box = left.pop(0)
        while True:
            meeting = [b for b in left if overlap(b, box)]
            if not meeting:
                break
            for b in meeting:
                box = hull(box, b) or box
            left = [b for b in left if b not in meeting]
        again = [b for b in found if overlap(b, box)]
        if again:
            found = [b for b in found if b not in again]
            for b in again:
                box = hull(box, b) or box
            left.insert(0, box)
        else:
            found.append(box)
    return found


def hull_of(boxes: Iterable[Box | None]) -> Box | None:
    whole: Box | None = None
    for box in boxes:
        whole = hull(whole, box)
    return None if whole is None or is_empty(whole) else whole
