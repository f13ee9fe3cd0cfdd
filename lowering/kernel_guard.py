"""Host kernels that say when they do what no machine could, and do not do it: indices out of range, endless loops.

    y[i] = table[ids[i]]      becomes      if ids[i] < 0 or ids[i] >= n: count it, y[i] = 0
                                           else: y[i] = table[ids[i]]

A ``while`` that says how often it runs at most ends there: its time on a scalar engine is that of so many iterations.
"""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ..ir.custom_operators import AT_MOST
from .index_guard import IndexCheck, IndexChecks, int64, is_bad

Expr = Any
"""A TIR expression or statement; TVM's operator overloading is beyond static types."""

_COUNT, _CHECK, _VALUE, _COUNTERS = range(4)
"""Of the int64 buffer of faults: how many there are, check and index of the first, and the counters of loops."""


@dataclass(frozen=True)
class IterationCheck:
    """A ``while`` runs at most ``most`` times."""

    most: int


Check = IndexCheck | IterationCheck


@dataclass(frozen=True)
class Guarded:
    """``function`` with a last parameter for faults, int64 and of ``slots`` elements; without any if nothing can fail.

    Afterwards, that buffer has the number of faults, and check (by its number in ``checks``) and index of the first.
    """

    function: Expr
    checks: tuple[Check, ...]
    slots: int


def guarded(function: Expr) -> Guarded:
    """The function with checks of all indices that are not proven to be in range, and of loops that say an end."""
    attributes: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.AttrStmt, attributes.append))
    slots = _COUNTERS + sum(_most(a) is not None for a in attributes)
    guard = _Guard(tirx.decl_buffer((slots,), "int64", name="faults", layout=None), IndexChecks.from_function(function))
    body = tvm_ffi.structural_map(
        function.body,
        [
            (tirx.BufferStore, guard.store), (tirx.IfThenElse, guard.branch), (tirx.While, guard.loop),
            (tirx.Bind, guard.bind), (tirx.AttrStmt, guard.at_most), (tirx.SeqStmt, _flat),
        ],
        order="post",
    )  # fmt: skip
    if not guard.checks:
        return Guarded(function, (), 0)
    body = tvm_ffi.structural_map(body, (s_tir.SBlock, _touching(guard.faults, slots)), order="post")
    # Which fault is the first must not depend on how fast threads are.
    body = tvm_ffi.structural_map(body, (tirx.For, _serial), order="post")
    result = tirx.PrimFunc([*function.params, guard.faults], body)
    return Guarded(result.with_attr(dict(function.attrs)), tuple(guard.checks), slots)


class _Guard:
    """Makes statements safe; ``checks`` is what they record by number."""

    def __init__(self, faults: Expr, indices: IndexChecks) -> None:
        self.faults = faults
        self.indices = indices
        self.checks: list[Check] = []
        self.counters = _COUNTERS

    def store(self, store: Expr) -> Expr:
        """Zero is stored where the value cannot be read, and nothing where there is no place for it."""
        zero = tirx.BufferStore(store.buffer, tirx.const(0, str(store.buffer.ty.dtype.dtype)), list(store.indices))
        place = [*self._loads(*store.indices), *self.indices.of_indices(store.buffer, store.indices)]
        return self._safe(place, self._safe(self._loads(store.value), store, zero), None)

    def branch(self, stmt: Expr) -> Expr:
        return self._safe(self._loads(stmt.condition), stmt, None)

    def bind(self, stmt: Expr) -> Expr:
        checks = self._loads(stmt.value)
        if not checks:
            return stmt
        zero = tirx.const(0, str(stmt.value.ty.dtype))
        safe = tirx.Bind(stmt.var, _unless(checks, stmt.value, zero))
        return tirx.SeqStmt([self._safe(checks, _NOTHING, None), safe])

    def loop(self, stmt: Expr) -> Expr:
        """Ends where its condition cannot be evaluated."""
        checks = self._loads(stmt.condition)
        if not checks:
            return stmt
        safe = tirx.While(_unless(checks, stmt.condition, tirx.const(False, "bool")), stmt.body)
        return tirx.SeqStmt([safe, self._safe(checks, _NOTHING, None)])

    def at_most(self, stmt: Expr) -> Expr:
        most = _most(stmt)
        loops: list[Any] = []
        tvm_ffi.structural_walk(stmt.body, (tirx.While, loops.append), order="pre")
        if most is None or not loops:
            return stmt
        slot, self.counters = self.counters, self.counters + 1
        self.checks.append(IterationCheck(most))
        number = len(self.checks) - 1

        def counted(loop: Expr) -> Expr:
            if not loop.same_as(loops[0]):
                return loop
            count = self._load(slot)
            more = tirx.LT(count, _number(most))
            ended = tirx.While(tirx.And(more, loop.condition), tirx.SeqStmt([loop.body, self._put(slot, count + 1)]))
            late = tirx.And(tirx.Not(more), loop.condition)
            record = tirx.IfThenElse(late, self._record(number, count), None)
            return tirx.SeqStmt([self._put(slot, _number(0)), ended, record])

        return tvm_ffi.structural_map(stmt, [(tirx.While, counted), (tirx.SeqStmt, _flat)], order="post")

    def _loads(self, *exprs: Expr) -> list[IndexCheck]:
        return [check for expr in exprs for check in self.indices.of_loads(expr)]

    def _safe(self, checks: Sequence[IndexCheck], stmt: Expr, instead: Expr | None) -> Expr:
        """The statement where all checks hold, else a record of the first that does not, and ``instead``."""
        for check in reversed(checks):
            number = len(self.checks)
            self.checks.append(check)
            record = self._record(number, int64(check.index))
            if instead is not None:
                record = _flat(tirx.SeqStmt([record, instead]))
            stmt = tirx.IfThenElse(is_bad(check), record, stmt)
        return stmt

    def _record(self, number: int, value: Expr) -> Expr:
        first = tirx.SeqStmt([self._put(_CHECK, _number(number)), self._put(_VALUE, value)])
        count = self._load(_COUNT)
        return tirx.SeqStmt([tirx.IfThenElse(tirx.EQ(count, _number(0)), first, None), self._put(_COUNT, count + 1)])

    def _load(self, slot: int) -> Expr:
        return tirx.BufferLoad(self.faults, [_number(slot)])

    def _put(self, slot: int, value: Expr) -> Expr:
        return tirx.BufferStore(self.faults, value, [_number(slot)])


_NOTHING = tirx.Evaluate(tirx.const(0, "int32"))


def _most(stmt: Expr) -> int | None:
    """What an attribute says of a loop, if it is one of those."""
    known = stmt.attr_key == AT_MOST and isinstance(stmt.value, tirx.IntImm) and int(stmt.value.value) >= 0
    return int(stmt.value.value) if known else None


def _unless(checks: Iterable[IndexCheck], value: Expr, instead: Expr) -> Expr:
    for check in reversed(list(checks)):
        value = tirx.if_then_else(is_bad(check), instead, value)
    return value


def _flat(stmt: Expr) -> Expr:
    """Without sequences in a sequence: variables of an inner one would not be known behind it."""
    if not any(isinstance(part, tirx.SeqStmt) for part in stmt.seq):
        return stmt
    return tirx.SeqStmt([p for part in stmt.seq for p in (part.seq if isinstance(part, tirx.SeqStmt) else [part])])


def _touching(faults: Expr, slots: int) -> Callable[[Expr], Expr]:
    """Blocks that say of themselves that they read and write ``faults``: TVM refuses others that do."""
    region = tirx.BufferRegion(faults, [tvm.ir.Range(0, slots)])

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


def _number(value: int) -> Expr:
    return tirx.IntImm("int64", value)
