"""Kernels of users that would end the process, or change what is not theirs, are refused before they run."""

# TVMScript is parsed, not run: its loops and buffers mean nothing to type checkers.
# pyright: basic, reportInvalidTypeForm=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportIndexIssue=false, reportArgumentType=false, reportGeneralTypeIssues=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

import pytest
import tvm_ffi
from tvm import te, tirx
from tvm.script import tirx as T  # pyright: ignore[reportMissingModuleSource]

from girih import register_operator
from girih.frontend import import_onnx
from girih.frontend.custom.kernel_bounds import index_problem
from girih.frontend.custom.kernel_checks import kernel_problem
from girih.ir.errors import UsageError
from tests.support.custom_models import DOMAIN, custom_node, network


@T.prim_func(s_tir=True)
def store_beyond(x: T.Buffer((4, 6), "float32"), y: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        y[i + 1, j] = x[i, j]


@T.prim_func(s_tir=True)
def load_before(x: T.Buffer((4, 6), "float32"), y: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        with T.sblock("b"):
            a, b = T.axis.remap("SS", [i, j])
            column: T.let = b * 2 - 5
            if x[a, column] > T.float32(0):
                y[a, b] = x[a, b]


@T.prim_func(s_tir=True)
def guarded(x: T.Buffer((4, 6), "float32"), y: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        if i + j < 4:
            y[i + j, 0] = T.if_then_else(j > 0, x[i, j - 1], T.float32(0))


@T.prim_func(s_tir=True)
def by_data(x: T.Buffer((4, 6), "int32"), y: T.Buffer((4, 6), "int32")):
    for i, j in T.grid(4, 6):
        y[x[i, j], (i * 7 + j) % 6] = x[3 - i, j]


@T.prim_func(s_tir=True)
def never_runs(x: T.Buffer((4, 6), "float32"), y: T.Buffer((4, 6), "float32")):
    for i in range(0):
        y[i + 9, 0] = x[0, 0]


def test_indices_that_are_certainly_out_of_range_are_found() -> None:
    assert index_problem(store_beyond) == (
        "its kernel accesses y[i + 1, j] with indices from 1 to 4 in dimension 0, which has 4 entries; "
        "change the loops or the index, or put an if around it"
    )
    problem = index_problem(load_before)
    assert problem and "x[a, column] with indices from -5 to 5 in dimension 1, which has 6 entries" in problem


@pytest.mark.parametrize("kernel", [guarded, by_data, never_runs])
def test_what_may_be_in_range_is_left_to_the_run(kernel: Any) -> None:
    assert index_problem(kernel) is None


@T.prim_func(s_tir=True)
def writes_its_input(x: T.Buffer((4, 6), "float32"), y: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        x[i, j] = T.float32(0)
        y[i, j] = x[i, j]


@T.prim_func(s_tir=True)
def writes_nothing(x: T.Buffer((4, 6), "float32"), y: T.Buffer((4, 6), "float32")):
    kept = T.alloc_buffer((4, 6), "float32")
    for i, j in T.grid(4, 6):
        kept[i, j] = x[i, j]


def test_inputs_are_not_written_and_results_are() -> None:
    assert kernel_problem(writes_its_input, 1) == (
        "its kernel writes x, which is its input 0; write a result or a buffer of T.alloc_buffer"
    )
    assert kernel_problem(writes_nothing, 1) == "its kernel never writes y, which is its result 0"
    assert kernel_problem(guarded, 1) is None


def extern(name: str) -> Any:
    x = te.placeholder((4, 6), "float32", "x")
    call = te.extern(
        x.shape, [x], lambda i, o: tirx.call_packed(name, i[0], o[0]), name="far", dtype="float32"
    )  # fmt: skip
    return te.create_prim_func([x, call])


def symbol(name: str) -> Any:
    x = te.placeholder((4, 6), "float32", "x")
    call = te.compute(x.shape, lambda *i: tirx.call_extern("float32", name, x(*i)), name="far")
    return te.create_prim_func([x, call])


def test_functions_that_do_not_exist_are_found() -> None:
    for kernel in (extern("no.such.function"), symbol("no.such.function")):
        problem = kernel_problem(kernel, 1)
        assert problem and problem.startswith("it calls 'no.such.function', which this process does not")
    tvm_ffi.register_global_func("girih.test.known", lambda *a: None, override=True)
    assert kernel_problem(extern("girih.test.known"), 1) is None
    assert kernel_problem(symbol("expf"), 1) is None


def test_a_refusal_has_the_place_of_the_operator() -> None:
    register_operator(DOMAIN, "Bad", height="library")(store_beyond)
    model = network([custom_node("Bad", ["x"], ["y"])], {"x": [4, 6]}, {"y": [4, 6]})
    with pytest.raises(UsageError, match=r"test_kernel_checks.py:\d+: the operator my.ops::Bad for node .* accesses y"):
        import_onnx(model)


@T.prim_func(s_tir=True)
def by_address(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
    T.evaluate(T.call_extern("int32", "memcpy", T.address_of(y[0]), T.address_of(x[0]), 16))


@T.prim_func(s_tir=True)
def by_part(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
    for i in range(2):
        with T.sblock("b"):
            v = T.axis.spatial(2, i)
            T.reads(x[v * 2 : v * 2 + 2])
            T.writes(y[v * 2 : v * 2 + 2])
            z = T.match_buffer(y[v * 2 : v * 2 + 2], (2,), "int32", offset_factor=1)
            for j in range(2):
                z[j] = x[v * 2 + j]


@pytest.mark.parametrize("kernel", [by_address, by_part])
def test_results_may_be_written_by_another_name(kernel: Any) -> None:
    assert kernel_problem(kernel, 1) is None
