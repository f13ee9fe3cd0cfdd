"""Operators whose readers see little or nothing but padding: there may be no cell that runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import girih
from girih.solver.options import Strategy
from tests.support.onnx_models import Model

STRATEGIES = get_args(Strategy)
STEP = 1 / 16
"""Of the quantisation of int8 networks."""


@dataclass(frozen=True)
class Window:
    """Of a convolution or pooling along the rows."""

    kind: str
    kernel: int
    stride: int
    pads: tuple[int, int]

    def rows(self, height: int) -> int:
        """How many its result has."""
        return (height + sum(self.pads) - self.kernel) // self.stride + 1


def between(m: Model, x: str, quantised: bool) -> str:
    """The value itself, or what is left of it in int8."""
    if not quantised:
        return x
    scale, zero = m.constant("s", np.float32(STEP)), m.constant("z", -3, "int8")
    return m.node("DequantizeLinear", m.node("QuantizeLinear", x, scale, zero), scale, zero)


def seen_through(windows: tuple[Window, ...], height: int, quantised: bool) -> onnx.ModelProto:
    """A sigmoid, of which windows see parts or nothing; before each of them another sigmoid."""
    m = Model()
    x = between(m, m.input("x", 1, 2, height, 3), quantised)
    for window in windows:
        x = between(m, m.node("Sigmoid", x), quantised)
        rows = {"strides": [window.stride, 1], "pads": [window.pads[0], 0, window.pads[1], 0]}
        if window.kind == "Conv":
            name = f"conv{len(m.nodes)}"
            weight, bias = m.weight(f"{name}.weight", 2, 2, window.kernel, 1), m.weight(f"{name}.bias", 2)
            x = m.node("Conv", x, weight, bias, name=name, **rows)
        else:
            x = m.node(window.kind, x, kernel_shape=[window.kernel, 1], **rows)
    return m.build(between(m, x, quantised))


def agrees(model: onnx.ModelProto, target: str, strategy: Strategy, within: float) -> None:
    """The program computes what ONNX Runtime does, and passes both checks."""
    (port,) = model.graph.input
    shape = [d.dim_value for d in port.type.tensor_type.shape.dim]
    inputs = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    (right,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)
    compiled = girih.compile(model, target=target, strategy=strategy, solver_timeout=1, jobs=1, cache=False)
    (result,) = compiled.run(inputs, check=True).outputs.values()
    np.testing.assert_allclose(result, right, rtol=1e-4, atol=within)
    compiled.run(inputs, check="exact")


ALL_OUTSIDE = Window("Conv", 1, 3, (1, 1))
"""At a height of 2, it sees the row before the first and the one after the last."""


@pytest.mark.parametrize("windows", [(ALL_OUTSIDE,), (Window("Conv", 1, 1, (0, 0)), ALL_OUTSIDE)], ids=["one", "two"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("target", ["tiny", "stcp920", "ethos-u65-512"])
def test_nothing_but_padding_is_seen(target: str, strategy: Strategy, windows: tuple[Window, ...]) -> None:
    """The result is the bias, whether an operator or the input of the network is not seen."""
    quantised = target.startswith("ethos")
    agrees(seen_through(windows, 2, quantised), target, strategy, 1e-5 + quantised * STEP)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("target", ["tiny", "stcp920"])
def test_a_slice_of_nothing_but_padding(target: str, strategy: Strategy) -> None:
    m = Model(18)
    y = m.node("Sigmoid", m.input("x", 2, 3))
    padded = m.node("Pad", y, m.constant("pads", [1, 0, 0, 0]), m.constant("fill", np.float32(2.5)))
    start, end = m.constant("start", [0]), m.constant("end", [1])
    agrees(m.build(m.node("Slice", padded, start, end, start)), target, strategy, 1e-6)


def any_window() -> st.SearchStrategy[Window]:
    """Pooling has less padding than its window has rows, as ONNX Runtime demands."""
    pads = st.tuples(st.integers(0, 3), st.integers(0, 3))
    windows = st.builds(Window, st.sampled_from(["Conv", "MaxPool"]), st.integers(1, 3), st.integers(1, 5), pads)
    return windows.filter(lambda w: w.kind == "Conv" or max(w.pads) < w.kernel)


@pytest.mark.parametrize("target", ["tiny", "stcp920", "ethos-u65-512"])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(1, 3), st.tuples(any_window()) | st.tuples(any_window(), any_window()), st.sampled_from(STRATEGIES))
def test_windows_that_see_some_padding(
    target: str, height: int, windows: tuple[Window, ...], strategy: Strategy
) -> None:
    rows = height
    for window in windows:
        rows = window.rows(rows)
        if rows < 1:
            return
    quantised = target.startswith("ethos")
    # A value near the border between two steps may become either; the next convolution makes several steps of that.
    within = 1e-5 + quantised * STEP * (1 if len(windows) == 1 else 12)
    agrees(seen_through(windows, height, quantised), target, strategy, within)


@pytest.mark.parametrize("number", [np.inf, np.nan])
@pytest.mark.parametrize(("size", "place"), [(1, (0, 0)), (14, (0, 1)), (14, (2, 1))])
def test_padding_times_what_is_not_finite_is_not_left_out(number: float, size: int, place: tuple[int, int]) -> None:
    """Zero times infinity is no number, for both references: also where whole rows of the kernel see padding."""
    m = Model()
    weight = np.random.default_rng(0).standard_normal((32, 64, 3, 3)).astype(np.float32)
    weight[3, 2, place[0], place[1]] = number
    x = m.input("x", 1, 64, size, size)
    model = m.build(m.node("Conv", x, m.constant("weight", weight), pads=[1, 1, 1, 1]))
    compiled = girih.compile(model, precision="fp16", solver_timeout=1, jobs=1, cache=False)
    for check in (True, "exact"):
        (result,) = compiled.run(check=check).outputs.values()
        assert np.isnan(result[0, 3]).any() and np.isfinite(result[0, 4]).all()
