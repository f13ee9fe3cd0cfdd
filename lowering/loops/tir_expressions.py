"""Expressions of TIR as what instructions are made of: affine indices, linear conditions, one function of operands.

Loops inside of a nest stay symbolic; every other variable has a value for each tile.
"""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tvm
from tvm import tirx
from tvm.ir import Call, StringImm, TensorLoad, Var

from ...ir.errors import GirihError
from ...ir.isa.tir_operators import COMBINER_NODES, FUNCTION_OF_INTRINSIC, FUNCTION_OF_NODE
from ...ir.semantics.box_arrays import Int
from ..schedule.prim_func import buffer_name
from .nest_tiles import TileAffine, TileLoad

_COMBINER_OF_NODE = {node: combine for combine, node in COMBINER_NODES.items()}


def _truncated(a: Int, b: Int) -> Int:
    return np.abs(a) // np.abs(b) * np.where((a < 0) == (b < 0), 1, -1)


_FOLD: dict[str, Callable[[Int, Int], Int]] = {
    "Max": np.maximum,
    "Min": np.minimum,
    "Div": _truncated,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
}
"""What TVM makes bounds of, and numbers of versions; they may depend on tile loops, not on those of a nest."""


def _node(expr: object) -> str:
    """The name of the expression's class; unlike isinstance() it leaves the type checker out of TVM's types."""
    return type(expr).__name__


class Scope:
    """The loops of the nest being read, and the values of the variables around it, one for each tile."""

    def __init__(self, tiles: int, values: Mapping[Var, Int], loops: list[Var]) -> None:
        self.tiles = tiles
        self.values = values
        self.loops = loops

    def affine(self, expr: tvm.ir.Expr) -> TileAffine:
        """``expr`` as an affine of the nest's loops; raises :class:`GirihError` if it is not one."""
        coeffs = [0] * len(self.loops)
        const = self._add(expr, 1, coeffs)
        return TileAffine(tuple(coeffs), const)

    def number(self, expr: tvm.ir.Expr) -> Int:
        """The value of ``expr`` in each tile; raises :class:`GirihError` if it depends on loops of the nest."""
        affine = self.affine(expr)
        if any(affine.coeffs):
            raise GirihError(f"a bound depends on loops inside of a nest: {expr}")
        return affine.const

    def _add(self, expr: tvm.ir.Expr, factor: int, coeffs: list[int]) -> Int:
        if isinstance(expr, tirx.IntImm):
            return np.full(self.tiles, factor * int(expr.value), dtype=np.int64)
        if isinstance(expr, Var):
            for position, loop in enumerate(self.loops):
                if loop.same_as(expr):
                    coeffs[position] += factor
                    return np.zeros(self.tiles, dtype=np.int64)
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

    def conditions(self, expr: tvm.ir.Expr) -> tuple[TileAffine, ...]:
        """A conjunction of comparisons as affines that must be >= 0."""
        if isinstance(expr, tirx.And):
            return (*self.conditions(expr.a), *self.conditions(expr.b))
        if isinstance(expr, Call) and expr.op.name.endswith("likely"):
            return self.conditions(expr.args[0])
        if isinstance(expr, tirx.IntImm):  # What is known when the kernel is compiled.
            return () if int(expr.value) else (self.affine(tirx.IntImm("int32", -1)),)
        node = _node(expr)
        if node in ("LT", "LE", "GT", "GE", "EQ"):
            low, high = (expr.b, expr.a) if node in ("GT", "GE") else (expr.a, expr.b)
            a, b = self.affine(low), self.affine(high)
            coeffs = tuple(y - x for x, y in zip(a.coeffs, b.coeffs, strict=True))
            gap = TileAffine(coeffs, b.const - a.const - (1 if node in ("LT", "GT") else 0))
            if node == "EQ":
                return (gap, TileAffine(tuple(-c for c in coeffs), -gap.const))
            return (gap,)
        raise GirihError(f"a condition is not a conjunction of comparisons: {expr}")

    def load(self, expr: TensorLoad, conditions: tuple[TileAffine, ...] = (), fill: float | None = None) -> TileLoad:
        return TileLoad(buffer_name(expr.source), tuple(self.affine(i) for i in expr.indices), conditions, fill)

    def operand(self, expr: tvm.ir.Expr) -> TileLoad | float:
        """A load, a load under a condition with a number elsewhere, or a number."""
        expr = plain(expr)
        if isinstance(expr, TensorLoad):
            return self.load(expr)
        value = number(expr)
        if value is not None:
            return value
        if isinstance(expr, Call) and expr.op.name.endswith("if_then_else"):
            inner, fill = plain(expr.args[1]), number(expr.args[2])
            if isinstance(inner, TensorLoad) and fill is not None:
                return self.load(inner, self.conditions(expr.args[0]), fill)
        raise GirihError(f"not an operand of one instruction: {expr}")

    def function(self, expr: tvm.ir.Expr) -> tuple[str, tuple[TileLoad | float, ...]]:
        """An expression of one function over operands; raises :class:`GirihError` on anything deeper."""
        expr = plain(expr)
        if isinstance(expr, TensorLoad) or number(expr) is not None:
            return "copy", (self.operand(expr),)
        node = _node(expr)
        if node in FUNCTION_OF_NODE:
            return FUNCTION_OF_NODE[node], (self.operand(expr.a), self.operand(expr.b))
        if isinstance(expr, Call):
            name = str(expr.op.name).rpartition(".")[2]
            if name == "if_then_else":
                return "copy", (self.operand(expr),)
            if name in ("call_pure_extern", "call_extern"):
                assert isinstance(expr.args[0], StringImm)
                func = str(expr.args[0].value).removeprefix("girih_")
                return func, tuple(self.operand(a) for a in expr.args[1:])
            return FUNCTION_OF_INTRINSIC.get(name, name), tuple(self.operand(a) for a in expr.args)
        raise GirihError(f"not one element function: {expr}")

    def stored(
        self, store: tirx.BufferStore
    ) -> tuple[tuple[TileAffine, ...], str, tuple[TileLoad | float, ...], str | None]:
        """Index, function, operands and combination of a store."""
        index = tuple(self.affine(i) for i in store.indices)
        value = plain(store.value)
        node = _node(value)
        if node in _COMBINER_OF_NODE:
            for old, new in ((value.a, value.b), (value.b, value.a)):
                old = plain(old)
                if isinstance(old, TensorLoad) and old.source.same_as(store.buffer) and self._is_at(old, index):
                    func, operands = self.function(new)
                    if func in ("copy", "mul"):
                        return index, func, operands, _COMBINER_OF_NODE[node]
        func, operands = self.function(value)
        return index, func, operands, None

    def _is_at(self, load: TensorLoad, index: tuple[TileAffine, ...]) -> bool:
        return all(
            a.coeffs == b.coeffs and np.array_equal(a.const, b.const)
            for a, b in zip(self.load(load).index, index, strict=True)
        )


def plain(expr: tvm.ir.Expr) -> tvm.ir.Expr:
    """Without conversions: instructions convert from and to the dtypes of the buffers themselves."""
    while isinstance(expr, tirx.Cast):
        expr = expr.value
    return expr


def number(expr: tvm.ir.Expr) -> float | None:
    """The value of a constant expression."""
    expr = plain(expr)
    if isinstance(expr, tirx.IntImm | tirx.FloatImm):
        return float(expr.value)
    if isinstance(expr, Call) and expr.op.name.endswith("infinity"):
        return float("inf")
    if isinstance(expr, tirx.Mul):
        a, b = number(expr.a), number(expr.b)
        return None if a is None or b is None else a * b
    if isinstance(expr, tirx.Sub):
        a, b = number(expr.a), number(expr.b)
        return None if a is None or b is None else a - b
    return None
