"""The reference of a network of 16 bits sums in float32, as matrix engines do."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import girih
from girih.frontend.reference.run import reference_outputs

DEPTH = 4096


def network(kind: int) -> tuple[onnx.ModelProto, np.ndarray]:
    """A mean and a product, which is cast to float32 and back; and the weights."""
    weights = np.random.default_rng(1).standard_normal((DEPTH, 4)).astype(helper.tensor_dtype_to_np_dtype(kind))
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Cast", ["product"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["wide"], ["narrow"], to=kind),
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("mean", "narrow")]
    inputs = [helper.make_tensor_value_info("x", kind, [8, DEPTH])]
    graph = helper.make_graph(nodes, "sums", inputs, outputs, [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), weights


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_sums_keep_their_digits(kind: int) -> None:
    model, weights = network(kind)
    x = np.random.default_rng(0).standard_normal((8, DEPTH)).astype(weights.dtype)
    got = reference_outputs(model, {"x": x}).outputs
    real = x.astype(np.float64)
    for name, want in (("mean", real.mean(axis=1)), ("narrow", real @ weights.astype(np.float64))):
        assert got[name].dtype == weights.dtype
        step = float(np.finfo(np.float16).eps) if kind == TensorProto.FLOAT16 else 2.0**-7
        np.testing.assert_allclose(got[name].astype(np.float64), want, rtol=step, atol=1e-5)


def test_a_long_sum_of_float16_passes_the_check() -> None:
    model, _ = network(TensorProto.FLOAT16)
    compiled = girih.compile(model, target="stcp920", strategy="layerwise", solver_timeout=0, jobs=1, cache=False)
    compiled.run(check=True)
