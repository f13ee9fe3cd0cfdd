"""Tensors without dimensions: as inputs, between operators and as outputs, on one core and on several."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import girih


def scaled(rows: int) -> onnx.ModelProto:
    """``s = exp(t)`` and ``y = x * s``, for a ``t`` without dimensions."""
    nodes = [helper.make_node("Exp", ["t"], ["s"], name="s"), helper.make_node("Mul", ["x", "s"], ["y"], name="y")]
    ports = {"x": [rows, 16], "t": [], "s": [], "y": [rows, 16]}
    x, t, s, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports.items())
    graph = helper.make_graph(nodes, "scaled", [x, t], [s, y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("target", ["tiny", "stcp920"])
@pytest.mark.parametrize("strategy", ["solver", "graphturbo", "layerwise"])
def test_a_scalar_is_made_once_and_read_by_all_cores(target: str, strategy: girih.Strategy) -> None:
    compiled = girih.compile(scaled(8), target=target, solver_timeout=1.0, strategy=strategy)
    inputs = {"x": np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16), "t": np.array(0.5, np.float32)}
    run = compiled.run(inputs, check=True)
    assert run.check is not None and run.check.passed
    assert run.outputs["s"].shape == ()
    np.testing.assert_allclose(run.outputs["y"], inputs["x"] * np.exp(0.5), rtol=1e-5)
