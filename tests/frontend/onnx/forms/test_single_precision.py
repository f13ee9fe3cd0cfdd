"""Functions that TVM has of float32 alone, of a network of float16: against ONNX Runtime, and under ``run --check``."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import girih
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.frontend.onnx.forms.single_precision import SINGLE
from girih.frontend.reference.run import reference_outputs
from tests.support.onnx_models import Model, onnxruntime_outputs, run_on_host

ATTRIBUTES: dict[str, dict[str, Any]] = {"Elu": {"alpha": 1.5}, "ThresholdedRelu": {"alpha": 0.4}}


def model(op: str, opset: int) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT16, [3, 5]) for name in "xy")
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], name="f", **ATTRIBUTES.get(op, {}))], "one", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("opset", [17, 22])
@pytest.mark.parametrize("op", (*SINGLE, "ThresholdedRelu"))
def test_half_precision(op: str, opset: int) -> None:
    network = model(op, opset)
    values = np.random.default_rng(0).uniform(-0.95, 0.95, (3, 5)) + (2.0 if op == "Acosh" else 0.0)
    inputs = {"x": values.astype(np.float16)}
    compiled = girih.compile(network, target="tiny", strategy="layerwise", solver_timeout=0, jobs=1, cache=False)
    compiled.run(inputs, check="exact")
    got = compiled.run(inputs, check=True).outputs["y"]
    # ONNX Runtime has most of them of float32 alone, too.
    want = onnxruntime_outputs(wide(network), {"x": inputs["x"].astype(np.float32)})["y"]
    np.testing.assert_array_equal(got, want.astype(np.float16), strict=True)


@pytest.mark.parametrize("precision", ["as-is", "fp16", "bf16"])
@pytest.mark.parametrize("attributes", [{}, {"alpha": -1.5}, {"alpha": 0.0}], ids=str)
def test_thresholds_of_infinities(attributes: dict[str, float], precision: Any) -> None:
    m = Model()
    model = m.build(m.node("ThresholdedRelu", m.input("x", 3, 3), **attributes))
    inputs = {"x": np.array([[-np.inf, np.inf, np.nan], [-2, -1, -0.0], [0.5, 1, 3]], np.float32)}
    (right,) = onnxruntime_outputs(model, inputs).values()
    graph = import_onnx(model, precision=precision)
    for outputs in (evaluate_graph(graph, inputs, run_on_host), reference_outputs(model, inputs).outputs):
        (array,) = outputs.values()
        np.testing.assert_array_equal(array.astype(np.float32), right)
    assert not any(op.host for op in graph.ops)


def wide(network: onnx.ModelProto) -> onnx.ModelProto:
    """The same of float32."""
    other = onnx.ModelProto()
    other.CopyFrom(network)
    for value in (*other.graph.input, *other.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    return other
