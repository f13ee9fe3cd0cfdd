"""Types and attributes of quantisation that cannot be imported are named, with what to change."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from girih.frontend import import_onnx, reference_outputs
from girih.frontend.net.net import Info
from girih.frontend.onnx.checks.quantised_types import check_quantised_types
from girih.frontend.onnx.inline import Node
from girih.ir.errors import UnsupportedError

FLOAT = TensorProto.FLOAT
TO_8_BITS = r"quantise activations to 8 bits, int8 or uint8$"


def network(nodes: list[onnx.NodeProto], weights: dict[str, onnx.TensorProto], kind: int = FLOAT) -> onnx.ModelProto:
    """From an ``x`` to a ``y`` of shape 4 x 4; ``kind`` is the element type of both."""
    x, y = (helper.make_tensor_value_info(name, kind, [4, 4]) for name in "xy")
    for name, tensor in weights.items():
        tensor.name = name
    graph = helper.make_graph(nodes, "quantised", [x], [y], list(weights.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def scalar(kind: int, value: float = 0.0) -> onnx.TensorProto:
    return helper.make_tensor("", kind, [], [value])


def activations(zero: int | None = None, kind: int = FLOAT, **attributes: object) -> onnx.ModelProto:
    """Quantised, with a zero point of that type, and dequantised."""
    parameters = ["s"] if zero is None else ["s", "z"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *parameters], ["q"], name="quantise", **attributes),
        helper.make_node("DequantizeLinear", ["q", *parameters], ["y"], name="dequantise"),
    ]
    scale = scalar(kind if kind != TensorProto.INT32 else FLOAT, 0.5)
    return network(nodes, {"s": scale} | ({} if zero is None else {"z": scalar(zero)}), kind)


@pytest.mark.parametrize("zero", ["INT16", "UINT16", "INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT4E2M1"])
def test_activations_of_other_types_than_8_bit_integers(zero: str) -> None:
    kind = TensorProto.DataType.Value(zero)
    name = helper.tensor_dtype_to_np_dtype(kind).name
    with pytest.raises(
        UnsupportedError,
        match=rf"node 'quantise' \(QuantizeLinear\): the zero point 'z' is of type {name}, .*{TO_8_BITS}",
    ):
        import_onnx(activations(kind))
    with pytest.raises(UnsupportedError, match=rf"node 'quantise' .*: output_dtype is {name}, .*{TO_8_BITS}"):
        import_onnx(activations(output_dtype=kind))


@pytest.mark.parametrize(("kind", "name"), [(TensorProto.BFLOAT16, "bfloat16"), (TensorProto.INT32, "int32")])
def test_what_is_quantised_is_of_another_type_than_float(kind: int, name: str) -> None:
    model = activations(TensorProto.INT8, kind)
    with pytest.raises(UnsupportedError, match=rf"node 'quantise' .*: 'x' is of type {name}, .*: cast it to float32"):
        import_onnx(model)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"precision": FLOAT}, "precision is float32, and the attribute is not supported: leave it out"),
        ({"precision": TensorProto.FLOAT16}, "precision is float16, and the attribute is not supported: leave it out"),
    ],
)
def test_attributes(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"^node 'quantise' \(QuantizeLinear\): {message}$"):
        import_onnx(activations(TensorProto.INT8, **attributes))


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_what_is_dequantised_is_computed_and_has_16_bits(dtype: str) -> None:
    """Of constants, real numbers are left; of others, there would have to be a tensor."""
    node, infos = Node("dequantise", "DequantizeLinear", ("q", "s"), ("y",)), [Info((4,), dtype), Info((), "float32")]
    check_quantised_types(node, infos, is_weight=True)
    with pytest.raises(UnsupportedError, match=rf"^node 'dequantise' .*: 'q' is of type {dtype}, .* int8 or uint8$"):
        check_quantised_types(node, infos, is_weight=False)


def weights(array: np.ndarray, scale: np.ndarray, kind: int = FLOAT, **attributes: object) -> onnx.ModelProto:
    """A product of activations and of dequantised weights."""
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], name="dequantise", **attributes),
        helper.make_node("MatMul", ["x", "d"], ["y"], name="product"),
    ]
    return network(nodes, {"w": numpy_helper.from_array(array), "s": numpy_helper.from_array(scale)}, kind)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            weights(np.ones((4, 4), np.int8), np.ones((2, 4), np.float32), block_size=2, axis=0),
            "scales of blocks are not supported, and block_size is 2: quantise with one scale, or with one for each",
        ),
        (
            weights(np.ones((4, 4), ml_dtypes.float8_e4m3fn), np.float32(1)),
            "'w' is of type float8_e4m3fn, which is not supported: quantise it to int8 or uint8",
        ),
        (
            weights(np.ones((4, 4), np.int8), np.ones((), ml_dtypes.bfloat16), TensorProto.BFLOAT16),
            "the scale 's' is of type bfloat16, which is not supported: give float32 or float16",
        ),
        (
            weights(np.ones((4, 4), np.int8), np.float32(1), TensorProto.BFLOAT16, output_dtype=TensorProto.BFLOAT16),
            "output_dtype is bfloat16, which is not supported: give float32 or float16, and cast the result",
        ),
    ],
    ids=["blocks", "float8", "scale", "output_dtype"],
)
def test_weights(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"^node 'dequantise' \(DequantizeLinear\): {message}"):
        import_onnx(model)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32])
def test_weights_of_any_integers_are_numbers(dtype: type[np.integer]) -> None:
    """Of constants, real numbers are left at import."""
    model = weights(np.arange(16, dtype=dtype).reshape(4, 4) * 7, np.full((), 0.03, np.float32))
    inputs = {"x": np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)}
    options = onnxruntime.SessionOptions()
    # It would make a product of quantised activations of it.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (right,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)
    assert import_onnx(model).ops
    np.testing.assert_allclose(reference_outputs(model, inputs).outputs["y"], right, rtol=1e-5, atol=1e-5)
