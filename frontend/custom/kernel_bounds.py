"""Indices of a kernel that are out of range whatever its inputs hold, so that they are refused before anything runs.

    for i, j in T.grid(4, 8):
        y[i + 1, j] = ...            rows 1 to 4 of a buffer that has 0 to 3

Only what is certain counts: indices that are affine in loops with known extents, where no condition stands around them.
A run checks whatever else is not proven (:mod:`girih.lowering.index_guard`).
"""

# TVM's classes get their fields from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, sym, tirx
from tvm.ir import TensorLoad

Expr = Any
"""A TIR expression or statement."""

_JUMPS = ("break_loop", "continue_loop", "ret", "thread_return")
"""What may leave out statements that no condition stands around."""


def index_problem(function: Expr) -> str | None:
    """The first index of a PrimFunc that is certain to be out of range, for a message; ``None``: there is none."""
    calls: list[Expr] = []
    tvm_ffi.structural_walk(function.body, (tvm.ir.Call, calls.append), order="pre")
    if any(getattr(c.op, "name", "").rpartition(".")[2] in _JUMPS for c in calls):
        return None
    for buffer, indices, scope in _statement(function.body, _Scope({}, {})):
        for axis, (index, size) in enumerate(zip(indices, buffer.ty.shape, strict=False)):
            bounds = scope.bounds(index)
            if bounds is None or not isinstance(size, tirx.IntImm):
                continue
            low, high = bounds
            if low < 0 or high >= int(size.value):
                return (
                    f"its kernel accesses {buffer.name}[{', '.join(map(str, indices))}] with indices from {low} to "
                    f"{high} in dimension {axis}, which has {int(size.value)} entries; "
                    "change the loops or the index, or put an if around it"
                )
    return None


class _Scope:
    """The loops around a statement, by their variables the first and last value, and what other variables stand for."""

    def __init__(self, loops: Mapping[Expr, tuple[int, int]], values: Mapping[Expr, Expr]) -> None:
        self.loops = loops
        self.values = values

    def value(self, expr: Expr) -> Expr:
        return tvm_ffi.structural_map(expr, (tirx.Var, lambda v: self.values.get(v, v)), order="post")

    def bounds(self, index: Expr) -> tuple[int, int] | None:
        """The least and the largest value of an index over all loops; ``None`` unless it is affine in them."""
        variables = list(self.loops)
        terms = list(sym.detect_linear_equation(self.value(index), variables))
        if not terms or not all(isinstance(t, tirx.IntImm) for t in terms):
            return None
        *factors, offset = (int(t.value) for t in terms)
        ends = [sorted(f * end for end in self.loops[v]) for f, v in zip(factors, variables, strict=True)]
        return offset + sum(e[0] for e in ends), offset + sum(e[1] for e in ends)

    def with_loop(self, variable: Expr, first: int, last: int) -> _Scope:
        return _Scope({**self.loops, variable: (first, last)}, self.values)

    def with_value(self, variable: Expr, value: Expr) -> _Scope:
        return _Scope(self.loops, {**self.values, variable: self.value(value)})


Access = tuple[Expr, Any, _Scope]
"""A buffer, the indices of an element of it that is certainly read or written, and where."""


def _statement(stmt: Expr, scope: _Scope) -> Iterator[Access]:
    if isinstance(stmt, tirx.SeqStmt):
        for part in stmt.seq:
            yield from _statement(part, scope)
            if isinstance(part, tirx.Bind):
                scope = scope.with_value(part.var, part.value)
    elif isinstance(stmt, tirx.For):
        if isinstance(stmt.min, tirx.IntImm) and isinstance(stmt.extent, tirx.IntImm) and int(stmt.extent.value) > 0:
            first = int(stmt.min.value)
            yield from _statement(stmt.body, scope.with_loop(stmt.loop_var, first, first + int(stmt.extent.value) - 1))
    elif isinstance(stmt, s_tir.SBlockRealize):
        if isinstance(stmt.predicate, tirx.IntImm) and int(stmt.predicate.value):
            for iteration, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
                scope = scope.with_value(iteration.var, value)
            # What starts a reduction runs for some of the values of its loops.
            yield from _statement(stmt.block.body, scope)
    elif isinstance(stmt, tirx.AttrStmt):
        yield from _statement(stmt.body, scope)
    elif isinstance(stmt, (tirx.IfThenElse, tirx.While)):
        yield from _expression(stmt.condition, scope)
    elif isinstance(stmt, tirx.Bind):
        yield from _expression(stmt.value, scope)
    elif isinstance(stmt, tirx.BufferStore):
        for expr in (*stmt.indices, stmt.value):
            yield from _expression(expr, scope)
        yield stmt.buffer, stmt.indices, scope


def _expression(expr: Expr, scope: _Scope) -> Iterator[Access]:
    """The accesses of an expression that do not depend on a choice in it."""
    if isinstance(expr, TensorLoad):
        for index in expr.indices:
            yield from _expression(index, scope)
        yield expr.source, expr.indices, scope
    elif isinstance(expr, tirx.Select):
        yield from _expression(expr.condition, scope)
    elif isinstance(expr, (tirx.And, tirx.Or)):
        yield from _expression(expr.a, scope)
    elif isinstance(expr, tvm.ir.Call):
        choice = getattr(expr.op, "name", "").endswith(".if_then_else")
        for argument in expr.args[:1] if choice else expr.args:
            yield from _expression(argument, scope)
    else:
        for name in ("a", "b", "value"):
            if isinstance(getattr(expr, name, None), tirx.Expr):
                yield from _expression(getattr(expr, name), scope)
