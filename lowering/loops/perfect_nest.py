"""Loops of TIR read as perfect nests: affine accesses, linear conditions and one element function each.

:func:`nests` accesses a lowered function in execution order. Loops around more than one statement are unrolled, so that
what remains are nests with one store, whose indices are affine in the nest's own loops.
"""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm.ir import Call, StringImm, TensorLoad, Var

from ...ir.box import Affine
from ...ir.errors import GirihError
from ...ir.isa.tir_operators import COMBINER_NODES, FUNCTION_OF_INTRINSIC, FUNCTION_OF_NODE


@dataclass(frozen=True)
class Load:
    """``buffer[index...]``; where a condition fails (each affine must be >= 0) it yields ``fill``."""

    buffer: str
    index: tuple[Affine, ...]
    conditions: tuple[Affine, ...] = ()
    fill: float | None = None


@dataclass(frozen=True)
class PerfectNest:
    """``buffer[index...] = func(*operands)``, combined with the old value if ``combine`` is set.

    The loops run from 0; ``conditions`` (each affine >= 0) guard the store. A contraction has func "mul" and combine
    "sum".
    """

    extents: tuple[int, ...]
    buffer: str
    index: tuple[Affine, ...]
    func: str
    operands: tuple[Load | float, ...]
    combine: str | None
    conditions: tuple[Affine, ...]


@dataclass(frozen=True)
class BufferAllocation:
    """A buffer that the schedule introduced: its shape and dtype."""

    buffer: str
    shape: tuple[int, ...]
    dtype: str
    scope: str


_COMBINER_OF_NODE = {node: combine for combine, node in COMBINER_NODES.items()}

_FOLD: dict[str, Callable[[int, int], int]] = {
    "Max": max,
    "Min": min,
    "Div": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "FloorDiv": lambda a, b: a // b,
}
"""What the bounds of a buffer are made of, where they depend on unrolled loops."""


def _node(expr: object) -> str:
    """The name of the expression's class; unlike isinstance() it leaves the type checker out of TVM's types."""
    return type(expr).__name__


class _Scope:
    """The loops of the nest being read, and the values of the unrolled ones."""

    def __init__(self, values: Mapping[Var, int], loops: list[Var]) -> None:
        self.values = values
        self.loops = loops

    def affine(self, expr: tvm.ir.Expr) -> Affine:
        """``expr`` as an affine of the nest's loops; raises :class:`GirihError` if it is not one."""
        coeffs = [0] * len(self.loops)
        const = self._add(expr, 1, coeffs)
        return Affine(tuple(coeffs), const)

    def _add(self, expr: tvm.ir.Expr, factor: int, coeffs: list[int]) -> int:
        if isinstance(expr, tirx.IntImm):
            return factor * int(expr.value)
        if isinstance(expr, Var):
            for position, loop in enumerate(self.loops):
                if loop.same_as(expr):
                    coeffs[position] += factor
                    return 0
            return factor * self.values[expr]
        if isinstance(expr, tirx.Add):
            return self._add(expr.a, factor, coeffs) + self._add(expr.b, factor, coeffs)
        if isinstance(expr, tirx.Sub):
            return self._add(expr.a, factor, coeffs) + self._add(expr.b, -factor, coeffs)
        if isinstance(expr, tirx.Mul):
            for number, term in ((expr.a, expr.b), (expr.b, expr.a)):
                if isinstance(number, tirx.IntImm):
                    return self._add(term, factor * int(number.value), coeffs)
        if isinstance(expr, tirx.Cast):
            return self._add(expr.value, factor, coeffs)
        node = _node(expr)
        if node in _FOLD:
            a, b = self.affine(expr.a), self.affine(expr.b)
            if not any((*a.coeffs, *b.coeffs)):
                return factor * _FOLD[node](a.const, b.const)
        raise GirihError(f"an index is not affine: {expr}")

    def conditions(self, expr: tvm.ir.Expr) -> tuple[Affine, ...]:
        """A conjunction of comparisons as affines that must be >= 0."""
        if isinstance(expr, tirx.And):
            return (*self.conditions(expr.a), *self.conditions(expr.b))
        if isinstance(expr, Call) and expr.op.name.endswith("likely"):
            return self.conditions(expr.args[0])
        node = _node(expr)
        if node in ("LT", "LE", "GT", "GE", "EQ"):
            low, high = (expr.b, expr.a) if node in ("GT", "GE") else (expr.a, expr.b)
            a, b = self.affine(low), self.affine(high)
            gap = Affine(
                tuple(y - x for x, y in zip(a.coeffs, b.coeffs, strict=True)),
                b.const - a.const - (1 if node in ("LT", "GT") else 0),
            )
            if node == "EQ":
                return (gap, Affine(tuple(-c for c in gap.coeffs), -gap.const))
            return (gap,)
        raise GirihError(f"a condition is not a conjunction of comparisons: {expr}")

    def load(self, expr: TensorLoad, conditions: tuple[Affine, ...] = (), fill: float | None = None) -> Load:
        return Load(expr.source.name, tuple(self.affine(i) for i in expr.indices), conditions, fill)


def _plain(expr: tvm.ir.Expr) -> tvm.ir.Expr:
    """Without conversions: instructions convert from and to the dtypes of the buffers themselves."""
    while isinstance(expr, tirx.Cast):
        expr = expr.value
    return expr


def _number(expr: tvm.ir.Expr) -> float | None:
    expr = _plain(expr)
    if isinstance(expr, tirx.IntImm | tirx.FloatImm):
        return float(expr.value)
    if isinstance(expr, Call) and expr.op.name.endswith("infinity"):
        return float("inf")
    if isinstance(expr, tirx.Mul):
        a, b = _number(expr.a), _number(expr.b)
        return None if a is None or b is None else a * b
    if isinstance(expr, tirx.Sub):
        a, b = _number(expr.a), _number(expr.b)
        return None if a is None or b is None else a - b
    return None


def _operand(expr: tvm.ir.Expr, scope: _Scope) -> Load | float:
    expr = _plain(expr)
    if isinstance(expr, TensorLoad):
        return scope.load(expr)
    number = _number(expr)
    if number is not None:
        return number
    if isinstance(expr, Call) and expr.op.name.endswith("if_then_else"):
        inner, fill = _plain(expr.args[1]), _number(expr.args[2])
        if isinstance(inner, TensorLoad) and fill is not None:
            return scope.load(inner, scope.conditions(expr.args[0]), fill)
    raise GirihError(f"not an operand of one instruction: {expr}")


def _function(expr: tvm.ir.Expr, scope: _Scope) -> tuple[str, tuple[Load | float, ...]]:
    """An expression of one function over operands; raises :class:`GirihError` on anything deeper."""
    expr = _plain(expr)
    if isinstance(expr, TensorLoad) or _number(expr) is not None:
        return "copy", (_operand(expr, scope),)
    node = _node(expr)
    if node in FUNCTION_OF_NODE:
        return FUNCTION_OF_NODE[node], (_operand(expr.a, scope), _operand(expr.b, scope))
    if isinstance(expr, Call):
        name = str(expr.op.name).rpartition(".")[2]
        if name == "if_then_else":
            return "copy", (_operand(expr, scope),)
        if name in ("call_pure_extern", "call_extern"):
            assert isinstance(expr.args[0], StringImm)
            func = str(expr.args[0].value).removeprefix("girih_")
            return func, tuple(_operand(a, scope) for a in expr.args[1:])
        return FUNCTION_OF_INTRINSIC.get(name, name), tuple(_operand(a, scope) for a in expr.args)
    raise GirihError(f"not one element function: {expr}")


def _store(store: tirx.BufferStore, extents: list[int], scope: _Scope, conditions: tuple[Affine, ...]) -> PerfectNest:
    index = tuple(scope.affine(i) for i in store.indices)
    value = _plain(store.value)
    node = _node(value)
    name = store.buffer.name

    def rest(func: str, operands: tuple[Load | float, ...], combine: str | None) -> PerfectNest:
        return PerfectNest(tuple(extents), name, index, func, operands, combine, conditions)

    if node in _COMBINER_OF_NODE:
        for old, new in ((value.a, value.b), (value.b, value.a)):
            old = _plain(old)
            if isinstance(old, TensorLoad) and old.source.same_as(store.buffer) and scope.load(old).index == index:
                func, operands = _function(new, scope)
                if func in ("copy", "mul"):
                    return rest(func, operands, _COMBINER_OF_NODE[node])
    func, operands = _function(value, scope)
    return rest(func, operands, None)


def _leaf(stmt: tirx.Stmt) -> tuple[list[tirx.For], list[tvm.ir.Expr], tirx.BufferStore] | None:
    """The loops, conditions and store of a perfect nest; ``None`` if ``stmt`` is not one."""
    loops: list[tirx.For] = []
    conditions: list[tvm.ir.Expr] = []
    while True:
        if isinstance(stmt, tirx.For) and isinstance(stmt.extent, tirx.IntImm):
            loops.append(stmt)
            stmt = stmt.body
        elif isinstance(stmt, tirx.IfThenElse) and stmt.else_case is None:
            conditions.append(stmt.condition)
            stmt = stmt.then_case
        elif isinstance(stmt, tirx.SeqStmt) and len(stmt.seq) == 1:
            stmt = stmt.seq[0]
        else:
            break
    return (loops, conditions, stmt) if isinstance(stmt, tirx.BufferStore) else None


def nests(func: tirx.PrimFunc) -> Iterator[PerfectNest | BufferAllocation]:
    """The nests and allocations of a lowered function, in execution order."""
    yield from _walk(func.body, {})


def _walk(stmt: tirx.Stmt, values: dict[Var, int]) -> Iterator[PerfectNest | BufferAllocation]:
    leaf = _leaf(stmt)
    if leaf is not None:
        loops, guards, store = leaf
        starts = {loop.loop_var: int(loop.min) for loop in loops}
        if any(starts.values()):
            raise GirihError("a loop does not start at zero")
        scope = _Scope(values, [loop.loop_var for loop in loops])
        conditions = tuple(c for guard in guards for c in scope.conditions(guard))
        yield _store(store, [int(loop.extent) for loop in loops], scope, conditions)
    elif isinstance(stmt, tirx.SeqStmt):
        for child in stmt.seq:
            yield from _walk(child, values)
    elif isinstance(stmt, tirx.AllocBuffer):
        buffer = stmt.buffer
        shape = tuple(int(d) for d in buffer.ty.shape)
        yield BufferAllocation(buffer.name, shape, str(buffer.ty.dtype.dtype), buffer.scope())
    elif isinstance(stmt, tirx.For):
        for value in range(int(stmt.min), int(stmt.min) + int(stmt.extent)):
            yield from _walk(stmt.body, {**values, stmt.loop_var: value})
    elif isinstance(stmt, tirx.IfThenElse) and stmt.else_case is None:
        if all(c.const >= 0 for c in _Scope(values, []).conditions(stmt.condition)):
            yield from _walk(stmt.then_case, values)
    elif isinstance(stmt, tirx.Evaluate):
        return
    else:
        raise GirihError(f"a statement that no instruction could become: {type(stmt).__name__}")
