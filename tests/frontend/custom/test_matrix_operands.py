"""What a product multiplies may be computed in the same `te.compute`: it becomes an operator of its own in front."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tvm import te, tirx

import girih
from girih import register_operator
from girih.ir.checks.check_graph import check_graph
from tests.support.custom_models import DOMAIN, custom_node, network

X, W = (6, 9), (9, 5)
ZERO = tirx.const(0, "float32")
Value = Callable[[Any, Any, Any, Any, Any], Any]


def product(value: Value) -> Callable[[Any, Any], Any]:
    def function(x: Any, w: Any) -> Any:
        k = te.reduce_axis((0, X[1]), "k")
        return te.compute((X[0], W[1]), lambda i, j: te.sum(value(x, w, i, j, k), axis=k), name="product")

    return function


@pytest.mark.parametrize("target", ["tiny", "stcp920"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda x, w, i, j, k: x[i, k] * te.max(w[k, j], ZERO), lambda x, w: x @ np.maximum(w, 0)),
        (lambda x, w, i, j, k: te.max(x[i, k], ZERO) * w[k, j], lambda x, w: np.maximum(x, 0) @ w),
        (lambda x, w, i, j, k: te.max(x[i, k], ZERO) * (w[k, j] + w[k, j]), lambda x, w: np.maximum(x, 0) @ (2 * w)),
        (
            lambda x, w, i, j, k: x[i, k] * tirx.if_then_else(tirx.all(k >= 2), w[k - 2, j], ZERO),
            lambda x, w: x[:, 2:] @ w[:-2],
        ),
    ],
    ids=["right", "left", "both", "padded right"],
)
def test_a_factor_is_computed(target: str, value: Value, expected: Callable[..., np.ndarray]) -> None:
    register_operator(DOMAIN, "Product")(product(value))
    model = network([custom_node("Product", ["x", "w"], ["y"])], {"x": X, "w": W}, {"y": None})
    compiled = girih.compile(model, target=target, strategy="layerwise", cache=False)
    check_graph(compiled.graph)
    random = np.random.default_rng(0)
    x, w = (random.integers(-3, 4, shape).astype(np.float32) for shape in (X, W))
    np.testing.assert_array_equal(compiled.run({"x": x, "w": w}).outputs["y"], expected(x, w))


def test_loops_that_decide_together_what_is_in_bounds() -> None:
    """An instruction takes one of them; the other repeats it."""

    def steps(x: Any) -> Any:
        return te.compute((4, 3), lambda i, j: tirx.if_then_else(i + j < 5, x[i + j], ZERO), name="steps")

    register_operator(DOMAIN, "Steps")(steps)
    node = helper.make_node("Steps", ["x"], ["y"], domain=DOMAIN)
    compiled = girih.compile(network([node], {"x": [5]}, {"y": None}), target="tiny", strategy="layerwise", cache=False)
    x = np.arange(1, 6, dtype=np.float32)
    expected = [[x[i + j] if i + j < 5 else 0 for j in range(3)] for i in range(4)]
    np.testing.assert_array_equal(compiled.run({"x": x}).outputs["y"], expected)
