"""Counts of operations by hand."""

# TVMScript is parsed, not run: its loops and buffers mean nothing to type checkers.
# pyright: basic, reportInvalidTypeForm=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportIndexIssue=false, reportArgumentType=false, reportGeneralTypeIssues=false, reportOperatorIssue=false

from __future__ import annotations

import pytest
from tvm.script import tirx as T  # pyright: ignore[reportMissingModuleSource]

from girih.frontend.library.scalar_operations import Operations, UncountedError, scalar_operations


def test_loops_loads_and_stores() -> None:
    @T.prim_func(s_tir=True)
    def add(a: T.Buffer((3, 5), "float32"), b: T.Buffer((3, 5), "float32")):
        for i in range(3):
            for j in range(5):
                b[i, j] = a[i, j] + T.float32(1)

    # A load, an addition and a store, and two for the iteration; two for each iteration of the outer loop.
    assert scalar_operations(add) == Operations(3 * (5 * 5 + 2))


def test_indices_are_computed() -> None:
    @T.prim_func(s_tir=True)
    def shift(a: T.Buffer((9,), "float32"), b: T.Buffer((9,), "float32")):
        for i in range(4):
            b[2 * i + 1] = a[i]

    assert scalar_operations(shift) == Operations(4 * (1 + 2 + 1 + 2))


def test_the_longest_way_and_special_functions() -> None:
    @T.prim_func(s_tir=True)
    def choose(a: T.Buffer((1,), "float32"), b: T.Buffer((1,), "float32")):
        if a[0] > T.float32(0):
            b[0] = T.exp(a[0]) + T.float32(1)
        else:
            b[0] = T.float32(0)

    # Load, comparison and branch; load, exp, addition and store.
    assert scalar_operations(choose) == Operations(3 + 4, 1)


def test_a_loop_in_a_triangle_counts_as_its_longest() -> None:
    @T.prim_func(s_tir=True)
    def triangle(b: T.Buffer((8,), "int64")):
        for i in range(T.int64(8)):
            for j in range(i):
                b[j] = T.int64(0)

    assert scalar_operations(triangle) == Operations(8 * (7 * 3 + 2))


def test_a_while_runs_as_often_as_it_is_annotated() -> None:
    @T.prim_func(s_tir=True)
    def halve(b: T.Buffer((1,), "int64")):
        with T.attr({"npu.at_most": 6}):
            while b[0] > T.int64(1):
                b[0] = T.shift_right(b[0], T.int64(1))

    # Load, comparison and branch, seven times; load, shift and store, six times.
    assert scalar_operations(halve) == Operations(7 * 3 + 6 * 3)


def test_what_nobody_knows_is_no_number() -> None:
    @T.prim_func(s_tir=True)
    def forever(b: T.Buffer((1,), "int64")):
        while b[0] > T.int64(1):
            b[0] = b[0] - T.int64(1)

    with pytest.raises(UncountedError, match=r"a while has no npu\.at_most around it"):
        scalar_operations(forever)

    @T.prim_func(s_tir=True)
    def by_data(n: T.Buffer((1,), "int64"), b: T.Buffer((9,), "int64")):
        for i in range(n[0]):
            b[i] = T.int64(1)

    with pytest.raises(UncountedError, match="the extent of the loop over i is unknown"):
        scalar_operations(by_data)
