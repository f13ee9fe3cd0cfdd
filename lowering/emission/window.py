"""Combinations over windows become instructions that know them: depthwise convolutions, pools, sums over rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.box import Affine, Span
from ...ir.isa.window_selection import Found, Guard, Part, Slot, cheapest_parts, overwrites, visited, window_mnemonic
from ...ir.machine import Engine
from ..loops.axes import ByteNest, Piece, Walk, collapse_except, pieces
from ..loops.perfect_nest import Load, Nest
from .vector import Buffers, Emitted, Ref, byte_nest


@dataclass(frozen=True)
class Bounded:
    """A combination over the points that find something in bounds, with conditions where loops decide that together.

    ``guards``: the dimensions of each load in which they do. ``covered``: every element of the destination is visited.
    """

    nest: ByteNest
    guards: tuple[tuple[Guard, ...], ...]
    covered: bool


def bounded(nest: Nest, buffers: Buffers) -> Bounded | None:
    """The same combination, by the bounds of what it reads; ``None`` if everything is out of bounds."""
    loads = [o for o in nest.operands if isinstance(o, Load)]
    raw = byte_nest(replace(nest, operands=tuple(replace(load, conditions=()) for load in loads)), buffers)
    target = raw.walks[0].strides
    guarded = [(i, bound) for load in loads if load.conditions for i, bound in _leaving(load, nest.extents, buffers)]
    spans = visited(nest.extents, [not s for s in target], guarded)
    if any(span.size == 0 for span in spans):
        return None
    extents = tuple(span.size for span in spans)

    def moved(index: Affine) -> Affine:
        return Affine(index.coeffs, index.const + sum(c * s.lo for c, s in zip(index.coeffs, spans, strict=True)))

    walks = tuple(Walk(w.buffer, moved(Affine(w.strides, w.base)).const, w.strides) for w in raw.walks)
    inside = [replace(load, index=tuple(map(moved, load.index))) for load in loads]
    guards = tuple(_guards(load, extents, buffers) if load.conditions else () for load in inside)
    conditions = [moved(c) for c in nest.conditions]
    for g in (g for of_load in guards for g in of_load):
        conditions += [Affine(g.coeffs, g.const), Affine(tuple(-c for c in g.coeffs), g.bound - 1 - g.const)]
    always = {c for c in conditions if c.over(tuple(Span(0, e) for e in extents)).lo >= 0}
    kept = tuple(c for c in conditions if c not in always)
    covered = all(t == e for t, e, s in zip(extents, nest.extents, target, strict=True) if s)
    return Bounded(ByteNest(extents, walks, kept), guards, covered)


def _leaving(load: Load, extents: tuple[int, ...], buffers: Buffers) -> list[tuple[Affine, int]]:
    """The dimensions of a load whose positions are not all in bounds, and their bounds."""
    points = tuple(Span(0, e) for e in extents)
    reached = [(i, bound, i.over(points)) for i, bound in zip(load.index, buffers[load.buffer].shape, strict=True)]
    return [(i, bound) for i, bound, span in reached if span.lo < 0 or span.hi > bound]


def _guards(load: Load, extents: tuple[int, ...], buffers: Buffers) -> tuple[Guard, ...]:
    leaving, array = _leaving(load, extents, buffers), buffers[load.buffer]
    return tuple(
        Guard(i.coeffs, i.const, bound, pitch)
        for i, bound, pitch in zip(load.index, array.shape, array.strides, strict=True)
        if (i, bound) in leaving
    )


def windows(
    nest: Nest, inside: Bounded, buffers: Buffers, engine: Engine, started: bool, below: int
) -> tuple[list[Emitted], bool] | None:
    """The instructions, if they take fewer than ``below`` cycles; also whether they overwrite what they write.

    ``started``: the destination already holds a part of the result.
    """
    loads = [o for o in nest.operands if isinstance(o, Load)]
    mnemonic = window_mnemonic(nest.func, nest.combine or "", len(loads))
    if mnemonic is None or len(loads) < len(nest.operands) or nest.conditions:
        return None
    tight = inside.nest
    apart = {a for of_load in inside.guards for g in of_load for a in g.loops if tight.extents[a] > 1}
    flat, kept = collapse_except(ByteNest(tight.extents, tight.walks, ()), frozenset(apart))
    parts = cheapest_parts(
        engine,
        flat.extents,
        tuple(w.strides for w in flat.walks),
        tuple(tuple(_renumbered(g, kept) for g in gs) for gs in inside.guards),
        [buffers[load.buffer].dtype for load in loads],
        below,
    )
    if not parts:
        return None
    found = [part.found for part in parts]
    replaces = inside.covered and not started
    replaces &= all(overwrites(f.nest, f.window, nest.combine or "") for f in found)
    return [e for p in parts for e in _instructions(mnemonic, _part(flat, p), p.found, replaces)], replaces


def _part(flat: ByteNest, part: Part) -> ByteNest:
    """The loops that a part does, each from its first point."""
    if part.only is None:
        return flat
    loop, span = part.only
    extents = tuple(span.size if a == loop else e for a, e in enumerate(flat.extents))
    walks = tuple(replace(w, base=w.base + w.strides[loop] * span.lo) for w in flat.walks)
    return replace(flat, extents=extents, walks=walks)


def _renumbered(guard: Guard, kept: tuple[int, ...]) -> Guard:
    return Guard(tuple(guard.coeffs[a] for a in kept), guard.const, guard.bound, guard.pitch)


def _instructions(mnemonic: str, flat: ByteNest, found: Found, replaces: bool) -> list[Emitted]:
    """One for each point of the loops outside; those that see nothing are left out."""
    nest, window = found.nest, found.window
    outside = [a for a in range(len(flat.extents)) if a not in window.loops]
    walked = [g for n, g in enumerate(nest.guards) if all(s.guard != n for s in (window.row, window.column))]
    seen: set[int] = set()
    out: list[Emitted] = []
    for piece in pieces(flat, window.loops, len(window.loops)):
        values = dict(zip(outside, piece.outer, strict=True))
        if not all(0 <= _origin(g, values) < g.bound for g in walked):
            continue
        acc = int(not replaces or piece.bases[0] in seen)
        seen.add(piece.bases[0])
        out.append(_emitted(mnemonic, flat, found, piece, values, acc))
    return out


def _origin(guard: Guard, values: dict[int, int]) -> int:
    """The position at the first point of the loops inside."""
    return guard.const + sum(guard.coeffs[a] * v for a, v in values.items())


def _emitted(mnemonic: str, flat: ByteNest, found: Found, piece: Piece, values: dict[int, int], acc: int) -> Emitted:
    nest, window = found.nest, found.window
    row, column = window.row, window.column

    def extent(loop: int | None) -> int:
        return 1 if loop is None else flat.extents[loop]

    def steps(walk: int, *loops: int | None) -> tuple[int, ...]:
        return tuple(0 if a is None else flat.walks[walk].strides[a] for a in loops)

    def bounds(slot: Slot) -> tuple[int, int]:
        """The first position, and how many there are."""
        if slot.guard is not None:
            return _origin(nest.guards[slot.guard], values), nest.guards[slot.guard].bound
        return 0, (extent(slot.out) - 1) * slot.stride + (extent(slot.kernel) - 1) * slot.dilation + 1

    (h0, height), (w0, width) = bounds(row), bounds(column)
    fields = (
        ("oh", extent(row.out)), ("ow", extent(column.out)), ("n", extent(window.lane)),
        ("kh", extent(row.kernel)), ("kw", extent(column.kernel)),
        ("sh", row.stride), ("sw", column.stride), ("dh", row.dilation), ("dw", column.dilation),
        ("h0", h0), ("w0", w0), ("H", height), ("W", width), ("acc", acc),
    )  # fmt: skip
    source = 1 + found.source
    # The base is that of row 0, column 0.
    base = piece.bases[source] - h0 * row.pitch - w0 * column.pitch
    pitches = (row.pitch, column.pitch, *steps(source, window.lane))
    refs = [
        Ref("dst", flat.walks[0].buffer, piece.bases[0], steps(0, row.out, column.out, window.lane)),
        Ref("a", flat.walks[source].buffer, base, pitches),
    ]
    for other in (n for n in range(1, len(flat.walks)) if n != source):
        strides = steps(other, row.kernel, column.kernel, window.lane)
        refs.append(Ref("b", flat.walks[other].buffer, piece.bases[other], strides))
    return Emitted(mnemonic, fields, tuple(refs))
