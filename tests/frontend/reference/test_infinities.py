"""Rows of nothing but infinities, and truth values that are compared: the reference gives what ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.frontend.reference.run import reference_outputs
from tests.support.onnx_models import Model, onnxruntime_outputs, run_on_host


def reductions(opset: int, dims: tuple[int, ...], keepdims: int) -> onnx.ModelProto:
    m = Model(opset=opset)
    x = m.input("x", *dims)
    names: list[str] = []
    for op in ("ReduceMax", "ReduceMin", "ReduceLogSumExp"):
        if opset < 18:
            names.append(m.node(op, x, axes=[1], keepdims=keepdims))
        else:
            names.append(m.node(op, x, m.constant(f"axes{op}", [1], "int64"), keepdims=keepdims))
    return m.build(*names)


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 5)).astype(np.float32)
    x[0], x[1], x[2, 3], x[3, 1] = -np.inf, np.inf, -np.inf, np.inf
    x[4] = np.finfo(np.float32).min
    return x


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("opset", [13, 18])
def test_maxima_over_axes(opset: int, keepdims: int) -> None:
    model, inputs = reductions(opset, (6, 5), keepdims), {"x": rows()}
    graphs = [import_onnx(model, precision=precision) for precision in ("as-is", "fp16")]
    with np.errstate(over="ignore"):
        single, half = (evaluate_graph(graph, inputs, run_on_host) for graph in graphs)
    for name, right in onnxruntime_outputs(model, inputs).items():
        assert np.isinf(right).any()
        np.testing.assert_allclose(reference_outputs(model, inputs).outputs[name], right, rtol=1e-6)
        np.testing.assert_allclose(single[name], right, rtol=1e-6)
        # The lowest number of single precision is none of half precision.
        np.testing.assert_allclose(np.delete(half[name], 4, 0), np.delete(right, 4, 0), rtol=2e-3)


def test_a_nan_is_a_logarithm_too() -> None:
    model, inputs = reductions(18, (6, 5), 1), {"x": rows()}
    inputs["x"][5, 2] = np.nan
    for right, got in zip(
        (inputs["x"].max(1), inputs["x"].min(1)), list(reference_outputs(model, inputs).outputs.values()), strict=False
    ):
        np.testing.assert_array_equal(got[:, 0], right)
    assert np.isnan(list(reference_outputs(model, inputs).outputs.values())[2][5, 0])


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1]])
def test_pools(pads: list[int]) -> None:
    m = Model()
    x = m.input("x", 1, 2, 6, 6)
    pool = m.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], pads=pads)
    model = m.build(pool, m.node("GlobalMaxPool", x))
    array = np.random.default_rng(0).standard_normal((1, 2, 6, 6)).astype(np.float32)
    array[0, 0, :3, :3], array[0, 1] = -np.inf, -np.inf
    padded = np.pad(array, [(0, 0), (0, 0), (pads[0],) * 2, (pads[0],) * 2], constant_values=-np.inf)
    size = padded.shape[-1] // 2
    graph = import_onnx(model)
    for outputs in (reference_outputs(model, {"x": array}).outputs, evaluate_graph(graph, {"x": array}, run_on_host)):
        first, second = outputs.values()
        # ONNX Runtime starts from the lowest finite number itself.
        np.testing.assert_array_equal(first, padded.reshape(1, 2, size, 2, size, 2).max((3, 5)))
        np.testing.assert_array_equal(second, array.max((2, 3), keepdims=True))
    # No padded copy is made.
    fills = {read.fill for op in graph.ops for stage in op.stages if stage.combine for read in stage.reads}
    assert len(graph.ops) == 2
    assert fills == ({None, -np.inf} if pads[0] else {None})


def test_the_lowest_number_of_a_network_stays() -> None:
    """A clip, and a padding, of the very number that TVM starts maxima from."""
    lowest = np.finfo(np.float32).min
    m = Model()
    x = m.input("x", 1, 1, 4, 4)
    clipped = m.node("Clip", x, m.constant("lowest", lowest))
    padded = m.node("Pad", clipped, m.constant("pads", [0, 0, 1, 1, 0, 0, 1, 1], "int64"), m.constant("fill", lowest))
    model = m.build(m.node("MaxPool", padded, kernel_shape=[2, 2], strides=[2, 2]), m.node("ReduceMax", padded))
    inputs = {"x": np.full((1, 1, 4, 4), -np.inf, np.float32)}
    for outputs in (reference_outputs(model, inputs).outputs, evaluate_graph(import_onnx(model), inputs, run_on_host)):
        for array in outputs.values():
            assert (array == lowest).all()


@pytest.mark.parametrize("opset", [6, 17])
@pytest.mark.parametrize(("low", "high"), [(True, True), (True, False), (False, True)])
def test_clips_at_the_last_finite_numbers(opset: int, low: bool, high: bool) -> None:
    """Infinities become finite, which a Softmax of nothing but them needs."""
    largest = float(np.finfo(np.float32).max)
    m = Model(opset)
    x, bounds = m.input("x", 3, 4), {"min": -largest if low else -1.5, "max": largest if high else 1.5}
    if opset < 11:
        clipped = m.node("Clip", x, **bounds)
    else:
        clipped = m.node("Clip", x, *(m.constant(name, value, "float32") for name, value in bounds.items()))
    model = m.build(m.node("Identity", clipped), m.node("Softmax", clipped, axis=1))
    inputs = {"x": np.array([[-np.inf] * 4, [np.inf] * 4, [-np.inf, 1, 2, np.inf]], np.float32)}
    wide, half = (evaluate_graph(import_onnx(model, precision=p), inputs, run_on_host) for p in ("as-is", "fp16"))
    half_largest = float(np.finfo(np.float16).max)
    for name, right in onnxruntime_outputs(model, inputs).items():
        np.testing.assert_allclose(wide[name], right, rtol=1e-6)
        # The largest number of single precision becomes that of half precision.
        np.testing.assert_allclose(half[name], np.clip(right, -half_largest, half_largest), rtol=1e-3)


def both_inputs() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Equal", m.input("a", 2, 4, kind="b"), m.input("b", 2, 4, kind="b")))


def one_broadcast() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Equal", m.input("a", 2, 4, kind="b"), m.input("b", 4, kind="b")))


def a_constant() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Equal", m.input("a", 2, 4, kind="b"), m.constant("no", False)))


def a_constant_first() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Equal", m.constant("mask", [True, False, True, True]), m.input("a", 2, 4, kind="b")))


def between() -> onnx.ModelProto:
    m = Model()
    a = m.node("Not", m.input("a", 2, 4, kind="b"))
    return m.build(m.node("Equal", a, m.node("Not", m.input("b", 2, 4, kind="b"))))


@pytest.mark.parametrize("build", [both_inputs, one_broadcast, a_constant, a_constant_first, between])
def test_equal_truths(build: Callable[[], onnx.ModelProto]) -> None:
    model, rng = build(), np.random.default_rng(0)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    inputs = {name: rng.integers(0, 2, shape).astype(bool) for name, shape in shapes.items()}
    for name, right in onnxruntime_outputs(model, inputs).items():
        truths = reference_outputs(model, inputs).outputs[name]
        assert truths.dtype == right.dtype == bool
        np.testing.assert_array_equal(truths, right)


def test_a_logarithm_of_a_sum_is_one_operator_with_its_neighbours() -> None:
    m = Model()
    x = m.node("Relu", m.input("x", 8, 64))
    graph = import_onnx(m.build(m.node("Sub", x, m.node("ReduceLogSumExp", x, axes=[1], keepdims=1))))
    assert len(graph.ops) == 1
