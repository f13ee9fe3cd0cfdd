"""Contractions become matrix instructions; :mod:`girih.ir.isa.matrix_selection` chooses their loops."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.errors import GirihError, UnsupportedError
from ...ir.isa.matrix_selection import MatrixForm, MatrixPart, matrix_parts
from ...ir.machine import Engine
from ..loops.axes import ByteAccess, ByteNest, Piece, over, pieces, tighten
from ..loops.perfect_nest import Load, PerfectNest
from .vector import Buffers, Emitted, OperandRef, byte_nest, dimensions


def contraction(
    nest: PerfectNest,
    buffers: Buffers,
    engine: Engine,
    started: bool,
    start: PerfectNest | None = None,
    *,
    staged: bool = False,
) -> tuple[list[Emitted], bool]:
    """The matrix instructions of a contraction; also whether they overwrite, so that no initial fill is needed.

    ``started``: the destination already holds a part of the sum. ``start``: the copy of what the sum starts from, which
    the first instruction at each place can add by itself if only its columns tell biases apart. ``staged``: the machine
    has staging memories.
    """
    load = nest.operands[0]
    assert isinstance(load, Load)
    if load.conditions and load.fill != 0.0:
        raise UnsupportedError(f"a contraction reads {load.fill} outside of {load.buffer}; only zero is known")
    raw = byte_nest(nest, buffers)
    if start is not None:
        bias = _bias(raw, start, buffers)
        raw = raw if bias is None else replace(raw, accesses=(*raw.accesses, bias))
        started |= bias is None
    if tighten(raw) is None:
        return [], False  # this part of the kernel lies outside of the operand altogether
    tight = tighten(ByteNest(raw.extents, raw.accesses, nest.conditions))
    if tight is None or tight.conditions or tight.accesses != raw.accesses:
        raise GirihError("a contraction is bounded by more than the ends of its loops")
    parts = matrix_parts(
        engine,
        buffers[load.buffer].dtype,
        tight.extents,
        tuple(w.strides for w in tight.accesses),
        dimensions(load, buffers),
        {a for c in load.conditions for a, k in enumerate(c.coeffs) if k},
        nest.instruction,
        nest.axes,
        started=started,
        staged=staged,
    )
    placed = [_placed(_restricted(tight, part), part) for part in parts]
    whole = all(t == e for t, e, s in zip(tight.extents, nest.extents, tight.accesses[0].strides, strict=True) if s)
    overwrites = not started and whole and all(part.overwrites for part in placed if part.first)
    return [e for part in placed for e in _instructions(part, covers=overwrites and part.first)], overwrites


@dataclass(frozen=True)
class _Placed:
    """The instructions of one part, each with the values of the loops outside of it; ``nest`` has the part's loops.

    ``first``: see :class:`~girih.ir.isa.matrix_selection.MatrixPart`. ``overwrites``: each of its results has an
    instruction that can overwrite it, with what the sum starts from.
    """

    nest: ByteNest
    form: MatrixForm
    pieces: tuple[tuple[Piece, dict[int, int]], ...]
    first: bool
    overwrites: bool


def _restricted(nest: ByteNest, part: MatrixPart) -> ByteNest:
    """The points of a part, each loop from its first one."""
    accesses = tuple(
        replace(w, base=w.base + sum(s * at for s, at in zip(w.strides, part.origin, strict=True)))
        for w in nest.accesses
    )
    return replace(nest, extents=part.extents, accesses=accesses)


def _placed(nest: ByteNest, part: MatrixPart) -> _Placed:
    form = part.form
    flat = over(nest, form.extents, form.kept)
    axes = [a for a in form.axes if a is not None]
    outside = [a for a in range(len(flat.extents)) if a not in axes]
    every = [(p, dict(zip(outside, p.outer, strict=True))) for p in pieces(flat, axes, len(axes))]
    inside = tuple((p, values) for p, values in every if all(0 <= w.start(values) < w.bound for w in form.repeated))
    overwrites = {p.bases[0] for p, _ in inside} == {p.bases[0] for p, _ in every}
    overwrites &= all(not w.strides[a] for w in flat.accesses[3:] for a in axes if a != form.n)
    return _Placed(flat, form, inside, part.first, overwrites)


def _instructions(part: _Placed, *, covers: bool) -> list[Emitted]:
    """The first at each place overwrites what is there if the part ``covers`` all; the others add to it."""
    seen: set[int] = set()
    out: list[Emitted] = []
    for piece, values in part.pieces:
        acc = int(not covers or piece.bases[0] in seen)
        seen.add(piece.bases[0])
        out.append(_emitted(part.nest, part.form, piece, values, acc))
    return out


def _emitted(flat: ByteNest, form: MatrixForm, piece: Piece, values: dict[int, int], acc: int) -> Emitted:
    """One instruction; ``values`` are those of the loops outside of it."""
    axes = [a for a in form.axes if a is not None]
    positions = [None if a is None else axes.index(a) for a in form.axes]
    extents = [1 if p is None else piece.extents[p] for p in positions]
    to, le, ri = ([0 if p is None else walk[p] for p in positions] for walk in piece.strides[:3])
    target, left, right = (w.buffer for w in flat.accesses[:3])
    # The bias is added once, by what comes first.
    biases = () if acc else tuple(zip(flat.accesses[3:], piece.bases[3:], piece.strides[3:], strict=True))
    column_of = None if form.n is None else axes.index(form.n)
    added = tuple(OperandRef("c", w.buffer, at, (0 if column_of is None else s[column_of],)) for w, at, s in biases)
    suffix = ".bias" if added else ""
    base, row, column = piece.bases[1], form.row, form.column
    if row is None or column is None:
        m, n, k = extents
        return Emitted(
            f"mmatmul{suffix}",
            (("m", m), ("n", n), ("k", k), ("acc", acc)),
            (
                OperandRef("dst", target, piece.bases[0], (to[0], to[1])),
                OperandRef("a", left, base, (le[0], le[2])),
                OperandRef("b", right, piece.bases[2], (ri[2], ri[1])),
                *added,
            ),
        )
    h0, w0 = row.start(values), column.start(values)
    fields = (
        *zip(("oh", "ow", "n", "kh", "kw", "ci"), extents, strict=True),
        ("sh", row.stride), ("sw", column.stride), ("dh", row.dilation), ("dw", column.dilation),
        ("h0", h0), ("w0", w0), ("H", row.bound), ("W", column.bound), ("acc", acc),
    )  # fmt: skip
    refs = (
        OperandRef("dst", target, piece.bases[0], (to[0], to[1], to[2])),
        # The base is that of row 0, column 0.
        OperandRef("a", left, base - h0 * row.pitch - w0 * column.pitch, (row.pitch, column.pitch, le[5])),
        OperandRef("b", right, piece.bases[2], (ri[3], ri[4], ri[5], ri[2])),
        *added,
    )
    return Emitted(f"mconv{suffix}", fields, refs)


def _bias(nest: ByteNest, start: PerfectNest, buffers: Buffers) -> ByteAccess | None:
    """How the loops of a contraction walk what it starts from; ``None`` if they are not those of the copy.

    The loops of both write the same elements, so that a stride in the destination tells which is which.
    """
    copy = byte_nest(start, buffers)
    if copy.conditions or len(copy.accesses) != 2:
        return None
    target, source = copy.accesses
    loops = {
        (s, e): source.strides[a] for a, (s, e) in enumerate(zip(target.strides, copy.extents, strict=True)) if e > 1
    }
    wanted = [(s, e) for s, e in zip(nest.accesses[0].strides, nest.extents, strict=True) if s and e > 1]
    if sorted(wanted) != sorted(loops) or target.base != nest.accesses[0].base:
        return None
    strides = tuple(
        loops.get((s, e), 0) if s else 0 for s, e in zip(nest.accesses[0].strides, nest.extents, strict=True)
    )
    return ByteAccess(source.buffer, source.base, strides)
