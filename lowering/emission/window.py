"""Combinations over windows become instructions that know them: depthwise convolutions, pools, sums over rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.box import Affine, Span
from ...ir.isa.loop_bounds import Clipped, Dimension, clip, merge_loops
from ...ir.isa.window_selection import Slot, WindowPart, cheapest_parts, overwrites, window_mnemonic
from ...ir.machine import Engine
from ..loops.axes import ByteAccess, ByteNest, Piece, over, pieces
from ..loops.perfect_nest import Load, PerfectNest
from .vector import Buffers, Emitted, OperandRef, byte_nest, dimensions

ANY_COST = 2**62
"""Cycles that no instructions take."""


@dataclass(frozen=True)
class Bounded:
    """A combination over the points that find something in bounds, with conditions where loops decide that together."""

    nest: ByteNest
    clipped: Clipped


def bounded(nest: PerfectNest, buffers: Buffers) -> Bounded | None:
    """The same combination, by the bounds of what it reads; ``None`` if everything is out of bounds."""
    loads = [o for o in nest.operands if isinstance(o, Load)]
    raw = byte_nest(replace(nest, operands=tuple(replace(load, conditions=()) for load in loads)), buffers)
    reads = [dimensions(load, buffers) if load.conditions else () for load in loads]
    clipped = clip(nest.extents, [not s for s in raw.accesses[0].strides], reads)
    if clipped.empty:
        return None

    def moved(index: Affine) -> Affine:
        const = index.const + sum(c * s.lo for c, s in zip(index.coeffs, clipped.spans, strict=True))
        return Affine(index.coeffs, const)

    accesses = tuple(ByteAccess(w.buffer, moved(Affine(w.strides, w.base)).const, w.strides) for w in raw.accesses)
    conditions = [moved(c) for c in nest.conditions]
    for g in (g for guards in clipped.guards for g in guards):
        conditions += [g.index, Affine(tuple(-c for c in g.coeffs), g.bound - 1 - g.const)]
    always = {c for c in conditions if c.over(tuple(Span(0, e) for e in clipped.extents)).lo >= 0}
    return Bounded(
        ByteNest(clipped.extents, accesses, tuple(c for c in conditions if c not in always), raw.fields), clipped
    )


def windows(
    nest: PerfectNest, inside: Bounded, buffers: Buffers, engine: Engine, started: bool, below: int
) -> tuple[list[Emitted], bool] | None:
    """The instructions, if they take fewer than ``below`` cycles; also whether they overwrite what they write.

    ``started``: the destination already holds a part of the result.
    """
    loads = [o for o in nest.operands if isinstance(o, Load)]
    mnemonic = window_mnemonic(nest.func, nest.combine or "", len(loads))
    if mnemonic is None or len(loads) < len(nest.operands) or nest.conditions:
        return None
    clipped = inside.clipped
    extents, kept = merge_loops(clipped.extents, [w.strides for w in inside.nest.accesses], clipped.guarded)
    flat = over(replace(inside.nest, conditions=()), extents, kept)
    parts = cheapest_parts(
        engine,
        flat.extents,
        tuple(w.strides for w in flat.accesses),
        tuple(tuple(g.renumbered(kept) for g in guards) for guards in clipped.guards),
        [buffers[load.buffer].dtype for load in loads],
        below,
    )
    if not parts:
        return None
    replaces = clipped.covered and not started and all(overwrites(p, nest.combine or "") for p in parts)
    return [e for p in parts for e in _instructions(mnemonic, _restricted(flat, p), p, replaces)], replaces


def _restricted(flat: ByteNest, part: WindowPart) -> ByteNest:
    """The loops that a part does, each from its first point."""
    if part.only is None:
        return flat
    loop, span = part.only
    extents = tuple(span.size if a == loop else e for a, e in enumerate(flat.extents))
    accesses = tuple(replace(w, base=w.base + w.strides[loop] * span.lo) for w in flat.accesses)
    return replace(flat, extents=extents, accesses=accesses)


def _instructions(mnemonic: str, flat: ByteNest, part: WindowPart, replaces: bool) -> list[Emitted]:
    """One for each point of the loops outside; those that see nothing are left out."""
    nest, window = part.nest, part.form
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
        out.append(_emitted(mnemonic, flat, part, piece, values, acc))
    return out


def _origin(guard: Dimension, values: dict[int, int]) -> int:
    """The position at the first point of the loops inside."""
    return guard.const + sum(guard.coeffs[a] * v for a, v in values.items())


def _emitted(
    mnemonic: str, flat: ByteNest, part: WindowPart, piece: Piece, values: dict[int, int], acc: int
) -> Emitted:
    nest, window = part.nest, part.form
    row, column = window.row, window.column

    def extent(loop: int | None) -> int:
        return 1 if loop is None else flat.extents[loop]

    def steps(walk: int, *loops: int | None) -> tuple[int, ...]:
        return tuple(0 if a is None else flat.accesses[walk].strides[a] for a in loops)

    def bounds(slot: Slot) -> tuple[int, int]:
        """The first position, and how many there are."""
        if slot.guard is not None:
            return _origin(nest.guards[slot.guard], values), nest.guards[slot.guard].bound
        return 0, (extent(slot.out) - 1) * slot.stride + (extent(slot.kernel) - 1) * slot.dilation + 1

    (h0, height), (w0, width) = bounds(row), bounds(column)
    fields = (
        ("oh", extent(row.out)), ("ow", extent(column.out)), ("n", extent(window.lane)),
        ("kh", extent(row.kernel)), ("kw", extent(column.kernel)), ("p", extent(window.beside)),
        ("sh", row.stride), ("sw", column.stride), ("dh", row.dilation), ("dw", column.dilation),
        ("h0", h0), ("w0", w0), ("H", height), ("W", width), ("acc", acc),
    )  # fmt: skip
    source = 1 + part.source
    # The base is that of row 0, column 0.
    base = piece.bases[source] - h0 * row.pitch - w0 * column.pitch
    pitches = (row.pitch, column.pitch, *steps(source, window.beside, window.lane))
    target = steps(0, row.out, column.out, window.beside, window.lane)
    refs = [
        OperandRef("dst", flat.accesses[0].buffer, piece.bases[0], target),
        OperandRef("a", flat.accesses[source].buffer, base, pitches),
    ]
    for operand in (n for n in range(1, len(flat.accesses)) if n != source):
        strides = steps(operand, row.kernel, column.kernel, window.lane)
        refs.append(OperandRef("b", flat.accesses[operand].buffer, piece.bases[operand], strides))
    return Emitted(mnemonic, fields, tuple(refs))
