"""What is wrong with a custom operator is said with the file and the line of the user."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax, s_tir, te, tirx

from girih import register_operator
from girih.frontend import import_onnx
from girih.ir.custom_operators import blaming, operator_by_key
from girih.ir.errors import UsageError
from tests.support.custom_models import DOMAIN, custom_node, network

COUNTER = itertools.count(1)


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(n for n, line in enumerate(lines) if text in line)


def refused(function: Callable[..., Any], message: str, model: onnx.ModelProto | None = None, **how: Any) -> str:
    register_operator(DOMAIN, "Bad", **how)(function)
    with pytest.raises(UsageError, match=message) as raised:
        import_onnx(model or network([custom_node("Bad", ["x"], ["y"])], {"x": [4, 6]}, {"y": [4, 6]}))
    return str(raised.value)


def raising(x: Any) -> Any:
    size = x.shape[5]  # there are two
    return te.compute((size,), lambda i: x[i, 0], name="raising")


def wrong_type(x: Any) -> Any:
    return relax.op.matmul(x, x)  # 4 x 6 by 4 x 6


def test_what_it_raises_has_the_line_where_it_was_raised() -> None:
    text = refused(raising, "the call for node 'my Bad' of the operator my.ops::Bad failed: ")
    assert text.startswith(f"{__file__}:{line_of(raising, 'there are two')}: ")


def leaving(x: Any) -> Any:
    sys.exit(3)


def test_an_exit_of_the_function_is_an_error_with_its_line() -> None:
    text = refused(leaving, "the call for node 'my Bad' of the operator my.ops::Bad failed: SystemExit: 3")
    assert text.startswith(f"{__file__}:{line_of(leaving, 'sys.exit')}: ")


def test_a_dropped_condition_is_refused_with_a_line() -> None:
    def tail(x: Any) -> Any:
        k = te.reduce_axis((0, 6), "k")
        return te.compute((4,), lambda i: te.sum(x[i, k], axis=k, where=k > 3), name="tail")

    assert refused(tail, "the reduction of 'tail' has where=").startswith(f"{__file__}:")


def test_what_relax_says_of_types_has_a_line() -> None:
    assert refused(wrong_type, "my.ops::Bad failed: ", height="graph").startswith(f"{__file__}:")


def test_unknown_attributes_are_named() -> None:
    model = network([custom_node("Bad", ["x"], ["y"], alpha=1.0)], {"x": [4, 6]}, {"y": [4, 6]})
    refused(lambda x: x, "got an unexpected keyword argument 'alpha'", model)


@pytest.mark.parametrize(
    ("height", "function", "message"),
    [
        ("compute", lambda x: 3, "it returns int, not a te tensor"),
        ("compute", lambda x: x, "it returns one of its inputs as it is; compute a copy"),
        ("graph", lambda x: "text", "it returns str, not a Relax expression"),
        ("library", lambda x: None, "it returns NoneType, not a PrimFunc"),
        ("compute", lambda x: te.compute((4, 7), lambda i, j: x[i, 0], name="w"),
         r"returns float32\[4, 7\], but the model says that 'y' is float32\[4, 6\]"),
        ("graph", lambda x: relax.op.astype(x, "int32"), r"returns int32\[4, 6\], but the model says that 'y' is float32"),
        ("compute", lambda x: te.compute(x.shape, lambda *i: x(*i).astype("uint16"), name="w"),
         "dtype uint16 is not supported; there are float32, "),
        ("graph", lambda x: relax.op.strided_slice(x, [0], [0], [0]), r"it returns float32\[0, 6\], which has no elements"),
        ("compute", lambda x: te.compute((4, 0), lambda i, j: x[i, j], name="w"),
         r"it returns float32\[4, 0\], which has no elements"),
        ("graph", lambda x: relax.op.nonzero(x), "its results need static shapes"),
    ],
)  # fmt: skip
def test_wrong_results_are_refused(height: Any, function: Callable[..., Any], message: str) -> None:
    assert refused(function, message, height=height).startswith(f"{__file__}:")


def test_a_read_out_of_bounds_is_refused() -> None:
    message = (
        r"the operator my.ops::Bad for node 'my Bad' is not valid: .*dimension 1 .* accessed in \[1, 6\], it has 6"
    )
    refused(lambda x: te.compute(x.shape, lambda i, j: x[i, j + 1], name="w"), message)


def test_too_few_results_are_refused() -> None:
    model = network([custom_node("Bad", ["x"], ["y", "z"])], {"x": [4, 6]}, {"y": None, "z": None})
    refused(lambda x: relax.op.exp(x), "it returns 1 results, the node has 2", model, height="graph")


@pytest.mark.parametrize(
    ("height", "function"),
    [
        ("graph", lambda x: relax.op.add(x, relax.const(float(next(COUNTER)), "float32"))),
        ("compute", lambda x: te.compute(x.shape, lambda *i: x(*i) + float(next(COUNTER)), name="c")),
        ("compute", lambda x: te.compute(x.shape, lambda *i: x(*i), name=f"c{next(COUNTER)}")),
    ],
)
def test_what_is_not_deterministic_is_refused(height: Any, function: Callable[..., Any]) -> None:
    refused(function, "it is not deterministic: called twice with the same arguments, it returns two things", height=height)  # fmt: skip


def test_types_that_the_model_has_between_nodes_are_checked() -> None:
    nodes = [custom_node("Bad", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    model = network(nodes, {"x": [4, 6]}, {"y": None})
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [4, 8]))
    refused(lambda x: relax.op.exp(x), r"returns float32\[4, 6\], but the model says that 'a' is float32\[4, 8\]", model, height="graph")  # fmt: skip


def kernel(rows: int) -> Any:
    a = te.placeholder((rows, 6), "float32", "a")
    return te.create_prim_func([a, te.compute((rows, 6), lambda *i: a(*i) + 1.0, name="b")])


def test_a_kernel_for_other_inputs_is_refused() -> None:
    refused(kernel(5), r"its kernel takes float32\[5, 6\] as input 0, which is float32\[4, 6\]", height="library")


def test_a_kernel_without_results_is_refused() -> None:
    model = network([custom_node("Bad", ["x", "z"], ["y"])], {"x": [4, 6], "z": [4, 6]}, {"y": None})
    refused(kernel(4), "its kernel has no parameter for a result", model, height="library")


def illegal(schedule: Any, tile: Any) -> None:
    block = schedule.get_sblock("double")
    _, inner = schedule.get_loops(block)
    schedule.reorder(inner, inner)  # twice the same loop


def test_an_illegal_schedule_has_tvms_message_and_the_line() -> None:
    def double(x: Any) -> Any:
        return te.compute(x.shape, lambda *i: x(*i) * 2.0, name="double")

    register_operator(DOMAIN, "Double", template=illegal)(double)
    operator = operator_by_key(f"{DOMAIN}::Double")
    x = te.placeholder((4, 6), "float32", "x")
    schedule = s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([x, double(x)])}))
    with pytest.raises(UsageError) as raised, blaming(operator, "the template"):
        illegal(schedule, None)
    text = str(raised.value)
    where = f"{__file__}:{line_of(illegal, 'twice')}: the template of the operator my.ops::Double failed: "
    reason = "Loop tirx.For#0 appears in the input array for multiple times."
    assert text == f"{where}ScheduleError: An error occurred in the schedule primitive 'reorder'. {reason}"


def test_a_chosen_number_of_results_is_fine() -> None:
    register_operator(DOMAIN, "Two", height="graph")(lambda x: (relax.op.exp(x), relax.op.sqrt(x)))
    graph = import_onnx(network([custom_node("Two", ["x"], ["y"])], {"x": [4, 6]}, {"y": [4, 6]}))
    assert len(graph.ops) == 1


def test_small_constants_are_known_to_library_operators() -> None:
    values: list[np.ndarray | None] = []

    def library(x: Any, n: Any) -> Any:
        values.extend((x.value, n.value))
        a, b = te.placeholder(x.shape, x.dtype, "a"), te.placeholder(n.shape, n.dtype, "b")
        total = te.compute(x.shape, lambda *i: a(*i) + tirx.Cast("float32", b[0]), name="total")
        return te.create_prim_func([a, b, total])

    register_operator(DOMAIN, "Library", height="library")(library)
    weights = [onnx.numpy_helper.from_array(np.array([3]), "n")]
    model = network([custom_node("Library", ["x", "n"], ["y"])], {"x": [4, 6]}, {"y": None}, weights)
    import_onnx(model)
    assert values[0] is None and values[1] is not None and values[1].tolist() == [3]
