"""Host kernels that say when an index which they compute from data is out of range, and touch nothing there.

    y[i] = table[ids[i]]      becomes      if ids[i] < 0 or ids[i] >= n: count it, y[i] = 0
                                           else: y[i] = table[ids[i]]

TVM clips the indices of a look-up, which would hide a wrong one: what is checked is the index before it is clipped.
"""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import TensorLoad

Expr = Any
"""A TIR expression or statement; TVM's operator overloading is beyond static types."""

FAULT_SLOTS = 3
"""Of the int64 buffer that a guarded function takes last: how many faults, and check and index of the first."""


@dataclass(frozen=True)
class IndexCheck:
    """An index along ``axis`` of ``buffer`` must be one of ``entries``. ``condition``: only then is it used."""

    buffer: Expr
    axis: int
    entries: int
    index: Expr
    condition: Expr | None


def guarded(function: Expr) -> tuple[Expr, list[IndexCheck]]:
    """The function with a last parameter for faults, and its checks; as it is if no index depends on data."""
    binds: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.Bind, binds.append), order="pre")
    computed = [bind.var for bind in binds]
    faults = tirx.decl_buffer((FAULT_SLOTS,), "int64", name="faults", layout=None)
    checks: list[IndexCheck] = []

    def guard(store: Expr) -> Expr:
        loads = [c for e in (*store.indices, store.value) for c in _checks(e, None, computed)]
        target = list(_index_checks(store.buffer, store.indices, None, computed))
        body = store
        zero = tirx.BufferStore(store.buffer, tirx.const(0, str(store.buffer.ty.dtype.dtype)), list(store.indices))
        for check in reversed([*loads, *target]):
            number = len(checks)
            checks.append(check)
            instead = None if target else zero
            body = tirx.IfThenElse(_is_bad(check), _record(faults, number, check.index, instead), body)
        return body

    body = tvm_ffi.structural_map(function.body, (tirx.BufferStore, guard), order="post")
    if not checks:
        return function, []
    body = tvm_ffi.structural_map(body, (s_tir.SBlock, _touching(faults)), order="post")
    # Which fault is the first must not depend on how fast threads are.
    body = tvm_ffi.structural_map(body, (tirx.For, _serial), order="post")
    result = tirx.PrimFunc([*function.params, faults], body)
    return result.with_attr(dict(function.attrs)), checks


def _touching(faults: Expr) -> Callable[[Expr], Expr]:
    """Blocks that say of themselves that they read and write ``faults``: TVM refuses others that do."""
    region = tirx.BufferRegion(faults, [tvm.ir.Range(0, FAULT_SLOTS)])

    def touching(block: Expr) -> Expr:
        if not block.reads and not block.writes:
            return block
        return s_tir.SBlock(
            block.iter_vars, [*block.reads, region], [*block.writes, region], block.name_hint, block.body,
            block.init, block.alloc_buffers, block.match_buffers, block.annotations,
        )  # fmt: skip

    return touching


def _serial(loop: Expr) -> Expr:
    if loop.kind != tirx.ForKind.PARALLEL:
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)


def _is_bad(check: IndexCheck) -> Expr:
    index = _int64(check.index)
    bad = tirx.Or(tirx.LT(index, _number(0)), tirx.GE(index, _number(check.entries)))
    return bad if check.condition is None else tirx.And(check.condition, bad)


def _record(faults: Expr, number: int, index: Expr, instead: Expr | None) -> Expr:
    def put(slot: int, value: Expr) -> Expr:
        return tirx.BufferStore(faults, value, [_number(slot)])

    count = tirx.BufferLoad(faults, [_number(0)])
    first = tirx.SeqStmt([put(1, _number(number)), put(2, _int64(index))])
    steps = [tirx.IfThenElse(tirx.EQ(count, _number(0)), first, None), put(0, count + _number(1))]
    return tirx.SeqStmt(steps if instead is None else [*steps, instead])


def _number(value: int) -> Expr:
    return tirx.IntImm("int64", value)


def _int64(expr: Expr) -> Expr:
    return expr if str(expr.ty.dtype) == "int64" else tirx.Cast("int64", expr)


def _checks(expr: Expr, condition: Expr | None, computed: list[Any]) -> Iterator[IndexCheck]:
    """The checks of all loads in an expression, the innermost first, each under the condition that it is evaluated."""
    if isinstance(expr, TensorLoad):
        for index in expr.indices:
            yield from _checks(index, condition, computed)
        yield from _index_checks(expr.source, expr.indices, condition, computed)
    elif isinstance(expr, tirx.Select):
        yield from _choice(expr.condition, expr.true_value, expr.false_value, condition, computed)
    elif getattr(getattr(expr, "op", None), "name", "").endswith(".if_then_else"):
        test, a, b = expr.args
        yield from _choice(test, a, b, condition, computed)
    else:
        for child in _children(expr):
            yield from _checks(child, condition, computed)


def _choice(test: Expr, a: Expr, b: Expr, condition: Expr | None, computed: list[Any]) -> Iterator[IndexCheck]:
    yield from _checks(test, condition, computed)
    yield from _checks(a, test if condition is None else tirx.And(condition, test), computed)
    other = tirx.Not(test)
    yield from _checks(b, other if condition is None else tirx.And(condition, other), computed)


def _children(expr: Expr) -> list[Expr]:
    """The operands of an expression that is neither a load nor a choice."""
    names = ("a", "b", "value")
    return [getattr(expr, n) for n in names if isinstance(getattr(expr, n, None), tirx.Expr)] + list(
        getattr(expr, "args", [])
    )


def _index_checks(buffer: Expr, indices: Any, condition: Expr | None, computed: list[Any]) -> Iterator[IndexCheck]:
    for axis, (index, size) in enumerate(zip(indices, buffer.ty.shape, strict=True)):
        if isinstance(size, tirx.IntImm) and _depends_on_data(index, computed):
            yield IndexCheck(buffer, axis, int(size.value), _unclipped(index, int(size.value)), condition)


def _depends_on_data(index: Expr, computed: list[Any]) -> bool:
    loads: list[Any] = []
    variables: list[Any] = []
    tvm_ffi.structural_walk(index, (TensorLoad, loads.append), order="pre")
    tvm_ffi.structural_walk(index, (tirx.Var, variables.append), order="pre")
    return bool(loads) or any(v.same_as(bound) for v in variables for bound in computed)


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
