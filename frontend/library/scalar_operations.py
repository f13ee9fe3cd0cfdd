"""How many operations a scalar engine needs for a kernel, in the worst case: what its TIR says.

Each load, store, arithmetic operation, comparison and conversion is one operation, also in the computation of an index:
nothing is assumed of a compiler that would share them. An iteration of a loop takes two more (the next number, and the
branch). Of the ways that a condition decides between, the longest counts. A loop whose extent depends on outer loops
runs as often as for the worst of their values, and a ``while`` as often as the annotation around it says:

    with T.attr({"npu.at_most": 10}):
        while low[0] < high[0]: ...
"""

# TVM's classes get their fields from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import s_tir, sym, tirx
from tvm.ir import TensorLoad

from ...ir.custom_operators import AT_MOST

Expr = Any
"""A TIR expression or statement."""

_PLAIN = ("likely", "fabs", "isnan", "reinterpret")
"""What is a call in TIR, and no special function."""
LOOP_OPERATIONS = 2
"""Of each iteration of a loop."""


@dataclass(frozen=True)
class Operations:
    """``total`` operations, of which ``special`` are special functions such as exp."""

    total: int = 0
    special: int = 0

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.total + other.total, self.special + other.special)

    def times(self, count: int) -> Operations:
        return Operations(self.total * count, self.special * count)


class UncountedError(Exception):
    """The kernel has something of which nobody knows how long it takes."""


def scalar_operations(function: Expr) -> Operations:
    """The operations of a PrimFunc in the worst case; raises :class:`UncountedError` with what is unknown of it."""
    return _Counter().statement(function.body)


def _worst(ways: Sequence[Operations]) -> Operations:
    return Operations(max((w.total for w in ways), default=0), max((w.special for w in ways), default=0))


class _Counter:
    def __init__(self) -> None:
        self._analyzer = sym.Analyzer()
        self._at_most: int | None = None

    def statement(self, stmt: Expr) -> Operations:
        count = _STATEMENTS.get(type(stmt))
        if count is None:
            raise UncountedError(f"nothing is known of the time of {type(stmt).__name__}")
        return count(self, stmt)

    def statements(self, parts: Sequence[Expr]) -> Operations:
        return sum(map(self.statement, parts), Operations())

    def expressions(self, parts: Sequence[Expr]) -> Operations:
        return sum(map(self.expression, parts), Operations())

    def expression(self, expr: Expr) -> Operations:
        if isinstance(expr, (tirx.Var, tirx.IntImm, tirx.FloatImm)):
            return Operations()
        if isinstance(expr, TensorLoad):
            return Operations(1) + self.expressions(expr.indices)
        if isinstance(expr, tirx.Select):
            return self._choice(expr.condition, (expr.true_value, expr.false_value))
        if isinstance(expr, tvm.ir.Call):
            return self._call(expr)
        operands = [getattr(expr, n) for n in ("a", "b", "value") if isinstance(getattr(expr, n, None), tirx.Expr)]
        if not operands:
            raise UncountedError(f"nothing is known of the time of {type(expr).__name__}")
        return Operations(1) + self.expressions(operands)

    def _choice(self, condition: Expr, ways: Sequence[Expr]) -> Operations:
        return Operations(1) + self.expression(condition) + _worst([self.expression(way) for way in ways])

    def _call(self, call: Expr) -> Operations:
        # Behind the name of the dialect.
        name = getattr(call.op, "name", str(call.op)).rpartition(".")[2]
        if name == "if_then_else":
            return self._choice(call.args[0], call.args[1:])
        if any(word in name for word in ("extern", "packed", "call_llvm")):
            raise UncountedError("it calls a function of a library")
        one = Operations(1, 0 if name in _PLAIN else 1)
        return one + self.expressions([a for a in call.args if isinstance(a, tirx.Expr)])

    def sequence(self, stmt: Expr) -> Operations:
        return self.statements(stmt.seq)

    def loop(self, stmt: Expr) -> Operations:
        bounds = self._analyzer.const_int_bound(stmt.extent)
        most = int(bounds.max_value)
        if most >= sym.ConstIntBound.POS_INF:
            raise UncountedError(f"the extent of the loop over {stmt.loop_var.name} is unknown")
        if most < 1:
            return Operations()
        begin = stmt.min
        self._analyzer.bind(stmt.loop_var, tvm.ir.Range.from_min_extent(begin, tirx.const(most, begin.ty.dtype)))
        around = self.expressions([begin, stmt.extent])
        body = self.statement(stmt.body)
        return around + (body if most == 1 else (body + Operations(LOOP_OPERATIONS)).times(most))

    def while_loop(self, stmt: Expr) -> Operations:
        most, self._at_most = self._at_most, None
        if most is None:
            raise UncountedError(f"a while has no {AT_MOST} around it")
        test = self.expression(stmt.condition) + Operations(1)
        return test + (test + self.statement(stmt.body)).times(most)

    def branch(self, stmt: Expr) -> Operations:
        ways = [self.statement(way) for way in (stmt.then_case, stmt.else_case) if way is not None]
        return Operations(1) + self.expression(stmt.condition) + _worst(ways)

    def store(self, stmt: Expr) -> Operations:
        return Operations(1) + self.expressions([*stmt.indices, stmt.value])

    def attribute(self, stmt: Expr) -> Operations:
        if stmt.attr_key == AT_MOST:
            if not isinstance(stmt.value, tirx.IntImm) or int(stmt.value.value) < 0:
                raise UncountedError(f"{AT_MOST} is no whole number from 0, but {stmt.value}")
            self._at_most = int(stmt.value.value)
        return self.statement(stmt.body)

    def block(self, stmt: Expr) -> Operations:
        parts = [part for part in (stmt.block.init, stmt.block.body) if part is not None]
        return self.expressions([*stmt.iter_values, stmt.predicate]) + self.statements(parts)

    def bind(self, stmt: Expr) -> Operations:
        return self.expression(stmt.value)

    def nothing(self, stmt: Expr) -> Operations:
        return Operations()


_STATEMENTS: dict[type, Callable[[_Counter, Expr], Operations]] = {
    tirx.SeqStmt: _Counter.sequence, tirx.For: _Counter.loop, tirx.While: _Counter.while_loop,
    tirx.IfThenElse: _Counter.branch, tirx.BufferStore: _Counter.store, tirx.AttrStmt: _Counter.attribute,
    s_tir.SBlockRealize: _Counter.block, tirx.Bind: _Counter.bind, tirx.AllocBuffer: _Counter.nothing,
    tirx.DeclBuffer: _Counter.nothing,
}  # fmt: skip
