"""Each class of operator, in float32 and float16, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx, reference_outputs
from girih.ir.checks.check_graph import check_graph
from tests.support.onnx_models import TOLERANCE, Model, check_both, compare, error, onnxruntime_outputs, random_inputs
from tests.support.operators.imported.all_cases import CASES
from tests.support.operators.imported.normalisation_cases import local_response


@pytest.mark.parametrize("name", CASES)
def test_float32(name: str) -> None:
    compare(CASES[name]())


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", CASES)
def test_sixteen_bits(name: str, precision: str) -> None:
    # Next to a pole, an error of the argument is a larger one of the tangent; bfloat16 has three bits less than float16.
    tolerance = 8 * TOLERANCE["fp16"] if (name, precision) == ("tan", "bf16") else None
    graph = compare(CASES[name](), precision=precision, tolerance=tolerance)
    for tensor in graph.tensors:
        assert tensor.dtype != "float32", f"{tensor.name} is still float32"


@pytest.mark.parametrize("size", [2, 4, 8, 12])
def test_local_response_norm_over_an_even_number(size: int) -> None:
    """ONNX Runtime has none; ONNX's own evaluator is right where there are as many samples as channels."""
    model = local_response(size, batch=9)()
    inputs = random_inputs(model)
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    (got,) = evaluate_graph(import_onnx(model), inputs).values()
    assert error(got, expected) < 1e-5
    (again,) = reference_outputs(model, inputs).outputs.values()
    assert error(again, expected) < 1e-5


@pytest.mark.parametrize(
    ("mode", "kernel", "strides", "pads"),
    [
        ("SAME_UPPER", [2, 1], [3, 2], [0, 0, 0, 0]),
        ("SAME_LOWER", [2, 1], [3, 2], [0, 0, 0, 0]),
        ("SAME_UPPER", [4, 2], [2, 1], [1, 0, 2, 1]),
        ("SAME_LOWER", [4, 2], [2, 1], [2, 1, 1, 0]),
    ],
)
def test_padding_of_pools_that_follows_from_shapes(
    mode: str, kernel: list[int], strides: list[int], pads: list[int]
) -> None:
    """Neither TVM nor ONNX Runtime has it where a stride exceeds its kernel."""

    def pool(**padding: object) -> onnx.ModelProto:
        m = Model()
        return m.build(m.node("MaxPool", m.input("x", 1, 3, 5, 4), kernel_shape=kernel, strides=strides, **padding))

    by_mode, by_pads = pool(auto_pad=mode), pool(pads=pads)
    inputs = random_inputs(by_pads)
    (expected,) = onnxruntime_outputs(by_pads, inputs).values()
    for outputs in (evaluate_graph(import_onnx(by_mode), inputs), reference_outputs(by_mode, inputs).outputs):
        (array,) = outputs.values()
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "pads", "size"),
    [
        (2, 2, 1, (0, 0), 5),
        (3, 2, 1, (2, 2), 9),
        (4, 3, 1, (1, 0), 6),
        (2, 4, 2, (1, 1), 4),
        (3, 2, 2, (2, 0), 8),
        (1, 2, 1, (0, 0), 5),
    ],
)
def test_a_norm_of_a_window_past_the_input(
    kernel: int, stride: int, dilation: int, pads: tuple[int, int], size: int
) -> None:
    m = Model(opset=19)
    window = {"kernel_shape": [kernel], "strides": [stride], "dilations": [dilation], "pads": pads, "ceil_mode": 1}
    check_both(m.build(m.node("LpPool", m.input("x", 1, 2, size), **window)), 1e-6)


WINDOWS_BEHIND_THE_INPUT: dict[str, tuple[str, dict[str, object]]] = {
    "max": ("MaxPool", {}),
    "mean": ("AveragePool", {}),
    "mean with padding": ("AveragePool", {"count_include_pad": 1}),
    "norm": ("LpPool", {}),
}


@pytest.mark.parametrize("opset", [11, 18, 22])
@pytest.mark.parametrize("kind", WINDOWS_BEHIND_THE_INPUT)
def test_windows_that_begin_behind_the_input(kind: str, opset: int) -> None:
    """ONNX counts them before operator set 22, and ONNX Runtime does not; what follows has a shape of its own."""
    op, attributes = WINDOWS_BEHIND_THE_INPUT[kind]
    attributes = {**attributes, "ceil_mode": 1}
    m = Model(max(opset, 18) if op == "LpPool" else opset)  # It has no such mode before.
    x = m.node("Relu", m.input("x", 1, 2, 10, 11))
    # The last window of the first dimension begins inside of the input, and reaches past the padding.
    x = m.node(op, x, kernel_shape=[3, 3], strides=[2, 4], pads=[1, 0, 1, 2], **attributes)
    x = m.node(op, x, kernel_shape=[1, 1], strides=[3, 3], **attributes)
    model = m.build(m.node("Flatten", x))
    del model.graph.value_info[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    check_both(model, 1e-6)


def test_a_mean_over_no_axes() -> None:
    """An instance without spatial dimensions is its own mean, so that its bias alone is left of it."""
    m = Model()
    x, bias = m.input("x", 2, 5), m.weight("bias", 5)
    graph = import_onnx(m.build(m.node("InstanceNormalization", x, m.weight("scale", 5), bias)))
    check_graph(graph)
    (y,) = evaluate_graph(graph, {"x": np.random.default_rng(0).standard_normal((2, 5)).astype(np.float32)}).values()
    np.testing.assert_array_equal(y, np.broadcast_to(m.weights["bias"], (2, 5)))
