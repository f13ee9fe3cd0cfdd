"""A bias of 32-bit integers in the unit of the sums is added as it is, whatever its scale in floats."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from tests.support.onnx_models import Model, run_on_host
from tests.support.quantised_models import expected
from tests.support.quantised_networks import product_dtypes

DEPTH, FILTERS = 2200, 24


@pytest.mark.parametrize("form", ["operator", "dequantised"])
@pytest.mark.parametrize("per_channel", [False, True])
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=5, deadline=None)
def test_biases_of_many_digits(form: str, per_channel: bool, seed: int) -> None:
    """They are cancelled by what is added to them, so that all of their digits can be seen."""
    rng = np.random.default_rng(seed)
    m = Model(seed=seed)
    x, w = np.full((1, DEPTH, 1, 1), 255), np.full((FILTERS, DEPTH, 1, 1), -127)
    bias = 255 * 127 * DEPTH + rng.integers(-90, 90, FILTERS)
    xs, size = np.float32(rng.uniform(0.01, 0.05)), (FILTERS,) if per_channel else ()
    ws = rng.uniform(0.009, 0.011, size).astype(np.float32)
    ys = np.float32(xs * np.float32(0.01))
    schemes = [
        (m.constant("xs", xs), m.constant("xz", 0, "uint8")),
        (m.constant("ws", ws), m.constant("wz", np.zeros(size), "int8")),
        (m.constant("ys", ys), m.constant("yz", 120, "uint8")),
    ]
    given_x, weight, added = (
        m.input("x", *x.shape, kind="uint8"),
        m.constant("w", w, "int8"),
        m.constant("b", bias, "int32"),
    )
    if form == "operator":
        y = m.node("QLinearConv", given_x, *schemes[0], weight, *schemes[1], *schemes[2], added)
    else:
        scale = m.constant("bs", (xs * ws).astype(np.float32))
        reals = [
            m.node("DequantizeLinear", given_x, *schemes[0]),
            m.node("DequantizeLinear", weight, *schemes[1], axis=0),
        ]
        y = m.node("Conv", *reals, m.node("DequantizeLinear", added, scale, axis=0))
        y = m.node("QuantizeLinear", y, *schemes[2])
    model, inputs = m.build(y), {"x": x.astype(np.uint8)}
    graph = import_onnx(model)
    (got,) = evaluate_graph(graph, inputs, run_on_host).values()
    sums = bias - 255 * 127 * DEPTH
    want = np.rint(sums * (np.float64(xs) * ws / ys)) + 120
    # What is a half in floats may be rounded to either side.
    assert np.abs(got.reshape(-1) - want).max() <= per_channel and (got.reshape(-1) == want).mean() > 0.9
    assert product_dtypes(graph) <= {"int8", "uint8"}
    if form == "operator":
        assert np.abs(got.astype(int) - expected(model, inputs)).max() <= per_channel


def test_the_largest_biases() -> None:
    """Sums with it are numbers of 32 bits; in floats, it is 2**31 itself."""
    m = Model()
    x = m.input("x", 1, 1, 1, 1, kind="uint8"), m.constant("xs", 0.05, "float32"), m.constant("xz", 0, "uint8")
    w = m.constant("w", np.ones((2, 1, 1, 1)), "int8"), m.constant("ws", 0.01, "float32"), m.constant("wz", 0, "int8")
    y = m.constant("ys", 1e4, "float32"), m.constant("yz", 100, "uint8")
    model = m.build(m.node("QLinearConv", *x, *w, *y, m.constant("b", [2**31 - 300, 1 - 2**31], "int32")))
    inputs = {"x": np.full((1, 1, 1, 1), 250, np.uint8)}
    (got,) = evaluate_graph(import_onnx(model), inputs).values()
    np.testing.assert_array_equal(got, expected(model, inputs), strict=True)


@pytest.mark.parametrize("unit", [0.5, 2.0, 1.001])
def test_a_bias_in_another_unit(unit: float) -> None:
    """Only what float32 rounds is no other unit."""
    m = Model(seed=1)
    x = m.node("DequantizeLinear", m.input("x", 5, 12, kind="uint8"), m.constant("xs", 0.03, "float32"))
    w = m.constant("w", m.rng.integers(-127, 128, (12, 9)), "int8"), m.constant("ws", 0.02, "float32")
    b = m.constant("b", m.rng.integers(-90000, 90000, 9), "int32"), m.constant("bs", 0.03 * 0.02 * unit, "float32")
    parts = m.node("DequantizeLinear", *w), m.node("DequantizeLinear", *b)
    y = m.node("Gemm", x, *parts)
    model = m.build(m.node("QuantizeLinear", y, m.constant("ys", 0.5, "float32"), m.constant("yz", 120, "uint8")))
    inputs = {"x": m.rng.integers(0, 256, (5, 12)).astype(np.uint8)}
    (got,) = evaluate_graph(import_onnx(model), inputs).values()
    np.testing.assert_array_equal(got, expected(model, inputs), strict=True)
