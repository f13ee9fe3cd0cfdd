"""Loops before instructions are chosen for them: which merge into one, and where their reads are in bounds.

Prediction and emission share this. Strides are in any unit, the same for all operands.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

from ..box import Affine, Span


@dataclass(frozen=True)
class Dimension:
    """A dimension of an operand: position ``const`` + Σ coefficient · loop, in bounds if 0 <= position < ``bound``.

    ``pitch`` is the stride from one position to the next.
    """

    coeffs: tuple[int, ...]
    const: int
    bound: int
    pitch: int

    @cached_property
    def loops(self) -> tuple[int, ...]:
        return tuple([a for a, c in enumerate(self.coeffs) if c])

    @property
    def index(self) -> Affine:
        return Affine(self.coeffs, self.const)

    def may_leave(self, points: Sequence[Span]) -> bool:
        """Whether a position can be out of bounds while the loops are in ``points``."""
        positions = self.index.over(tuple(points))
        return positions.lo < 0 or positions.hi > self.bound

    def moved(self, points: Sequence[Span]) -> Dimension:
        """The same with each loop counted from the first of its ``points``."""
        const = self.const + sum(c * span.lo for c, span in zip(self.coeffs, points, strict=True))
        return Dimension(self.coeffs, const, self.bound, self.pitch)

    def renumbered(self, kept: Sequence[int]) -> Dimension:
        """The same over fewer loops: ``kept[i]`` is the number here of loop i there."""
        return Dimension(tuple(self.coeffs[a] for a in kept), self.const, self.bound, self.pitch)


@dataclass(frozen=True)
class Clipped:
    """The part of each loop that finds something in bounds, and what still has to be guarded there.

    ``guards``: for each operand the dimensions that may leave its bounds within ``spans``, over loops that count from
    the first point of their span. ``covered``: every point of a loop that is not reduced is visited.
    """

    spans: tuple[Span, ...]
    guards: tuple[tuple[Dimension, ...], ...]
    covered: bool

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(span.size for span in self.spans)

    @property
    def empty(self) -> bool:
        return 0 in self.extents

    @property
    def guarded(self) -> frozenset[int]:
        """The loops of more than one point that decide together whether something is in bounds."""
        dimensions = (g for guards in self.guards for g in guards)
        return frozenset(a for g in dimensions for a in g.loops if self.spans[a].size > 1)


def clip(extents: Sequence[int], reduced: Sequence[bool], operands: Sequence[Sequence[Dimension]]) -> Clipped:
    """Loops over ``operands``, each given by the dimensions in which it may be read out of bounds."""
    spans = in_bounds(extents, reduced, [d for dimensions in operands for d in dimensions])
    guards = tuple(tuple(d.moved(spans) for d in dimensions if d.may_leave(spans)) for dimensions in operands)
    covered = all(r or span.size == e for span, e, r in zip(spans, extents, reduced, strict=True))
    return Clipped(spans, guards, covered)


def in_bounds(extents: Sequence[int], reduced: Sequence[bool], dimensions: Sequence[Dimension]) -> tuple[Span, ...]:
    """The part of each loop that can find something in the bounds of all ``dimensions``.

    Reduced loops are cut wherever they would find nothing; others, whose every point is written, only where they decide
    alone. All spans are empty if there is nothing at all.
    """
    spans = [Span(0, e) for e in extents]
    changed = True
    while changed:
        changed = False
        for dimension in dimensions:
            index, bound = dimension.index, dimension.bound
            positions = index.over(tuple(spans))
            if positions.lo >= 0 and positions.hi <= bound:
                continue
            if positions.hi <= 0 or positions.lo >= bound:
                return tuple(Span(0, 0) for _ in extents)
            used = [a for a in dimension.loops if spans[a].size > 1]
            for a in used:
                if not reduced[a] and len(used) > 1:
                    continue
                before, rest = spans[a], list(spans)
                rest[a] = Span(0, 1)
                others, c = index.over(tuple(rest)), dimension.coeffs[a]
                # c * i + one of ``others`` is in bounds for some i.
                low, high = -(others.hi - 1), bound - 1 - others.lo
                lo, hi = (-(-low // c), high // c) if c > 0 else (-(high // -c), -low // -c)
                spans[a] = Span(max(before.lo, lo), min(before.hi, hi + 1))
                if spans[a].size <= 0:
                    return tuple(Span(0, 0) for _ in extents)
                changed |= spans[a] != before
    return tuple(spans)


def merge_loops(
    extents: Sequence[int], strides: Sequence[Sequence[int]], fixed: Collection[int] = ()
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Merge pairs of loops that every operand walks as one; ``strides[operand][loop]``.

    Loops of one point go; ``fixed`` ones stay as they are. Returns the extents of the loops that are left, and the
    numbers that these had: a merged loop has the strides of the inner of the two.
    """
    axes = [a for a, e in enumerate(extents) if e > 1 or a in fixed]
    merged = {a: extents[a] for a in axes}
    step = {a: [s[a] for s in strides] for a in axes if a not in fixed}
    # By how much the operands move with all of a loop: one of such steps goes on where it ends.
    beyond = {a: [stride * extents[a] for stride in step[a]] for a in step}
    again = True
    while again:
        again = False
        for outer, inner in permutations(step, 2):
            if step[outer] == beyond[inner]:
                merged[inner] *= merged[outer]
                beyond[inner] = [stride * merged[inner] for stride in step[inner]]
                axes.remove(outer)
                del step[outer]
                again = True
                break
    return tuple(merged[a] for a in axes), tuple(axes)
