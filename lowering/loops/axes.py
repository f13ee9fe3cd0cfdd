"""Loop nests over bytes: clipping by conditions, merging of loops, and the choice of an instruction's axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import prod

from ...ir.box import Affine


@dataclass(frozen=True)
class Walk:
    """How a nest walks one buffer: byte offset at the first point, and byte stride of each loop."""

    buffer: str
    base: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class ByteNest:
    """A nest whose accesses are byte walks: the destination first, then the sources.

    ``conditions`` (each affine in the loops must be >= 0) restrict the points.
    """

    extents: tuple[int, ...]
    walks: tuple[Walk, ...]
    conditions: tuple[Affine, ...]


@dataclass(frozen=True)
class Piece:
    """One instruction's worth of a nest: extents of its axes, and base and strides of each walk along them."""

    extents: tuple[int, ...]
    bases: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    outer: tuple[int, ...]
    """The values of the loops outside of the instruction."""


def tighten(nest: ByteNest) -> ByteNest | None:
    """Conditions on a single loop become its bounds; those that always hold go. ``None`` if no point is left."""
    low = [0] * len(nest.extents)
    high = list(nest.extents)
    kept: list[Affine] = []
    for condition in nest.conditions:
        used = [a for a, c in enumerate(condition.coeffs) if c and nest.extents[a] > 1]
        const = condition.const
        if not used:
            if const < 0:
                return None
            continue
        if len(used) > 1:
            kept.append(condition)
            continue
        axis, c = used[0], condition.coeffs[used[0]]
        if c > 0:
            low[axis] = max(low[axis], -(const // c))
        else:
            high[axis] = min(high[axis], const // -c + 1)
    if any(b <= a for a, b in zip(low, high, strict=True)):
        return None
    walks = tuple(
        Walk(w.buffer, w.base + sum(s * a for s, a in zip(w.strides, low, strict=True)), w.strides) for w in nest.walks
    )
    conditions = tuple(Affine(c.coeffs, c.const + sum(k * a for k, a in zip(c.coeffs, low, strict=True))) for c in kept)
    return ByteNest(tuple(b - a for a, b in zip(low, high, strict=True)), walks, conditions)


def collapse(nest: ByteNest) -> ByteNest:
    """Merge pairs of loops that every walk sees as one; loops of extent one go. Conditions keep their loops apart."""
    return collapse_except(nest, frozenset())[0]


def collapse_except(nest: ByteNest, apart: frozenset[int]) -> tuple[ByteNest, tuple[int, ...]]:
    """Like :func:`collapse`, but the loops in ``apart`` stay as they are; also the old position of each loop left."""
    bound = {a for c in nest.conditions for a, k in enumerate(c.coeffs) if k} | apart
    axes = [a for a, e in enumerate(nest.extents) if e > 1 or a in bound]
    extents = {a: nest.extents[a] for a in axes}
    merged = True
    while merged:
        merged = False
        for outer, inner in permutations(axes, 2):
            if outer in bound or inner in bound:
                continue
            if all(w.strides[outer] == w.strides[inner] * extents[inner] for w in nest.walks):
                extents[inner] *= extents[outer]
                axes.remove(outer)
                merged = True
                break
    walks = tuple(Walk(w.buffer, w.base, tuple(w.strides[a] for a in axes)) for w in nest.walks)
    conditions = tuple(Affine(tuple(c.coeffs[a] for a in axes), c.const) for c in nest.conditions)
    return ByteNest(tuple(extents[a] for a in axes), walks, conditions), tuple(axes)


def pieces(nest: ByteNest, axes: Sequence[int], rank: int) -> Iterator[Piece]:
    """The nest as instructions over ``axes`` (padded in front to ``rank``), one for each value of the other loops."""
    outer = [a for a in range(len(nest.extents)) if a not in axes]
    padding = rank - len(axes)
    for values in product(*(range(nest.extents[a]) for a in outer)):
        fixed = dict(zip(outer, values, strict=True))
        inner = ByteNest(
            tuple(nest.extents[a] for a in axes),
            tuple(
                Walk(
                    w.buffer,
                    w.base + sum(w.strides[a] * v for a, v in fixed.items()),
                    tuple(w.strides[a] for a in axes),
                )
                for w in nest.walks
            ),
            tuple(
                Affine(tuple(c.coeffs[a] for a in axes), c.const + sum(c.coeffs[a] * v for a, v in fixed.items()))
                for c in nest.conditions
            ),
        )
        clipped = tighten(inner)
        if clipped is None:
            continue
        assert not clipped.conditions, "the axes of an instruction depend on one another"
        yield Piece(
            (*(1,) * padding, *clipped.extents),
            tuple(w.base for w in clipped.walks),
            tuple((*(0,) * padding, *w.strides) for w in clipped.walks),
            values,
        )


def independent(nest: ByteNest, axes: Sequence[int]) -> bool:
    """Whether no condition ties two of ``axes`` together."""
    return all(sum(1 for a in axes if c.coeffs[a]) <= 1 for c in nest.conditions)


def choices(count: int, rank: int) -> Iterator[tuple[int, ...]]:
    """Ways to give up to ``rank`` of ``count`` loops to an instruction; only which one is last matters."""
    if count <= rank:
        for last in range(count):
            yield (*(a for a in range(count) if a != last), last)
        if not count:
            yield ()
        return
    seen: set[tuple[frozenset[int], int]] = set()
    for axes in permutations(range(count), rank):
        key = (frozenset(axes), axes[-1])
        if key not in seen:
            seen.add(key)
            yield (*sorted(axes[:-1]), axes[-1])


def repeats(nest: ByteNest, axes: Sequence[int]) -> int:
    """How many instructions :func:`pieces` makes at most."""
    return prod(e for a, e in enumerate(nest.extents) if a not in axes)
