"""Loop nests over bytes: clipping by conditions, merging of loops, and cutting into instructions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from ...ir.box import Affine
from ...ir.isa.loop_bounds import merge_loops


@dataclass(frozen=True)
class ByteAccess:
    """How a nest accesses one buffer: byte offset at the first point, and byte stride of each loop."""

    buffer: str
    base: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class ByteNest:
    """A nest whose accesses are one byte access each: the destination first, then the sources.

    ``conditions`` (each affine in the loops must be >= 0) restrict the points. ``fields`` says of each loop which field
    of an instruction the user wants it to be; it may be empty.
    """

    extents: tuple[int, ...]
    accesses: tuple[ByteAccess, ...]
    conditions: tuple[Affine, ...]
    fields: tuple[str, ...] = ()


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
    accesses = tuple(
        ByteAccess(w.buffer, w.base + sum(s * a for s, a in zip(w.strides, low, strict=True)), w.strides)
        for w in nest.accesses
    )
    conditions = tuple(Affine(c.coeffs, c.const + sum(k * a for k, a in zip(c.coeffs, low, strict=True))) for c in kept)
    return ByteNest(tuple(b - a for a, b in zip(low, high, strict=True)), accesses, conditions, nest.fields)


def merged(nest: ByteNest) -> ByteNest:
    """Merge pairs of loops that every walk sees as one; loops of extent one go. Conditions keep their loops apart.

    So do the wishes of the user.
    """
    fixed = {a for c in nest.conditions for a, k in enumerate(c.coeffs) if k}
    fixed |= {a for a, field in enumerate(nest.fields) if field}
    extents, kept = merge_loops(nest.extents, [w.strides for w in nest.accesses], fixed)
    return over(nest, extents, kept)


def over(nest: ByteNest, extents: tuple[int, ...], kept: Sequence[int]) -> ByteNest:
    """The nest over loops of these ``extents``, of which the i-th has the strides of loop ``kept[i]``."""
    accesses = tuple(ByteAccess(w.buffer, w.base, tuple(w.strides[a] for a in kept)) for w in nest.accesses)
    conditions = tuple(Affine(tuple(c.coeffs[a] for a in kept), c.const) for c in nest.conditions)
    return ByteNest(extents, accesses, conditions, tuple(nest.fields[a] for a in kept) if nest.fields else ())


def pieces(nest: ByteNest, axes: Sequence[int], rank: int) -> Iterator[Piece]:
    """The nest as instructions over ``axes`` (padded in front to ``rank``), one for each value of the other loops."""
    outer = [a for a in range(len(nest.extents)) if a not in axes]
    padding = rank - len(axes)
    for values in product(*(range(nest.extents[a]) for a in outer)):
        fixed = dict(zip(outer, values, strict=True))
        inner = ByteNest(
            tuple(nest.extents[a] for a in axes),
            tuple(
                ByteAccess(
                    w.buffer,
                    w.base + sum(w.strides[a] * v for a, v in fixed.items()),
                    tuple(w.strides[a] for a in axes),
                )
                for w in nest.accesses
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
            tuple(w.base for w in clipped.accesses),
            tuple((*(0,) * padding, *w.strides) for w in clipped.accesses),
            values,
        )


def tied(nest: ByteNest) -> list[list[int]]:
    """For each condition the loops that it ties together: one instruction takes one of them at the most."""
    return [[a for a, k in enumerate(c.coeffs) if k] for c in nest.conditions]
