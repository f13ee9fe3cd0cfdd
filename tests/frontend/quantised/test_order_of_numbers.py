"""What depends on the order of numbers, on integers: chains of Relu and Clip, maxima, scales that turn the order round."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.ir.errors import UsageError
from tests.support.onnx_models import Model
from tests.support.quantised_models import expected
from tests.support.quantised_networks import product_dtypes

RELU = (0.0, np.inf)
LIMITS = st.tuples(st.integers(-20, 20), st.integers(-20, 20)).map(lambda pair: (float(pair[0]), float(pair[1])))
EVERY = np.stack([np.arange(-128, 128, dtype=np.int8)] * 2, axis=1)


def clipped(chain: list[tuple[float, float]], scale: float, zero: int) -> tuple[Model, str]:
    """Every int8 times 1, through Relus and Clips, quantised."""
    m = Model()
    unit = m.constant("unit", 1.0, "float32"), m.constant("none", 0, "int8")
    x = m.node("DequantizeLinear", m.input("x", 256, 2, kind="int8"), *unit)
    y = m.node("MatMul", x, m.node("DequantizeLinear", m.constant("w", [[1], [0]], "int8"), *unit))
    for number, limits in enumerate(chain):
        if limits == RELU:
            y = m.node("Relu", y)
        else:
            y = m.node(
                "Clip", y, *(m.constant(f"{s}{number}", v, "float32") for s, v in zip("lh", limits, strict=True))
            )
    return m, m.node("QuantizeLinear", y, m.constant("s", scale, "float32"), m.constant("z", zero, "int8"))


@given(
    st.lists(st.just(RELU) | LIMITS, min_size=1, max_size=3),
    st.sampled_from([1.0, 0.5, -1.0, -2.0]),
    st.integers(-9, 9),
)
@settings(max_examples=30, deadline=None)
def test_limits_hold_one_after_the_other(chain: list[tuple[float, float]], scale: float, zero: int) -> None:
    """Also where they leave one number, or a Clip has its limits the wrong way round: the upper one is the result."""
    m, y = clipped(chain, scale, zero)
    graph = import_onnx(m.build(y))
    (got,) = evaluate_graph(graph, {"x": EVERY}).values()
    real = EVERY[:, :1].astype(np.float64)
    for low, high in chain:
        real = np.minimum(np.maximum(real, low), high)
    want = np.clip(np.rint(real / scale) + zero, -128, 127).astype(np.int8)
    np.testing.assert_array_equal(got, want, strict=True)
    assert product_dtypes(graph) == {"int8"}


@pytest.mark.parametrize("chain", [[(-6.0, -1.0), RELU], [(0.0, 6.0), (8.0, 10.0)]], ids=str)
def test_limits_that_exclude_each_other(chain: list[tuple[float, float]]) -> None:
    m, y = clipped(chain, 1.0, 0)
    model = m.build(y)
    (got,) = evaluate_graph(import_onnx(model), {"x": EVERY}).values()
    np.testing.assert_array_equal(got, expected(model, {"x": EVERY}), strict=True)


def test_limits_that_are_attributes() -> None:
    """As a Clip has them before operator set 11."""
    m, y = clipped([(-2.0, 5.0)], 1.0, 0)
    m.opset = 10
    clip = m.nodes[-2]
    del clip.input[1:]
    clip.attribute.extend(onnx.helper.make_attribute(n, v) for n, v in (("min", -2.0), ("max", 5.0)))
    model = m.build(y)
    (got,) = evaluate_graph(import_onnx(model), {"x": EVERY}).values()
    np.testing.assert_array_equal(got, np.clip(EVERY[:, :1], -2, 5), strict=True)


@pytest.mark.parametrize("scale", [0.5, -0.5])
@pytest.mark.parametrize("ends", ["integers", "reals"])
def test_a_maximum_is_of_the_real_numbers(ends: str, scale: float) -> None:
    """Integers with a negative scale have their largest number where they are least."""
    m = Model()
    scheme = m.constant("s", scale, "float32"), m.constant("z", 3, "int8")
    y = m.node("DequantizeLinear", m.input("x", 1, 2, 4, 6, kind="int8"), *scheme)
    y = m.node("MaxPool", y, kernel_shape=[2, 2], pads=[1, 0, 1, 0])
    y = m.node("QuantizeLinear", y, *scheme) if ends == "integers" else m.node("Softmax", y)
    model = m.build(y)
    inputs = {"x": np.random.default_rng(1).integers(-128, 128, (1, 2, 4, 6)).astype(np.int8)}
    graph = import_onnx(model)
    (got,), want = evaluate_graph(graph, inputs).values(), expected(model, inputs)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)
    assert got.dtype == want.dtype


@pytest.mark.parametrize("scales", [(0.5, -0.5), (-0.5, 0.5), (0.5, 0.25)], ids=str)
def test_a_maximum_of_other_parameters(scales: tuple[float, float]) -> None:
    """Of integers, it can be taken only where neither what is read nor what is made turns their order round."""
    m, zero = Model(), 3
    first, second = (
        (m.constant(n, s, "float32"), m.constant(f"{n}z", zero, "int8")) for n, s in zip("st", scales, strict=True)
    )
    y = m.node(
        "MaxPool", m.node("DequantizeLinear", m.input("x", 1, 1, 4, 6, kind="int8"), *first), kernel_shape=[2, 2]
    )
    x = np.random.default_rng(1).integers(-100, 100, (1, 1, 4, 6)).astype(np.int8)
    (got,) = evaluate_graph(import_onnx(m.build(m.node("QuantizeLinear", y, *second))), {"x": x}).values()
    real = np.lib.stride_tricks.sliding_window_view((x - 3.0) * scales[0], (2, 2), (2, 3)).max((-2, -1))
    want = np.clip(np.rint(real / scales[1]) + zero, -128, 127).astype(np.int8)
    np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("op", ["Relu", "Identity"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_scale_of_0(op: str) -> None:
    """Quantisers write it for tensors that are 0 throughout; everything else is as far away as it can be."""
    m, _ = clipped([], 1.0, 0)
    y = m.node("QuantizeLinear", m.node(op, m.nodes[-2].output[0]), m.constant("dead", 0.0, "float32"), "z")
    (got,) = evaluate_graph(import_onnx(m.build(y)), {"x": EVERY}).values()
    real = EVERY[:, :1]
    np.testing.assert_array_equal(got[real > 0], 127)
    if op == "Identity":
        np.testing.assert_array_equal(got[real < 0], -128)


@pytest.mark.parametrize("scale", [0.0, 1e-45, 1e38, np.nan, np.inf])
@pytest.mark.parametrize("place", ["activations", "weights", "result"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_scales_of_all_sizes(place: str, scale: float) -> None:
    """Those that are finite are imported without a warning."""
    m = Model()
    s = {n: m.constant(f"{n}s", scale if n == place else 0.1, "float32") for n in ("activations", "weights", "result")}
    x = m.node("DequantizeLinear", m.input("x", 2, 3, kind="int8"), s["activations"])
    w = m.node("DequantizeLinear", m.constant("w", np.ones((3, 2)), "int8"), s["weights"])
    y = m.node("Gemm", x, w, m.constant("b", np.ones(2), "float32"))
    model = m.build(m.node("QuantizeLinear", y, s["result"]))
    if np.isfinite(scale):
        assert import_onnx(model).ops
    else:
        with pytest.raises(UsageError, match=f"Linear.: the scale '{place}s' is {scale}: give finite numbers"):
            import_onnx(model)


@pytest.mark.parametrize("scales", [(0.5, 1e-45, 1e10), (1e10, 0.5, 1e-45)], ids=str)
def test_sums_of_scales_that_are_far_apart(scales: tuple[float, float, float]) -> None:
    """Their ratio is no float32 number."""
    m = Model()
    names = [m.constant(f"s{number}", scale, "float32") for number, scale in enumerate(scales)]
    terms = [m.node("DequantizeLinear", m.input(n, 3, 50, kind="int8"), s) for n, s in zip("ab", names, strict=False)]
    zero = m.constant("z", 3, "int8")
    assert import_onnx(m.build(m.node("QuantizeLinear", m.node("Add", *terms), names[2], zero))).ops


@pytest.mark.parametrize("scales", [(1.0, -1.0, 0.5), (-0.5, -0.25, 1.0), (0.5, 0.25, -0.5)], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_sums_with_negative_scales(dtype: str, scales: tuple[float, float, float]) -> None:
    m = Model()
    zero = m.constant("z", 3, dtype)
    names = [m.constant(f"s{number}", scale, "float32") for number, scale in enumerate(scales)]
    terms = [
        m.node("DequantizeLinear", m.input(name, 3, 50, kind=dtype), scale, zero)
        for name, scale in zip("ab", names, strict=False)
    ]
    model = m.build(m.node("QuantizeLinear", m.node("Add", *terms), names[2], zero))
    rng, info = np.random.default_rng(1), np.iinfo(dtype)
    inputs = {name: rng.integers(info.min, info.max + 1, (3, 50)).astype(dtype) for name in "ab"}
    (got,) = evaluate_graph(import_onnx(model), inputs).values()
    np.testing.assert_array_equal(got, expected(model, inputs), strict=True)
