"""A number that float16 cannot hold becomes the largest that it can, as infinity minus infinity would be no number."""

from __future__ import annotations

import numpy as np
import pytest

from girih.api.compile import compile
from girih.frontend import import_onnx
from girih.frontend.passes.precision import narrow
from girih.ir.graph import Graph
from tests.support.onnx_models import Model

LARGEST = 65504.0


def test_numbers_are_rounded_or_the_largest() -> None:
    wide = np.array([1e6, -1e6, np.inf, -np.inf, 65519.0, 65520.0, 1.0, 2049.0, 1e-8], np.float32)
    expected = [LARGEST, -LARGEST, np.inf, -np.inf, LARGEST, LARGEST, 1.0, 2048.0, 0.0]
    assert narrow(wide, "float16").dtype == np.float16
    np.testing.assert_array_equal(narrow(wide, "float16"), np.array(expected, np.float16))
    assert np.isnan(narrow(np.array([np.nan], np.float32), "float16"))[0]


def test_bfloat16_holds_all_but_the_very_largest() -> None:
    largest = 2.0**127 * (2 - 2.0**-7)
    wide = np.array([3.4e38, -3.4e38, np.inf, 1e6, 257.0, 259.0, 1e-40], np.float32)
    narrowed = narrow(wide, "bfloat16")
    assert narrowed.dtype.name == "bfloat16"
    # 1e6 is between 999424 and 1003520; the least steps below 2 ** -126 are 2 ** -133.
    expected = [largest, -largest, np.inf, 999424.0, 256.0, 260.0, round(1e-40 * 2.0**133) * 2.0**-133]
    np.testing.assert_array_equal(narrowed.astype(np.float64), expected)


def imported(kind: str, precision: str) -> Graph:
    m = Model()
    if kind == "weights":
        w = np.where(np.arange(20).reshape(5, 4) % 2, 1e6, -1e6).astype(np.float32)
        y = m.node("MatMul", m.input("x", 3, 5), m.constant("w", w))
    elif kind == "fill":
        y = m.node("Pad", m.input("x", 3, 5), m.constant("pads", [1, 1, 0, 0], "i8"), m.constant("c", np.float32(-1e6)))
    else:
        y = m.node("Add", m.node("Relu", m.input("x", 3, 5)), m.constant("c", np.float32(kind)))
    return import_onnx(m.build(y), precision=precision)  # type: ignore[arg-type]


def numbers(graph: Graph) -> set[float]:
    """The numbers in the stages and the extremes of the constants, but those that float16 holds."""
    stages = [s for op in graph.ops for s in op.stages]
    held = {o for s in stages for o in s.operands if isinstance(o, float | int)}
    held |= {r.fill for s in stages for r in s.reads if r.fill is not None}
    held |= {float(v) for a in graph.data.values() for v in (a.min(), a.max())}
    return {v for v in held if abs(v) >= LARGEST}


@pytest.mark.parametrize(
    ("kind", "wide", "fitted"),
    [
        ("weights", {-1e6, 1e6}, {-LARGEST, LARGEST}),
        ("fill", {-1e6}, {-LARGEST}),
        ("1e6", {1e6}, {LARGEST}),
        ("-3.4e38", {float(np.float32(-3.4e38))}, {-LARGEST}),
        ("-inf", {-np.inf}, {-np.inf}),
    ],
)
def test_a_network_of_float16_has_no_larger_number(kind: str, wide: set[float], fitted: set[float]) -> None:
    assert numbers(imported(kind, "as-is")) == wide
    assert numbers(imported(kind, "fp16")) == fitted


def test_a_row_that_is_masked_by_infinity_is_seen_as_such() -> None:
    """As exported attention does it: a row without any key is zero, and not the mean of all values."""
    m = Model()
    x = m.input("x", 2, 4)
    mask = m.constant("mask", np.array([[0, 0, 0, 0], [-np.inf] * 4], np.float32))
    masked = m.node("Add", x, mask)
    weights = m.node("Softmax", masked)
    y = m.node("Where", m.node("IsNaN", weights), m.constant("zero", np.float32(0)), weights)
    scores = np.array([[1, 2, 3, 4], [1, 2, 3, 4]], np.float32)
    for precision in ("as-is", "fp16"):
        compiled = compile(m.build(y), target="stcp920", precision=precision, solver_timeout=1, cache=False)  # type: ignore[arg-type]
        (result,) = compiled.run({"x": scores}).outputs.values()
        softmax = np.exp(scores[0] - 4) / np.exp(scores[0] - 4).sum()
        np.testing.assert_allclose(result, [softmax, np.zeros(4)], atol=2e-3)
