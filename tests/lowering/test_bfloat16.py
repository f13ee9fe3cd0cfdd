"""Programs of bfloat16 compute in floats: for NumPy and TVM the type is none that begins with "float"."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import girih
from tests.support.onnx_models import Model


def function(op: str) -> onnx.ModelProto:
    m = Model()
    return m.build(m.node(op, m.input("x", 2, 3, 4)))


def padded() -> onnx.ModelProto:
    """The number around it is not whole."""
    m = Model()
    return m.build(m.node("Pad", m.input("x", 2, 3, 4), m.constant("pads", [0, 0, 1, 0, 1, 2]), m.constant("v", 1.5)))


def maxima() -> onnx.ModelProto:
    """They begin with an infinity."""
    m = Model(opset=18)
    x = m.input("x", 2, 3, 4)
    return m.build(m.node("ReduceMax", x, m.constant("axes", [1])), m.node("ReduceMin", x, m.constant("axis", [2])))


NETWORKS = {op: function(op) for op in ("Abs", "Softsign", "Floor", "Ceil", "Round", "Sin", "Cos")}
NETWORKS |= {"pad": padded(), "maxima": maxima()}


@pytest.mark.parametrize("name", NETWORKS)
def test_programs_compute_what_the_graph_says(name: str) -> None:
    options = {"target": "gaudi", "precision": "bf16", "strategy": "layerwise", "solver_timeout": 0}
    compiled = girih.compile(NETWORKS[name], jobs=1, cache=False, **options)  # type: ignore[arg-type]
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    compiled.run({"x": x}, check="exact")
