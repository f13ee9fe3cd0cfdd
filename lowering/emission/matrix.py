"""Contractions become matrix instructions.

A dimension of the left operand that an output loop and a reduce loop walk together is a *window* (the rows or columns
of a convolution); the instruction itself knows stride, dilation and the operand's bounds there. Without windows a
contraction whose loops merge into one of each role is a matrix product. Loops that do not fit into an instruction are
walked around it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

from ...ir.box import Affine
from ...ir.errors import GirihError, UnsupportedError
from ...ir.isa.timing import matrix_body
from ...ir.machine import Engine
from ..loops.axes import ByteNest, Piece, Walk, collapse_except, pieces, tighten
from ..loops.perfect_nest import Load, Nest
from .vector import Buffers, Emitted, Ref, byte_nest


@dataclass(frozen=True)
class _Window:
    """One dimension of the left operand: its loops in the instruction (``None``: extent one) and their steps.

    ``origin`` is the position at their first point, affine in the loops outside; ``pitch`` is the byte stride.
    Positions outside of ``0 <= p < bound`` yield zero; there are none unless it is ``guarded``.
    """

    out: int | None
    kernel: int | None
    stride: int
    dilation: int
    origin: Affine
    bound: int
    pitch: int
    guarded: bool = False

    @property
    def inner(self) -> tuple[int, ...]:
        return tuple(a for a in (self.out, self.kernel) if a is not None)

    @property
    def loops(self) -> tuple[int, ...]:
        return (*self.inner, *(a for a, c in enumerate(self.origin.coeffs) if c))

    def start(self, outer: dict[int, int]) -> int:
        """The origin for these values of the loops outside."""
        return self.origin.const + sum(c * outer[a] for a, c in enumerate(self.origin.coeffs) if c)

    def walked(self) -> _Window:
        """The same with all of its loops outside of the instruction."""
        coeffs = list(self.origin.coeffs)
        for loop, step in ((self.out, self.stride), (self.kernel, self.dilation)):
            if loop is not None:
                coeffs[loop] = step
        return replace(self, out=None, kernel=None, origin=Affine(tuple(coeffs), self.origin.const))

    def renumbered(self, kept: tuple[int, ...]) -> _Window:
        """``kept[i]`` is the old number of loop i."""
        new = {old: position for position, old in enumerate(kept)}
        out, kernel = (None if a is None else new[a] for a in (self.out, self.kernel))
        origin = Affine(tuple(self.origin.coeffs[a] for a in kept), self.origin.const)
        return replace(self, out=out, kernel=kernel, origin=origin)


@dataclass(frozen=True)
class _Roles:
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]


def _roles(nest: ByteNest) -> _Roles:
    target, left, right = (w.strides for w in nest.walks[:3])
    m: list[int] = []
    n: list[int] = []
    k: list[int] = []
    for a in range(len(nest.extents)):
        if not target[a]:
            k.append(a)
        elif not right[a]:
            m.append(a)
        elif not left[a]:
            n.append(a)
    return _Roles(tuple(m), tuple(n), tuple(k))


def _windows(nest: ByteNest, load: Load, buffers: Buffers) -> list[_Window]:
    """The windows of the left operand that matter; at most two have loops in the instruction."""
    roles, array, extents = _roles(nest), buffers[load.buffer], nest.extents
    conditioned = {a for c in load.conditions for a, k in enumerate(c.coeffs) if k}
    found: list[_Window] = []
    for index, bound, pitch in zip(load.index, array.shape, array.strides, strict=True):
        used = [a for a, c in enumerate(index.coeffs) if c and extents[a] > 1]
        guarded = not conditioned.isdisjoint(used)
        # The loops of an instruction go forwards, and through no other dimension.
        able = [a for a in used if index.coeffs[a] > 0 and nest.walks[1].strides[a] == index.coeffs[a] * pitch]
        out = max((a for a in able if a in roles.m), key=lambda a: extents[a], default=None)
        kernel = max((a for a in able if a in roles.k), key=lambda a: extents[a], default=None)
        if not guarded and (out is None or kernel is None):
            continue
        stride, dilation = (1 if a is None else index.coeffs[a] for a in (out, kernel))
        # Where nothing can fall outside, the other loops may move the window without its knowledge.
        rest = [c if guarded and a in used and a not in (out, kernel) else 0 for a, c in enumerate(index.coeffs)]
        origin = Affine(tuple(rest), index.const)
        found.append(_Window(out, kernel, stride, dilation, origin, bound, pitch, guarded))
    placed = sorted((w for w in found if w.inner), key=lambda w: -prod(extents[a] for a in w.inner))[:2]
    return [w if w in placed else w.walked() for w in found if w in placed or w.guarded]


@dataclass(frozen=True)
class _Choice:
    """The loops of an instruction. Without ``row`` and ``column`` it is a product, with them a convolution."""

    row: _Window | None
    column: _Window | None
    m: int | None
    n: int | None
    k: int | None

    @property
    def axes(self) -> tuple[int | None, ...]:
        """In the order of the extents of ``mconv`` or ``mmatmul``."""
        if self.row is None or self.column is None:
            return (self.m, self.n, self.k)
        return (self.row.out, self.column.out, self.n, self.row.kernel, self.column.kernel, self.k)


def _choose(flat: ByteNest, windows: list[_Window], engine: Engine, dtype: str) -> _Choice:
    """Windows go into the instruction; what room they leave is for the loops with which all of them take the least
    time, the longest where several do: 60 rows four times fill the array better than 80 rows three times."""
    roles = _roles(flat)
    taken = {a for w in windows for a in w.loops}
    m, n, k = (
        sorted((a for a in group if a not in taken), key=lambda a: -flat.extents[a])
        for group in (roles.m, roles.n, roles.k)
    )
    columns, depth = (group[0] if group else None for group in (n, k))
    inner = [w for w in windows if w.inner]
    if not inner and len(m) < 2 and len(k) < 2:
        return _Choice(None, None, m[0] if m else None, columns, depth)
    zero = Affine((0,) * len(flat.extents))
    others = sorted((*m, *k[1:]), key=lambda a: -flat.extents[a])
    held = [a for a in (columns, depth, *(a for w in inner for a in w.inner)) if a is not None]

    def cycles(chosen: tuple[int, ...]) -> int:
        there = {*held, *chosen}
        rows, cols, reduced = (
            prod(flat.extents[a] for a in group if a in there) for group in (roles.m, roles.n, roles.k)
        )
        times = prod(e for a, e in enumerate(flat.extents) if a not in there)
        return times * (engine.issue + matrix_body(engine, rows, cols, reduced, dtype))

    for a in min(combinations(others, min(len(others), 2 - len(inner))), key=cycles):
        out, kernel = (a, None) if a in m else (None, a)
        inner.append(_Window(out, kernel, 1, 1, zero, flat.extents[a], flat.walks[1].strides[a]))
    inner += [_Window(None, None, 1, 1, zero, 1, 0)] * (2 - len(inner))
    # The denser dimension is the column.
    row, column = sorted(inner, key=lambda w: -abs(w.pitch))
    return _Choice(row, column, None, columns, depth)


def contraction(
    nest: Nest, buffers: Buffers, engine: Engine, started: bool, start: Nest | None = None
) -> tuple[list[Emitted], bool]:
    """The matrix instructions of a contraction; also whether they overwrite, so that no initial fill is needed.

    ``started``: the destination already holds a part of the sum. ``start``: the copy of what the sum starts from, which
    the first instruction at each place can add by itself if only its columns tell biases apart.
    """
    load = nest.operands[0]
    assert isinstance(load, Load)
    if load.conditions and load.fill != 0.0:
        raise UnsupportedError(f"a contraction reads {load.fill} outside of {load.buffer}; only zero is known")
    raw = byte_nest(nest, buffers)
    if start is not None:
        bias = _bias(raw, start, buffers)
        raw = raw if bias is None else replace(raw, walks=(*raw.walks, bias))
        started |= bias is None
    if tighten(raw) is None:
        return [], False  # this part of the kernel lies outside of the operand altogether
    tight = tighten(ByteNest(raw.extents, raw.walks, nest.conditions))
    if tight is None or tight.conditions or tight.walks != raw.walks:
        raise GirihError("a contraction is bounded by more than the ends of its loops")
    windows = _windows(tight, load, buffers)
    flat, kept = collapse_except(tight, frozenset(a for w in windows for a in w.loops))
    windows = [w.renumbered(kept) for w in windows]
    choice = _choose(flat, windows, engine, buffers[load.buffer].dtype)
    axes = [a for a in choice.axes if a is not None]
    outside = [a for a in range(len(flat.extents)) if a not in axes]
    parts = [(p, dict(zip(outside, p.outer, strict=True))) for p in pieces(flat, axes, len(axes))]
    walked = [w for w in windows if not w.inner]
    inside = [(p, values) for p, values in parts if all(0 <= w.start(values) < w.bound for w in walked)]
    covered = all(t == e for t, e, s in zip(tight.extents, nest.extents, tight.walks[0].strides, strict=True) if s)
    covered &= {p.bases[0] for p, _ in inside} == {p.bases[0] for p, _ in parts}
    covered &= all(not w.strides[a] for w in flat.walks[3:] for a in axes if a != choice.n)
    overwrites = covered and not started
    seen: set[int] = set()
    out: list[Emitted] = []
    for piece, values in inside:
        acc = int(not overwrites or piece.bases[0] in seen)
        seen.add(piece.bases[0])
        out.append(_emitted(flat, choice, piece, values, acc))
    return out, overwrites


def _emitted(flat: ByteNest, choice: _Choice, piece: Piece, values: dict[int, int], acc: int) -> Emitted:
    """One instruction; ``values`` are those of the loops outside of it."""
    axes = [a for a in choice.axes if a is not None]
    positions = [None if a is None else axes.index(a) for a in choice.axes]
    extents = [1 if p is None else piece.extents[p] for p in positions]
    to, le, ri = ([0 if p is None else walk[p] for p in positions] for walk in piece.strides[:3])
    target, left, right = (w.buffer for w in flat.walks[:3])
    # The bias is added once, by what comes first.
    biases = () if acc else tuple(zip(flat.walks[3:], piece.bases[3:], piece.strides[3:], strict=True))
    column_of = None if choice.n is None else axes.index(choice.n)
    added = tuple(Ref("c", w.buffer, at, (0 if column_of is None else s[column_of],)) for w, at, s in biases)
    suffix = ".bias" if added else ""
    base, row, column = piece.bases[1], choice.row, choice.column
    if row is None or column is None:
        m, n, k = extents
        return Emitted(
            f"mmatmul{suffix}",
            (("m", m), ("n", n), ("k", k), ("acc", acc)),
            (
                Ref("dst", target, piece.bases[0], (to[0], to[1])),
                Ref("a", left, base, (le[0], le[2])),
                Ref("b", right, piece.bases[2], (ri[2], ri[1])),
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
        Ref("dst", target, piece.bases[0], (to[0], to[1], to[2])),
        # The base is that of row 0, column 0.
        Ref("a", left, base - h0 * row.pitch - w0 * column.pitch, (row.pitch, column.pitch, le[5])),
        Ref("b", right, piece.bases[2], (ri[3], ri[4], ri[5], ri[2])),
        *added,
    )
    return Emitted(f"mconv{suffix}", fields, refs)


def _bias(nest: ByteNest, start: Nest, buffers: Buffers) -> Walk | None:
    """How the loops of a contraction walk what it starts from; ``None`` if they are not those of the copy.

    The loops of both write the same elements, so that a stride in the destination tells which is which.
    """
    copy = byte_nest(start, buffers)
    if copy.conditions or len(copy.walks) != 2:
        return None
    target, source = copy.walks
    loops = {
        (s, e): source.strides[a] for a, (s, e) in enumerate(zip(target.strides, copy.extents, strict=True)) if e > 1
    }
    wanted = [(s, e) for s, e in zip(nest.walks[0].strides, nest.extents, strict=True) if s and e > 1]
    if sorted(wanted) != sorted(loops) or target.base != nest.walks[0].base:
        return None
    strides = tuple(loops.get((s, e), 0) if s else 0 for s, e in zip(nest.walks[0].strides, nest.extents, strict=True))
    return Walk(source.buffer, source.base, strides)
