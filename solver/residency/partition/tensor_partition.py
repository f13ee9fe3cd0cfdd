"""Partitions of a tensor into boxes: by what is written and read at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise, product
from math import prod

from ....ir.box import Box, Span, contains, hull, intersect, is_empty, overlap, volume

MOST_BLOCKS = 16
"""Blocks of an intermediate that are decided separately: a few that are cut into more would fill a model. Chosen, not
measured."""
MOST_READ_BOXES = 64
"""Boxes of fetched activations that are decided separately; each counts for fewer decisions than a block. Chosen, not
measured."""


def read_groups(reads: Sequence[tuple[int, Box]]) -> list[tuple[Box, list[int]]]:
    """Boxes with the slots that read them; those that overlap are joined where that does not double the largest."""
    groups: list[tuple[Box, list[int]]] = []
    for whole in disjoint_hulls([b for _, b in reads]):
        inside = [(s, b) for s, b in reads if overlap(b, whole)]
        if volume(whole) <= 2 * max(volume(b) for _, b in inside):
            groups.append((whole, [s for s, _ in inside]))
        else:
            groups.extend((box, [s for s, b in inside if b == box]) for box in dict.fromkeys(b for _, b in inside))
    return groups


def common_refinement(reads: Sequence[Box]) -> list[Box]:
    """The boxes that all of these consist of, cut wherever one of them begins or ends; nothing if too many."""
    boxes = list(dict.fromkeys(reads))
    cuts = [sorted({edge for span in spans for edge in (span.lo, span.hi)}) for spans in zip(*boxes, strict=True)]
    if prod(len(edges) - 1 for edges in cuts) > MOST_READ_BOXES:
        return []
    grid = product(*([Span(lo, hi) for lo, hi in pairwise(edges)] for edges in cuts))
    return [part for part in grid if any(contains(box, part) for box in boxes)]


def slices(box: Box, most: int) -> list[Box]:
    """The box cut along its first dimension into parts of at most ``most`` elements, or of one position."""
    if not box or volume(box) <= most:
        return [box]
    step = max(1, most * box[0].size // volume(box))
    starts = range(box[0].lo, box[0].hi, step)
    return [(Span(lo, min(lo + step, box[0].hi)), *box[1:]) for lo in starts]


def finest_partition(writes: Sequence[Box], reads: Sequence[Box], least: int) -> list[Box]:
    """The finest partition into parts of at least ``least`` elements; nothing if there is no choice.

    Parts are what is written at once and read at once, or one of the two. There is a choice if neither writes nor reads
    overlap among themselves, and everything that is written is read.
    """
    written, read = list(dict.fromkeys(writes)), list(dict.fromkeys(reads))
    if max(len(written), len(read)) > MOST_BLOCKS or any(
        overlap(a, b) for boxes in (written, read) for a, b in combinations(boxes, 2)
    ):
        return []
    both = [intersect(w, r) for w in written for r in read if overlap(w, r)]
    if sum(map(volume, both)) < sum(map(volume, written)):
        return []
    partitions = sorted((both, read, written), key=len, reverse=True)
    return next((p for p in partitions if len(p) <= MOST_BLOCKS and min(map(volume, p)) >= least), [])


def disjoint_hulls(boxes: Sequence[Box]) -> list[Box]:
    """Join boxes that overlap by their hull, until none do."""
    waiting = list(dict.fromkeys(b for b in boxes if not is_empty(b) or not b))
    joined: list[Box] = []
    while waiting:
        box = waiting.pop(0)
        while overlapping := [b for b in waiting if overlap(b, box)]:
            for b in overlapping:
                box = hull(box, b) or box
            waiting = [b for b in waiting if b not in overlapping]
        overlapping = [b for b in joined if overlap(b, box)]
        if overlapping:
            joined = [b for b in joined if b not in overlapping]
            for b in overlapping:
                box = hull(box, b) or box
            waiting.insert(0, box)
        else:
            joined.append(box)
    return joined


def hull_of(boxes: Iterable[Box | None]) -> Box | None:
    """The hull of those boxes that are given; ``None`` if there is nothing in it."""
    whole: Box | None = None
    for box in boxes:
        whole = hull(whole, box)
    return None if whole is None or is_empty(whole) else whole
