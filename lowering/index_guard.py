"""Which indices of a kernel may be out of range: those that depend on data, and those that its loops do not bound.

    for i in range(8): y[i] = table[ids[i]]        0 <= ids[i] < n is to be checked, 0 <= i < 8 is proven

TVM clips the indices of a look-up, which would hide a wrong one: what is checked is the index before it is clipped.
"""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import s_tir, sym, tirx
from tvm.ir import TensorLoad

Expr = Any
"""A TIR expression or statement; TVM's operator overloading is beyond static types."""


@dataclass(frozen=True)
class IndexCheck:
    """An index along ``axis`` of ``buffer`` must be one of ``entries``. ``condition``: only then is it used."""

    buffer: Expr
    axis: int
    entries: int
    index: Expr
    condition: Expr | None


class IndexChecks:
    """Which indices of a function are not proven to be in range, by the loops around them."""

    def __init__(self, analyzer: sym.Analyzer, computed: list[Any]) -> None:
        self._analyzer = analyzer
        self._computed = computed

    @staticmethod
    def from_function(function: Expr) -> IndexChecks:
        """For the statements of a function."""
        analyzer, computed = sym.Analyzer(), list[Any]()

        def loop(stmt: Expr) -> None:
            analyzer.bind(stmt.loop_var, tvm.ir.Range.from_min_extent(stmt.min, stmt.extent), allow_override=True)

        def block(stmt: Expr) -> None:
            for iteration, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
                # Not the value itself: conditions are of the variable. Nor its domain, which the value may leave.
                bound, kind = analyzer.const_int_bound(value), str(iteration.var.ty.dtype)
                least, most = int(bound.min_value), int(bound.max_value)
                # Of what is loaded it may be all numbers of the type, which have no extent in it.
                if most - least < np.iinfo(kind).max:
                    extent = tirx.IntImm(kind, most - least + 1)
                    span = tvm.ir.Range.from_min_extent(tirx.IntImm(kind, least), extent)
                    analyzer.bind(iteration.var, span, allow_override=True)

        visits = [(tirx.For, loop), (s_tir.SBlockRealize, block), (tirx.Bind, lambda bind: computed.append(bind.var))]
        tvm_ffi.structural_walk(function.body, visits, order="pre")
        return IndexChecks(analyzer, computed)

    def of_loads(self, expr: Expr, condition: Expr | None = None) -> list[IndexCheck]:
        """Of all loads in an expression, the innermost first, each under the condition that it is evaluated."""
        return list(self._loads(expr, condition))

    def of_indices(self, buffer: Expr, indices: Any, condition: Expr | None = None) -> list[IndexCheck]:
        """Of one access."""
        checks: list[IndexCheck] = []
        for axis, (index, size) in enumerate(zip(indices, buffer.ty.shape, strict=True)):
            if isinstance(size, tirx.IntImm) and "x" not in str(index.ty.dtype):
                entries = int(size.value)
                if self._depends_on_data(index):
                    checks.append(IndexCheck(buffer, axis, entries, _unclipped(index, entries), condition))
                elif not self._is_proven(index, entries, condition):
                    checks.append(IndexCheck(buffer, axis, entries, index, condition))
        return checks

    def _loads(self, expr: Expr, condition: Expr | None) -> Iterator[IndexCheck]:
        if isinstance(expr, TensorLoad):
            for index in expr.indices:
                yield from self._loads(index, condition)
            yield from self.of_indices(expr.source, expr.indices, condition)
        elif isinstance(expr, tirx.Select):
            yield from self._choice(expr.condition, expr.true_value, expr.false_value, condition)
        elif getattr(getattr(expr, "op", None), "name", "").endswith(".if_then_else"):
            test, yes, no = expr.args
            yield from self._choice(test, yes, no, condition)
        elif isinstance(expr, tirx.And):
            yield from self._choice(expr.a, expr.b, None, condition)
        elif isinstance(expr, tirx.Or):
            yield from self._choice(expr.a, None, expr.b, condition)
        else:
            for child in _children(expr):
                yield from self._loads(child, condition)

    def _choice(self, test: Expr, yes: Expr | None, no: Expr | None, condition: Expr | None) -> Iterator[IndexCheck]:
        """Of a test, and of what is evaluated where it holds, and where it does not."""
        yield from self._loads(test, condition)
        for expr, holds in ((yes, test), (no, tirx.Not(test))):
            if expr is not None:
                yield from self._loads(expr, holds if condition is None else tirx.And(condition, holds))

    def _depends_on_data(self, index: Expr) -> bool:
        loads: list[Any] = []
        variables: list[Any] = []
        tvm_ffi.structural_walk(index, (TensorLoad, loads.append), order="pre")
        tvm_ffi.structural_walk(index, (tirx.Var, variables.append), order="pre")
        return bool(loads) or any(v.same_as(bound) for v in variables for bound in self._computed)

    def _is_proven(self, index: Expr, entries: int, condition: Expr | None) -> bool:
        """Whether the loops around an index, and the condition of its access, keep it in range."""
        bound = self._analyzer.const_int_bound(index)
        if bound.min_value >= 0 and bound.max_value < entries:
            return True
        if condition is None:
            return False
        with self._analyzer.constraint_scope(condition):
            return self._analyzer.can_prove(index >= 0) and self._analyzer.can_prove(index < entries)


def is_bad(check: IndexCheck) -> Expr:
    """Whether the index is used and out of range."""
    index = int64(check.index)
    bad = tirx.Or(tirx.LT(index, tirx.IntImm("int64", 0)), tirx.GE(index, tirx.IntImm("int64", check.entries)))
    return bad if check.condition is None else tirx.And(check.condition, bad)


def int64(expr: Expr) -> Expr:
    """In the type that faults are recorded in."""
    return expr if str(expr.ty.dtype) == "int64" else tirx.Cast("int64", expr)


def _children(expr: Expr) -> list[Expr]:
    """The operands of an expression that is neither a load nor a choice."""
    names = ("a", "b", "value")
    return [getattr(expr, n) for n in names if isinstance(getattr(expr, n, None), tirx.Expr)] + list(
        getattr(expr, "args", [])
    )


def _unclipped(index: Expr, entries: int) -> Expr:
    """``x`` of ``min(max(0, x), entries - 1)``, where x is loaded as it is; what is computed may be cut."""
    if isinstance(index, tirx.Min) and _is_number(index.b, entries - 1) and isinstance(index.a, tirx.Max):
        inner = index.a.b if _is_number(index.a.a, 0) else index.a.a if _is_number(index.a.b, 0) else None
        source = inner.value if isinstance(inner, tirx.Cast) else inner
        if isinstance(source, TensorLoad):
            return inner
    return index


def _is_number(expr: Expr, value: int) -> bool:
    return isinstance(expr, tirx.IntImm) and int(expr.value) == value
