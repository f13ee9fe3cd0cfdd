"""Host kernels touch nothing out of range and end where they say, whatever data holds; what is proven costs nothing."""

# TVMScript is parsed, not run: its loops and buffers mean nothing to type checkers.
# pyright: basic, reportInvalidTypeForm=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportIndexIssue=false, reportArgumentType=false, reportGeneralTypeIssues=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T  # pyright: ignore[reportMissingModuleSource]

from girih.lowering.kernel_guard import IterationCheck, guarded


def run(function: Any, x: np.ndarray, columns: int = 6) -> tuple[np.ndarray, int, Any]:
    """What the guarded function writes, the number of faults, and check and index of the first."""
    guard = guarded(function)
    y = tvm.runtime.tensor(np.full((4, columns), -1, x.dtype))
    faults = tvm.runtime.tensor(np.zeros(max(guard.slots, 3), np.int64))
    name = function.attrs["global_symbol"]
    tvm.compile(tvm.IRModule({name: guard.function}), target="llvm")[name](
        tvm.runtime.tensor(x), y, *([faults] if guard.checks else [])
    )  # fmt: skip
    count, number, index = map(int, faults.numpy()[:3])
    return y.numpy(), count, (guard.checks[number], index) if count else None


@T.prim_func(s_tir=True)
def proven(x: T.Buffer((4, 6), "int32"), y: T.Buffer((4, 6), "int32")):
    for i, j in T.grid(4, 6):
        with T.sblock("b"):
            a, b = T.axis.remap("SS", [i, j])
            y[3 - a, (b * 5 + 1) % 6] = T.if_then_else(b > 0, x[a, b - 1], T.if_then_else(a + b < 4, x[a + b, b], 0))


def test_what_is_proven_stays_as_it_is() -> None:
    guard = guarded(proven)
    assert guard.function.same_as(proven) and not guard.checks and not guard.slots


@T.prim_func(s_tir=True)
def untrue_domain(x: T.Buffer((4, 6), "int32"), y: T.Buffer((4, 6), "int32")):
    for i, j in T.grid(4, 6):
        with T.sblock("b"):
            a = T.axis.spatial(4, i + 1)
            b = T.axis.spatial(6, j)
            y[a, b] = x[a, b]


def test_what_a_block_says_of_its_variables_is_not_believed() -> None:
    _, count, fault = run(untrue_domain, np.zeros((4, 6), "int32"))
    assert count == 6 and fault[1] == 4


@T.prim_func(s_tir=True)
def shifted(x: T.Buffer((4, 6), "int32"), y: T.Buffer((4, 6), "int32")):
    for i, j in T.grid(4, 6):
        if x[0, 0] > 0:
            y[i + 1, j] = x[i, j - 1]


@pytest.mark.parametrize("first", [0, 1])
def test_loops_that_leave_a_buffer_are_faults_where_their_condition_holds(first: int) -> None:
    x = np.arange(24, dtype="int32").reshape(4, 6) + first
    y, count, fault = run(shifted, x)
    expected = np.full((4, 6), -1)
    if first:
        expected[1:, 1:] = x[:3, :5]
        expected[1:, 0] = 0  # written, but nothing can be read
        assert count == 4 + 5 and fault[0].axis == 1 and fault[1] == -1
    assert np.array_equal(y, expected) and (count > 0) == bool(first)


@T.prim_func(s_tir=True)
def in_conditions(x: T.Buffer((4, 6), "int32"), y: T.Buffer((4, 6), "int32")):
    for i, j in T.grid(4, 6):
        if x[i, j + 1] > 0:
            y[i, j] = 1
        else:
            y[i, j] = 2


def test_an_index_in_a_condition_leaves_out_both_ways() -> None:
    y, count, fault = run(in_conditions, np.full((4, 6), 5, "int32"))
    assert count == 4 and fault[1] == 6
    assert (y[:, :5] == 1).all() and (y[:, 5] == -1).all()


@T.prim_func(s_tir=True)
def short_circuit(x: T.Buffer((4, 6), "int32"), y: T.Buffer((4, 6), "int32")):
    for i, j in T.grid(4, 6):
        if j > 0 and x[i, j - 1] > 0:
            y[i, j] = 1


def test_the_second_of_two_conditions_is_checked_where_the_first_holds() -> None:
    y, count, _ = run(short_circuit, np.full((4, 6), 5, "int32"))
    assert count == 0 and (y[:, 1:] == 1).all()


@T.prim_func(s_tir=True)
def variable(x: T.Buffer((4, 6), "int32"), y: T.Buffer((4, 6), "int32")):
    for i, j in T.grid(4, 6):
        value: T.let = x[i, j + x[0, 0]]
        y[i, j] = value + value


def test_a_variable_of_an_index_out_of_range_is_zero() -> None:
    y, count, fault = run(variable, np.full((4, 6), 2, "int32"))
    assert count == 8 and fault[1] == 6
    assert (y[:, :4] == 4).all() and (y[:, 4:] == 0).all()


@T.prim_func(s_tir=True)
def beyond_the_end(x: T.Buffer((4, 6), "int32"), y: T.Buffer((4, 6), "int32")):
    at = T.alloc_buffer((1,), "int32")
    for i in range(4):
        at[0] = 0
        while x[i, at[0]] > 0:
            y[i, at[0]] = 7
            at[0] = at[0] + 1


def test_a_while_ends_at_the_end_of_a_buffer() -> None:
    x = np.ones((4, 6), "int32")
    x[1:, 3] = 0
    y, count, fault = run(beyond_the_end, x)
    assert count == 1 and fault[1] == 6
    assert (y[0] == 7).all() and (y[1:, :3] == 7).all() and (y[1:, 3:] == -1).all()


@T.prim_func(s_tir=True)
def counted(x: T.Buffer((4, 6), "int32"), y: T.Buffer((4, 6), "int32")):
    at = T.alloc_buffer((1,), "int32")
    for i in range(4):
        at[0] = 0
        with T.attr({"npu.at_most": 5}):
            while at[0] < x[i, 0]:
                y[i, at[0]] = 7
                at[0] = at[0] + 1


def test_a_while_ends_where_it_says_and_every_time_is_counted_anew() -> None:
    x = np.full((4, 6), 5, "int32")
    y, count, fault = run(counted, x)
    assert (count, fault) == (0, None) and (y[:, :5] == 7).all()
    x[2:, 0] = 6
    y, count, fault = run(counted, x)
    assert count == 2 and fault == (IterationCheck(5), 5) and (y[:, 5] == -1).all()


@T.prim_func(s_tir=True)
def permuted(x: T.Buffer((4, 6), "int32"), y: T.Buffer((4, 6), "int32")):
    for i, j in T.grid(4, 6):
        with T.sblock("b"):
            a = T.axis.spatial(4, x[i, j])
            b = T.axis.spatial(6, j)
            y[a, b] = b


def test_a_variable_of_a_block_may_be_any_number_that_data_holds() -> None:
    x = np.repeat(np.array([[3], [1], [0], [2]], "int32"), 6, axis=1)
    y, count, _ = run(permuted, x)
    assert not count and (y == np.arange(6)).all()
    x[2, 5] = 1 << 30
    y, count, fault = run(permuted, x)
    assert count == 1 and fault[1] == 1 << 30 and y[0, 5] == -1
