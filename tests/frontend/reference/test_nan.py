"""What goes in as a NaN comes out as one, of the reference as of a compiled network, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import girih
from girih.api.check import compare
from girih.frontend.reference.run import reference_outputs

SHAPE = (1, 4, 8, 8)
NODES = [
    helper.make_node("Relu", ["x"], ["relu"]),
    helper.make_node("MaxPool", ["x"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
    helper.make_node("Clip", ["x", "low", "high"], ["clip"]),
    helper.make_node("Max", ["x", "y"], ["most"]),
    helper.make_node("Min", ["y", "x"], ["least"]),
    helper.make_node("ReduceMax", ["x"], ["top"], axes=[3], keepdims=1),
    helper.make_node("LeakyRelu", ["x"], ["leaky"], alpha=0.25),
    helper.make_node("Sign", ["x"], ["sign"]),
]


def network(kind: int) -> bytes:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    limits = [helper.make_tensor(n, kind, [], np.array([v], dtype)) for n, v in (("low", -1.0), ("high", 1.0))]
    inputs = [helper.make_tensor_value_info(n, kind, SHAPE) for n in ("x", "y")]
    outputs = [helper.make_empty_tensor_value_info(n.output[0]) for n in NODES]
    graph = helper.make_graph(NODES, "special", inputs, outputs, limits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def inputs(kind: int) -> dict[str, np.ndarray]:
    """Random numbers with special ones among them, at places of their own."""
    rng = np.random.default_rng(0)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    found = {n: rng.standard_normal(SHAPE).astype(dtype) for n in ("x", "y")}
    # Only one has infinities: TVM takes the largest finite number for the minimum of two of them.
    for array, values in ((found["x"], (np.nan, np.inf, -np.inf)), (found["y"], (np.nan,))):
        for value in values:
            array.reshape(-1)[rng.choice(array.size, 12, replace=False)] = value
    return found


def expected(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "relu": np.maximum(x, 0),
        "pool": x.reshape(1, 4, 4, 2, 4, 2).max(axis=(3, 5)),
        "clip": np.clip(x, -1, 1),
        "most": np.maximum(x, y),
        "least": np.minimum(x, y),
        "top": x.max(axis=3, keepdims=True),
        "leaky": np.where(x < 0, (x * x.dtype.type(0.25)), x),
        "sign": np.sign(x),
    }


KINDS = [TensorProto.FLOAT, TensorProto.FLOAT16]


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_keeps_nans(kind: int) -> None:
    given = inputs(kind)
    found = reference_outputs(network(kind), given).outputs
    for name, right in expected(**given).items():
        np.testing.assert_array_equal(found[name], right, name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_compiled_network_passes_the_check(kind: int) -> None:
    given = inputs(kind)
    compiled = girih.compile(network(kind), target="tiny", solver_timeout=1)
    result = compiled.run(given, check=True)
    for name, right in expected(**given).items():
        np.testing.assert_array_equal(result.outputs[name], right, name)
        assert np.isnan(right).any(), name


def test_a_kernel_of_the_host_keeps_the_sign_of_a_nan() -> None:
    """No engine has 64 bits."""
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("Sign", ["wide"], ["sign"]),
        helper.make_node("Cast", ["sign"], ["y"], to=TensorProto.FLOAT),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 6]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "wide", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    given = {"x": np.array([[np.nan, -2, 0, 3, np.inf, -np.inf]], np.float32)}
    compiled = girih.compile(model, target="tiny", solver_timeout=1)
    assert any(op.host for op in compiled.graph.ops)
    for outputs in (compiled.run(given).outputs, reference_outputs(model, given).outputs):
        np.testing.assert_array_equal(outputs["y"], np.sign(given["x"]))


def test_a_nan_at_another_place_fails() -> None:
    right = np.array([1.0, np.nan, 3.0], np.float32)
    assert compare("y", right, right).rel_err == 0
    for wrong in ([np.nan, 1.0, 3.0], [1.0, 2.0, 3.0], [1.0, np.nan, np.nan]):
        assert not compare("y", np.array(wrong, np.float32), right).rel_err <= 1e9
