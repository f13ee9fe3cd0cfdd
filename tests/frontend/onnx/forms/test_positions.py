"""OneHot, ArgMax, ArgMin and Hardmax, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.frontend.reference.run import reference_outputs
from girih.ir.errors import UnsupportedError
from tests.support.onnx_models import Model, check_both, onnxruntime_outputs, run_on_host


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
@pytest.mark.parametrize("depth", [np.array(4), np.array([4]), np.array(4, np.float32)])
def test_indices_of_all_kinds(depth: np.ndarray, axis: int) -> None:
    """From the beginning, from the end, and beyond either, of which no place is that of the index."""
    m = Model()
    offsets = m.constant("offsets", np.array([[0, 2, 3], [-1, -4, -6]]))
    indices = m.node("Add", m.input("x", 2, 3, kind="i"), offsets)
    values = m.constant("values", np.array([0.5, 2], np.float32))
    check_both(m.build(m.node("OneHot", indices, m.constant("depth", depth), values, axis=axis)))


def test_whole_values() -> None:
    m = Model()
    x, depth = m.input("x", 2, 3, kind="i"), m.constant("depth", np.array(5))
    check_both(m.build(m.node("OneHot", x, depth, m.constant("values", np.array([-3, 4])))))


@pytest.mark.parametrize(("kind", "indices", "depth"), [("uint8", [1, 252], 4), ("int8", [-100, 56], 200)])
def test_places_beyond_the_dtype_of_the_indices(kind: str, indices: list[int], depth: int) -> None:
    """Against the definition, as ONNX Runtime has no OneHot of these: no place is that of another by wrapping around."""
    m = Model()
    x = m.node("Identity", m.constant("x", np.array(indices, kind)))
    one_hot = m.node(
        "OneHot", x, m.constant("depth", np.array(depth)), m.constant("values", np.array([0, 1], np.float32))
    )
    graph = import_onnx(m.build(m.node("Add", one_hot, m.input("y", len(indices), depth))))
    right = np.zeros((len(indices), depth), np.float32)
    for row, index in enumerate(indices):
        if -depth <= index < depth:
            right[row, index] = 1
    (got,) = evaluate_graph(graph, {"y": np.zeros_like(right)}).values()
    np.testing.assert_array_equal(got, right)


def test_values_that_are_an_input() -> None:
    m = Model()
    x, values = m.input("x", 2, 3, kind="i"), m.input("values", 2)
    model = m.build(m.node("OneHot", x, m.constant("depth", np.array(5)), values, name="hot"))
    with pytest.raises(UnsupportedError, match="node 'hot': OneHot: its depth or values are not constant"):
        import_onnx(model)


LIMITS = {
    "float32": (-np.inf, np.finfo(np.float32).min, 0, np.finfo(np.float32).max, np.inf),
    "float16": (-np.inf, np.finfo(np.float16).min, 0, np.finfo(np.float16).max, np.inf),
    "int8": (-128, 0, 127),
    "uint8": (0, 1, 255),
    "int32": (-(2**31), 0, 2**31 - 1),
}


def rows(dtype: str) -> np.ndarray:
    """Rows with ties among the extremes of their type: all equal, or drawn from few numbers."""
    draws = np.random.default_rng(0).choice(np.array(LIMITS[dtype], dtype), (2, 9, 5))
    draws[0, : len(LIMITS[dtype])] = np.array(LIMITS[dtype], dtype)[:, None]
    return draws


def check_rows(op_type: str, dtype: str, opset: int, **attributes: int) -> None:
    """Compare with ONNX Runtime; nothing is left to the host."""
    values = rows(dtype)
    node = helper.make_node(op_type, ["x"], ["y"], **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    result = kind if op_type == "Hardmax" else TensorProto.INT64
    ports = [helper.make_tensor_value_info("x", kind, values.shape)], [helper.make_tensor_value_info("y", result, None)]
    model = helper.make_model(
        helper.make_graph([node], "rows", *ports), opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    (expected,) = onnxruntime_outputs(model, {"x": values}).values()
    graph = import_onnx(model)
    positions = evaluate_graph(graph, {"x": values}, run_on_host)["y"]
    np.testing.assert_array_equal(positions, expected)
    np.testing.assert_array_equal(reference_outputs(model, {"x": values}).outputs["y"], expected)
    assert positions.dtype == expected.dtype
    assert not any(op.host for op in graph.ops)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_positions_of_extremes(op_type: str, dtype: str, opset: int) -> None:
    for axis in (0, 1, -1):
        for last in (0, 1):
            for kept in (0, 1):
                check_rows(op_type, dtype, opset, axis=axis, select_last_index=last, keepdims=kept)


def test_positions_of_earlier_operator_sets() -> None:
    check_rows("ArgMax", "float32", 11)
    check_rows("ArgMin", "float32", 7, axis=2)


@pytest.mark.parametrize(("opset", "axis"), [(13, 1), (13, 0), (13, -1), (11, 1), (11, 2)])
def test_hardmax(opset: int, axis: int) -> None:
    """Before operator set 13, it takes all dimensions from the axis on together."""
    check_rows("Hardmax", "float32", opset, axis=axis)
    check_rows("Hardmax", "float32", opset)
