"""References for products of integers on processors where those of ONNX Runtime are not exact.

Without instructions for dot products of bytes, ONNX Runtime adds two products of uint8 and int8 in 16 bits, which
saturate ("Quantize ONNX Models", "When and why do I need to try U8U8?").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, version_converter
from onnx.reference import ReferenceEvaluator

PRODUCTS = frozenset({"ConvInteger", "MatMulInteger", "QGemm", "QLinearConv", "QLinearMatMul"})
"""Operators that are products of integers; others compute with real numbers, as graphs are not optimised here."""

EVALUATED_OPSET = 19
"""What older models are converted to: ONNX's evaluator has no DequantizeLinear before it (onnx 1.23)."""


@cache
def products_saturate() -> bool:
    """Whether this processor's products of uint8 and int8 are wrong."""
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "saturation",
        [
            helper.make_tensor_value_info("a", TensorProto.UINT8, [1, 64]),
            helper.make_tensor_value_info("b", TensorProto.INT8, [64, 1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    arrays = {"a": np.full((1, 64), 255, np.uint8), "b": np.full((64, 1), 127, np.int8)}
    (sums,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, arrays)
    return int(np.asarray(sums).item()) != 255 * 127 * 64


def run_exactly(
    model: onnx.ModelProto, options: onnxruntime.SessionOptions, inputs: Mapping[str, np.ndarray]
) -> Sequence[Any]:
    """The outputs by ONNX Runtime; where its products saturate, by ONNX's own evaluator.

    A test is skipped where that evaluator lacks an operator.
    """
    if PRODUCTS.isdisjoint(node.op_type for node in model.graph.node) or not products_saturate():
        return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, dict(inputs))
    if any(not entry.domain and entry.version < EVALUATED_OPSET for entry in model.opset_import):
        model = version_converter.convert_version(model, EVALUATED_OPSET)
    try:
        return ReferenceEvaluator(model).run(None, dict(inputs))
    except NotImplementedError as error:
        pytest.skip(f"products of ONNX Runtime saturate on this processor, and ONNX's evaluator says {error}")
