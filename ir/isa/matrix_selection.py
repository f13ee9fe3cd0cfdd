"""Contractions as matrix instructions: which loops one of them takes, and the cycles of all.

Prediction and emission share this, so that what is emitted is what was counted on.

A dimension of the left operand that an output loop and a reduced loop walk together is a *window* (the rows or columns
of a convolution); the instruction itself knows stride, dilation and the operand's bounds there. Without windows, a
contraction whose loops merge into one of each role is a matrix product. Loops that do not fit into an instruction
repeat it. Where windows see padding, positions of a kernel can have instructions of their own, for the results that
they find something for: of 14 rows of 14, a row of a 3 x 3 kernel beside the middle finds something for 13, which are
three blocks of an array of 64 rows instead of four. Where these come first, the results that they do not reach become
zero, or what the sum starts from, by one product with padding.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

from ..box import Affine, Span
from ..errors import UnsupportedError
from ..graph import FLOATS
from ..machine import Engine
from .loop_bounds import Dimension, in_bounds, merge_loops
from .timing import divided, matrix_body

FIELDS = {"mmatmul": ("m", "n", "k"), "mconv": ("oh", "ow", "n", "kh", "kw", "ci")}
"""The extents of the instructions, in the order of :attr:`MatrixForm.axes`."""


@dataclass(frozen=True)
class MatrixWindow:
    """One dimension of the left operand: its loops in the instruction (``None``: extent one) and their steps.

    ``origin`` is the position at their first point, affine in the loops outside; ``pitch`` is the stride of a position.
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

    def outside(self) -> MatrixWindow:
        """The same with all of its loops outside of the instruction."""
        coeffs = list(self.origin.coeffs)
        for loop, step in ((self.out, self.stride), (self.kernel, self.dilation)):
            if loop is not None:
                coeffs[loop] = step
        return replace(self, out=None, kernel=None, origin=Affine(tuple(coeffs), self.origin.const))

    def renumbered(self, kept: tuple[int, ...]) -> MatrixWindow:
        """``kept[i]`` is the old number of loop i."""
        new = {old: position for position, old in enumerate(kept)}
        out, kernel = (None if a is None else new[a] for a in (self.out, self.kernel))
        origin = Affine(tuple(self.origin.coeffs[a] for a in kept), self.origin.const)
        return replace(self, out=out, kernel=kernel, origin=origin)


@dataclass(frozen=True)
class MatrixForm:
    """``instructions`` that take ``busy`` cycles in all; each makes m x n sums of k products, its ``shape``.

    Of several engines that share them, the one that has the most to do is ``busy`` and has ``issued`` so many.
    Loops are numbered as those of ``extents``. ``kept[i]`` is the number that loop i had before loops were merged.
    Without ``row`` and ``column`` an instruction is a product, with them a convolution. ``repeated`` are the windows
    that no loop of an instruction walks: where one is out of bounds, nothing is emitted.
    """

    extents: tuple[int, ...]
    kept: tuple[int, ...]
    row: MatrixWindow | None
    column: MatrixWindow | None
    m: int | None
    n: int | None
    k: int | None
    repeated: tuple[MatrixWindow, ...]
    shape: tuple[int, int, int]
    instructions: int
    issued: int
    busy: int

    @property
    def leaves_out(self) -> bool:
        """Whether some instructions are not emitted, since what they repeat a window at is out of bounds."""
        points = tuple(Span(0, e) for e in self.extents)
        positions = [(w.origin.over(points), w.bound) for w in self.repeated]
        return any(at.lo < 0 or at.hi > bound for at, bound in positions)

    @property
    def axes(self) -> tuple[int | None, ...]:
        """In the order of the extents of ``mconv`` or ``mmatmul``."""
        if self.row is None or self.column is None:
            return (self.m, self.n, self.k)
        return (self.row.out, self.column.out, self.n, self.row.kernel, self.column.kernel, self.k)


@dataclass(frozen=True)
class MatrixPart:
    """Some points of a contraction, ``spans`` of its loops, and the instructions for them.

    No part before it reaches the results of one that is ``first``; together, these reach all results once.
    """

    spans: tuple[Span, ...]
    form: MatrixForm
    first: bool

    @property
    def origin(self) -> tuple[int, ...]:
        return tuple(span.lo for span in self.spans)

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(span.size for span in self.spans)


@dataclass(frozen=True)
class _Roles:
    """Loops by the operands that they walk; those that walk all three are in none of the groups."""

    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]


def _roles(target: Sequence[int], left: Sequence[int], right: Sequence[int]) -> _Roles:
    m: list[int] = []
    n: list[int] = []
    k: list[int] = []
    for a in range(len(target)):
        if not target[a]:
            k.append(a)
        elif not right[a]:
            m.append(a)
        elif not left[a]:
            n.append(a)
    return _Roles(tuple(m), tuple(n), tuple(k))


def matrix_form(
    engine: Engine,
    dtype: str,
    extents: tuple[int, ...],
    strides: tuple[tuple[int, ...], ...],
    dimensions: Sequence[Dimension],
    guarded: Collection[int],
    family: str = "",
    fields: Sequence[str] = (),
) -> MatrixForm:
    """The instructions for a contraction of operands of ``dtype``.

    ``strides`` are those of the target, the left and the right operand, and of what the sum starts from, if the
    instruction adds it. ``dimensions`` are all those of the left operand; it may be read out of bounds in those that
    one of the ``guarded`` loops walks. The ``family`` (mmatmul or mconv) and the field of each loop (``outer``: none)
    can be asked for; raises :class:`UnsupportedError` if that cannot be.
    """
    if family not in ("", *FIELDS):
        raise UnsupportedError(f"npu.instruction asks for {family}, and it can be {' or '.join(FIELDS)}")
    windows = _windows(extents, strides, dimensions, guarded)
    if family == "mmatmul":
        windows = [w.outside() for w in windows if w.guarded]
    wished = {a for a, field in enumerate(fields) if field}
    merged, kept = merge_loops(extents, strides, {a for w in windows for a in w.loops} | wished)
    windows = [w.renumbered(kept) for w in windows]
    wishes = {a: fields[old] for a, old in enumerate(kept) if old in wished}
    target, left, right = (tuple(s[a] for a in kept) for s in strides[:3])
    roles = _roles(target, left, right)
    window_loops = {a for w in windows for a in w.loops}

    def longest_first(group: Sequence[int], *names: str) -> list[int]:
        """The loops of a role, in front those that are asked to be its field."""
        free = (a for a in group if a not in window_loops and wishes.get(a) != "outer")
        return sorted(free, key=lambda a: (wishes.get(a) not in names, -merged[a]))

    m, n, k = longest_first(roles.m, "m"), longest_first(roles.n, "n"), longest_first(roles.k, "k", "ci")
    columns, depth = (group[0] if group else None for group in (n, k))
    inner = [w for w in windows if w.inner]

    def cost(loops: Collection[int | None]) -> tuple[tuple[int, int, int], int, int, int]:
        """The shape of an instruction, instructions, issued, and busy cycles if it has these ``loops``."""
        rows, cols, reduced = (prod(merged[a] for a in group if a in loops) for group in (roles.m, roles.n, roles.k))
        instructions = prod(e for a, e in enumerate(merged) if a not in loops)
        issued, busy = divided(
            engine, instructions, (*(merged[a] for a in roles.m if a in loops), cols),
            lambda part: matrix_body(engine, prod(part[:-1]), part[-1], reduced, dtype),
            apart=all(merged[a] == 1 or a in loops for a in roles.k),
        )  # fmt: skip
        return (rows, cols, reduced), instructions, issued, busy

    repeated = tuple(w for w in windows if not w.inner)
    if family == "mmatmul" or (family == "" and not inner and len(m) < 2 and len(k) < 2):
        rows = m[0] if m else None
        form = MatrixForm(merged, kept, None, None, rows, columns, depth, repeated, *cost({rows, columns, depth}))
        return _as_wished(form, wishes)
    # What room the windows leave is for the loops with which all instructions take the least time, the longest where
    # several do: 60 rows four times fill the array better than 80 rows three times.
    held = {columns, depth, *(a for w in inner for a in w.inner)}
    others = sorted((*m, *k[1:]), key=lambda a: (a not in wishes, -merged[a]))
    fitting = [*combinations(others, min(len(others), 2 - len(inner)))]
    fitting = [loops for loops in fitting if wishes.keys() & {*others} <= {*loops}] or fitting
    chosen = min(fitting, key=lambda loops: cost({*held, *loops})[-1])
    zero = Affine((0,) * len(merged), 0)
    for a in chosen:
        out, kernel = (a, None) if a in m else (None, a)
        inner.append(MatrixWindow(out, kernel, 1, 1, zero, merged[a], left[a]))
    inner += [MatrixWindow(None, None, 1, 1, zero, 1, 0)] * (2 - len(inner))
    # The denser dimension is the column.
    row, column = sorted(inner, key=lambda w: -abs(w.pitch))
    form = MatrixForm(merged, kept, row, column, None, columns, depth, repeated, *cost({*held, *chosen}))
    return _as_wished(form, wishes)


def matrix_parts(
    engine: Engine,
    dtype: str,
    extents: tuple[int, ...],
    strides: tuple[tuple[int, ...], ...],
    dimensions: Sequence[Dimension],
    guarded: Collection[int],
    family: str = "",
    fields: Sequence[str] = (),
    *,
    started: bool = False,
    staged: bool = False,
) -> tuple[MatrixPart, ...]:
    """The cheapest way to do all products of a contraction that matter, with the arguments of :func:`matrix_form`.

    At once, or in parts, one for the positions of a kernel that find something for the same results. What is left out
    are products with padding. The first parts reach every result, unless the sums were ``started`` before. Floats, of
    which sums are rounded after each tile of the plan and nowhere else, are in parts only where one of them adds all
    that is not 0. All of it is one part where loops have wishes; on machines that have any staging memory (``staged``,
    whether or not these operands are: each part would stage them again); and where several engines share the work: they
    would write the same results.
    """
    everything = tuple(Span(0, e) for e in extents)
    whole = matrix_form(engine, dtype, extents, strides, dimensions, guarded, family, fields)
    best, below = (MatrixPart(everything, whole, first=True),), whole.busy
    if engine.count > 1 or staged or family or any(fields):
        return best
    bounded = [d for d in dimensions if guarded and any(a in guarded for a in d.loops)]
    for dimension in bounded:
        seen = _seen(dimension, everything, strides[0])
        if not seen or (dtype in FLOATS and len(seen) > 1):
            continue
        unreached = [] if started else _unreached(dimension, everything, strides[0], seen[0])
        wanted = [seen[0], *unreached, *seen[1:]]
        if sum(_least_cycles(engine, dtype, spans, strides) for spans in wanted) >= below:
            continue
        parts: list[MatrixPart] = []
        cycles = 0
        for number, spans in enumerate(wanted):
            moved = [d.moved(spans) for d in dimensions]
            sizes = tuple(span.size for span in spans)
            inside = tuple(Span(0, e) for e in sizes)
            leaving = [m for m, d in zip(moved, dimensions, strict=True) if d in bounded and m.may_leave(inside)]
            form = matrix_form(engine, dtype, sizes, strides, moved, {a for d in leaving for a in d.loops})
            cycles += form.busy
            if cycles >= below or (spans in unreached and form.leaves_out):
                break
            parts.append(MatrixPart(spans, form, first=number <= len(unreached)))
        else:
            best, below = tuple(parts), cycles
    return best


def _least_cycles(engine: Engine, dtype: str, spans: tuple[Span, ...], strides: tuple[tuple[int, ...], ...]) -> int:
    """Cycles that no form takes less than for these points: as if all loops of a role were one."""
    roles = _roles(*strides[:3])
    m, n, k = (prod(spans[a].size for a in group) for group in (roles.m, roles.n, roles.k))
    rest = prod(span.size for span in spans) // max(1, m * n * k)
    return rest * (engine.issue + matrix_body(engine, m, n, k, dtype))


def _seen(dimension: Dimension, points: tuple[Span, ...], target: Sequence[int]) -> list[tuple[Span, ...]]:
    """The points that find something in a dimension, by runs of a reduced loop that find it for the same results.

    What reaches the most results comes first. Nothing where more loops than one of a kind walk the dimension.
    """
    loops = _walking(dimension, points, target)
    if loops is None:
        return []
    out, kernel = loops
    runs: list[tuple[Span, ...]] = []
    for value in range(1 if kernel is None else points[kernel].size):
        at = list(points)
        if kernel is not None:
            at[kernel] = Span(value, value + 1)
        fixed = dimension.moved(at)
        (span,) = in_bounds([points[out].size], [False], [Dimension((fixed.coeffs[out],), fixed.const, fixed.bound, 0)])
        if not span.size:
            continue
        at[out] = span
        if kernel is not None and runs and runs[-1][out] == span and runs[-1][kernel].hi == value:
            at[kernel] = Span(runs.pop()[kernel].lo, value + 1)
        runs.append(tuple(at))
    return sorted(runs, key=lambda spans: -spans[out].size)


def _walking(dimension: Dimension, points: tuple[Span, ...], target: Sequence[int]) -> tuple[int, int | None] | None:
    """The loop of results and the reduced loop that walk a dimension, if there is one of the former."""
    used = [a for a in dimension.loops if points[a].size > 1]
    outs, kernels = [a for a in used if target[a]], [a for a in used if not target[a]]
    if len(outs) != 1 or len(kernels) > 1:
        return None
    return outs[0], kernels[0] if kernels else None


def _unreached(
    dimension: Dimension, points: tuple[Span, ...], target: Sequence[int], reached: tuple[Span, ...]
) -> list[tuple[Span, ...]]:
    """One product, with padding, of each result that a run of :func:`_seen` does not reach."""
    loops = _walking(dimension, points, target)
    assert loops is not None
    out, _ = loops
    single = [span if stride else Span(span.lo, span.lo + 1) for span, stride in zip(reached, target, strict=True)]
    rest = (Span(points[out].lo, reached[out].lo), Span(reached[out].hi, points[out].hi))
    return [(*single[:out], span, *single[out + 1 :]) for span in rest if span.size]


def _as_wished(form: MatrixForm, wishes: Mapping[int, str]) -> MatrixForm:
    """The form; raises :class:`UnsupportedError` unless each loop is the field that it shall be."""
    family = "mmatmul" if form.row is None else "mconv"
    for loop, wish in wishes.items():
        field = FIELDS[family][form.axes.index(loop)] if loop in form.axes else "outer"
        if field != wish:
            raise UnsupportedError(
                f"npu.axis asks for the loop of {form.extents[loop]} to be {wish}, and in {family} it is {field}"
            )
    return form


def _windows(
    extents: tuple[int, ...],
    strides: tuple[tuple[int, ...], ...],
    dimensions: Sequence[Dimension],
    guarded: Collection[int],
) -> list[MatrixWindow]:
    """The windows of the left operand that matter; at most two have loops in the instruction."""
    left_strides = strides[1]
    roles = _roles(*strides[:3])
    candidates: list[MatrixWindow] = []
    for dimension in dimensions:
        coeffs = dimension.coeffs
        used = [a for a in dimension.loops if extents[a] > 1 or a in guarded]
        bounded = any(a in guarded for a in used)
        # The loops of an instruction go forwards, and through no other dimension.
        able = [a for a in used if coeffs[a] > 0 and left_strides[a] == coeffs[a] * dimension.pitch]
        out = max((a for a in able if a in roles.m), key=lambda a: extents[a], default=None)
        kernel = max((a for a in able if a in roles.k), key=lambda a: extents[a], default=None)
        if not bounded and (out is None or kernel is None):
            continue
        stride, dilation = (1 if a is None else coeffs[a] for a in (out, kernel))
        # Where nothing can fall outside, the other loops may move the window without its knowledge.
        rest = tuple(c if bounded and a in used and a not in (out, kernel) else 0 for a, c in enumerate(coeffs))
        origin = Affine(rest, dimension.const)
        candidates.append(
            MatrixWindow(out, kernel, stride, dilation, origin, dimension.bound, dimension.pitch, bounded)
        )
    placed = sorted((w for w in candidates if w.inner), key=lambda w: -prod(extents[a] for a in w.inner))[:2]
    return [w if w in placed else w.outside() for w in candidates if w in placed or w.guarded]
