"""The axes of a block, and the expressions that depend on them alone: indices, conditions, tables.

What reads nothing but known arrays is *free*: it can be evaluated on the grid of its axes. An index that is not linear
in the axes may ask for one of them to be split or cut (:mod:`..net.linear`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..net.linear import CutAxis, Linear, NotAffine, SplitAxis
from ..net.net import Extent, fresh
from .tir_numpy import evaluate_expression
from .tir_records import TirBlock, dtype_of, kind_of, loads, variables

MAX_PIECES = 64
"""Parts of a block, or of one index along an axis."""
MAX_GRID = 1 << 24


@dataclass(frozen=True)
class Domain:
    """The axes of a block, what its iterators are in terms of them, and the arrays that are ``known``, by buffer."""

    axes: Mapping[str, Extent]
    values: Mapping[Any, Linear]
    known: Mapping[Any, np.ndarray]

    @staticmethod
    def of_block(block: TirBlock, known: Mapping[Any, np.ndarray]) -> Domain:
        axes: dict[str, Extent] = {}
        values: dict[Any, Linear] = {}
        for iteration in block.iters:
            if iteration.extent == 1:
                values[iteration.var] = Linear()
                continue
            name = fresh(iteration.name, axes)
            axes[name] = Extent(iteration.extent, iteration.reduce)
            values[iteration.var] = Linear.axis(name)
        return Domain(axes, values, known)

    def replace(self, axis: str, value: Linear, new: Mapping[str, Extent]) -> Domain:
        axes: dict[str, Extent] = {}
        for a, e in self.axes.items():
            if a == axis:
                axes.update({n: x for n, x in new.items() if x.size > 1})
            else:
                axes[a] = e
        units = {n: Linear() for n, x in new.items() if x.size == 1}
        value = value.substitute(units)
        return Domain(axes, {v: e.substitute({axis: value}) for v, e in self.values.items()}, self.known)

    def split(self, request: SplitAxis) -> Domain:
        old = self.axes[request.axis]
        outer, inner = fresh(request.axis + "o", self.axes), fresh(request.axis + "i", self.axes)
        value = Linear.from_terms({outer: request.factor, inner: 1})
        new = {
            outer: Extent(old.size // request.factor, old.reduce),
            inner: Extent(request.factor, old.reduce),
        }
        return self.replace(request.axis, value, new)

    def cut(self, request: CutAxis) -> tuple[Domain, Domain]:
        old = self.axes[request.axis]
        if old.reduce:
            raise NotAffine(f"a reduction over parts of {request.axis}")
        a = request.axis
        low = self.replace(a, Linear.axis(a), {a: Extent(request.at)})
        high = self.replace(a, Linear.axis(a) + Linear((), request.at), {a: Extent(old.size - request.at)})
        return low, high

    @property
    def extents(self) -> dict[str, int]:
        return {a: e.size for a, e in self.axes.items()}

    # Free expressions --------------------------------------------------------------------------------------------

    def is_free(self, expr: Any) -> bool:
        """Whether the expression reads nothing but known arrays."""
        return all(load.source in self.known for load in loads(expr))

    def _axes_of(self, expr: Any) -> tuple[str, ...]:
        values = self.values
        used = {a for v in variables(expr) if v in values for a in values[v].axes}
        return tuple(a for a in self.axes if a in used)

    def _on_grid(self, index: Linear, axes: tuple[str, ...]) -> np.ndarray:
        """A linear expression on the grid of ``axes``, broadcastable."""
        result = np.full((1,) * len(axes), index.const, np.int64)
        for a, c in index.terms:
            shape = [-1 if b == a else 1 for b in axes]
            result = result + c * np.arange(self.axes[a].size).reshape(shape)
        return result

    def grid(self, expr: Any, axes: tuple[str, ...] | None = None) -> tuple[tuple[str, ...], np.ndarray]:
        """A free expression, evaluated on the grid of its axes."""
        axes = self._axes_of(expr) if axes is None else axes
        shape = tuple(self.axes[a].size for a in axes)
        if math.prod(shape) > MAX_GRID:
            raise NotAffine("an index table too large to evaluate")
        variables_here = [v for v in variables(expr) if v in self.values]
        grids = {v: self._on_grid(self.values[v], axes).astype(dtype_of(v)) for v in variables_here}
        return axes, np.broadcast_to(evaluate_expression(expr, grids, self.known), shape)

    def keeps_inside(self, condition: Any, index: Sequence[Linear], shape: Sequence[int]) -> bool:
        """Whether a free condition holds exactly where ``index`` is within ``shape``."""
        extents = self.extents
        loose = [
            (i, n) for i, n in zip(index, shape, strict=True) if i.bounds(extents)[0] < 0 or i.bounds(extents)[1] >= n
        ]
        used = set(self._axes_of(condition)) | {a for i, _ in loose for a in i.axes}
        axes = tuple(a for a in self.axes if a in used)
        inside: Any = np.ones((1,) * len(axes), bool)
        for i, n in loose:
            value = self._on_grid(i, axes)
            inside = inside & (value >= 0) & (value < n)
        mask = self.grid(condition, axes)[1]
        return np.array_equal(mask, np.broadcast_to(inside, mask.shape))

    def cut_where(self, condition: Any) -> None:
        """Ask for a cut along the first axis on which some part of the condition changes."""
        kind = kind_of(condition)
        if kind in ("And", "Or"):
            self.cut_where(condition.a)
            self.cut_where(condition.b)
            return
        if kind == "Not":
            self.cut_where(condition.a)
            return
        axes, mask = self.grid(condition)
        if len(axes) == 1 and not self.axes[axes[0]].reduce:
            changes = np.flatnonzero(mask[1:] != mask[:-1])
            if 0 < len(changes) <= 8:
                raise CutAxis(axes[0], int(changes[0]) + 1)

    # Index expressions -------------------------------------------------------------------------------------------

    def linear(self, expr: Any) -> Linear:
        """An index expression as a linear one; raises a Retry or :class:`NotAffine`."""
        kind = kind_of(expr)
        extents = self.extents
        if kind == "IntImm":
            return Linear((), int(expr.value))
        if kind == "Var":
            return self.values[expr]
        if kind == "Add":
            return self.linear(expr.a) + self.linear(expr.b)
        if kind == "Sub":
            return self.linear(expr.a) - self.linear(expr.b)
        if kind == "Mul":
            a, b = self.linear(expr.a), self.linear(expr.b)
            if not b.terms:
                return a * b.const
            if not a.terms:
                return b * a.const
        if kind in ("FloorDiv", "FloorMod") and kind_of(expr.b) == "IntImm":
            quotient, rest = self.linear(expr.a).divide(int(expr.b.value), extents)
            return quotient if kind == "FloorDiv" else rest
        if kind == "Cast" and dtype_of(expr).startswith("int") and dtype_of(expr.value).startswith("int"):
            return self.linear(expr.value)
        if not self.is_free(expr):
            raise NotAffine("an index that depends on data")
        axes, table = self.grid(expr)
        return self._fit(axes, table.astype(np.int64))

    def weighted(self, indices: Sequence[Any], weights: Sequence[int]) -> Linear:
        """The sum of free indices, each times its weight, as a linear expression; raises as :meth:`linear` does."""
        axes = tuple(a for a in self.axes if any(a in self._axes_of(i) for i in indices))
        table = sum(self.grid(i, axes)[1].astype(np.int64) * w for i, w in zip(indices, weights, strict=True))
        return self._fit(axes, np.asarray(table))

    def _fit(self, axes: tuple[str, ...], table: np.ndarray) -> Linear:
        """Any other free index, tabulated, as a sum of one linear function an axis."""
        origin = (0,) * len(axes)
        base = int(table[origin])
        result = Linear((), base)
        total = np.full_like(table, base)
        for position, axis in enumerate(axes):
            line = table[tuple(slice(None) if p == position else 0 for p in range(len(axes)))] - base
            total = total + line.reshape([-1 if p == position else 1 for p in range(len(axes))])
            result = result + Linear(((axis, self._slope(axis, line)),)) if line.any() else result
        if not np.array_equal(total, table):
            raise NotAffine("an index that mixes axes")
        return result

    def _slope(self, axis: str, line: np.ndarray) -> int:
        """The coefficient of an axis along which an index runs as ``line``; asks for a split or a cut if none."""
        step = int(line[1] - line[0])
        if np.array_equal(line, step * np.arange(len(line))):
            return step
        for factor in range(2, len(line) // 2 + 1):
            if len(line) % factor:
                continue
            rows = line.reshape(-1, factor)
            lead = rows[:, 0]
            period = int(lead[1] - lead[0])
            repeats = np.array_equal(rows - lead[:, None], np.broadcast_to(rows[0] - lead[0], rows.shape))
            if repeats and np.array_equal(lead, period * np.arange(len(lead))):
                raise SplitAxis(axis, factor)
        breaks = np.flatnonzero(np.diff(line, 2))
        if len(breaks) > MAX_PIECES:
            raise NotAffine(f"an index in more than {MAX_PIECES} pieces")
        raise CutAxis(axis, int(breaks[0]) + 2)
