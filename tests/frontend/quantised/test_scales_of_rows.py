"""QLinearMatMul and others with a scale and zero for each row or column, against the definition of ONNX in NumPy."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.frontend.reference.run import reference_outputs
from girih.ir.errors import UsageError
from tests.support.onnx_models import Model, run_on_host
from tests.support.quantised_models import expected
from tests.support.quantised_networks import product_dtypes

Shape = tuple[int, ...]


def one_operand(
    m: Model, name: str, dtype: str, scale: Shape, zero: Shape
) -> tuple[tuple[str, str], np.ndarray, np.ndarray]:
    """Names and values of a random scale and zero."""
    scales = m.rng.uniform(0.01, 0.05, scale).astype(np.float32)
    zeros = m.rng.integers(-9, 9, zero) + (0 if dtype == "int8" else 128)
    return (m.constant(f"{name}.scale", scales), m.constant(f"{name}.zero", zeros, dtype)), scales, zeros


def real(values: np.ndarray, scale: np.ndarray, zero: np.ndarray, *, rows: bool) -> np.ndarray:
    """What integers stand for: a vector is of rows or of columns."""
    scale, zero = (v[:, None] if rows and v.ndim == 1 and v.size > 1 else v for v in (scale, zero))
    return (values.astype(np.float64) - zero) * scale


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(
    ("left", "right", "scales"),
    [
        ((7, 16), (16, 5), ((7,), ())),
        ((16, 16), (16, 16), ((16,), (16,))),
        ((7, 16), (16, 5), ((7, 1), (1, 5))),
        ((2, 7, 16), (16, 5), ((7,), (5,))),
        ((2, 7, 16), (2, 16, 5), ((1, 7, 1), (1, 1, 5))),
        ((2, 7, 16), (2, 16, 5), ((2, 7, 1), (2, 1, 5))),
        ((2, 7, 16), (2, 16, 5), ((), (2, 1, 5))),
        ((2, 7, 16), (2, 16, 5), ((2, 1, 1), ())),
        ((2, 7, 16), (16,), ((2, 7, 1), (1,))),
    ],
    ids=str,
)  # fmt: skip
def test_scales_of_rows_and_columns(left: Shape, right: Shape, scales: tuple[Shape, Shape], fixed: bool) -> None:
    m = Model(seed=1)
    first, *of_left = one_operand(m, "a", "uint8", scales[0], scales[0])
    second, *of_right = one_operand(m, "b", "int8", scales[1], scales[1])
    result, step, zero = one_operand(m, "y", "uint8", (), ())
    a = m.rng.integers(0, 256, left).astype(np.uint8)
    b = m.rng.integers(-128, 128, right).astype(np.int8)
    inputs = {m.input("a", *left, kind="uint8"): a}
    if fixed:
        m.constant("b", b)
    else:
        inputs[m.input("b", *right, kind="int8")] = b
    model = m.build(m.node("QLinearMatMul", "a", *first, "b", *second, *result))
    want = np.clip(np.rint(real(a, *of_left, rows=True) @ real(b, *of_right, rows=False) / step) + zero, 0, 255)
    (got,) = evaluate_graph(import_onnx(model), inputs, run_on_host).values()
    assert got.dtype == np.uint8 and got.shape == want.shape
    assert np.abs(got - want).max() <= 1 and (got == want).mean() > 0.95
    (reference,) = reference_outputs(model, inputs).outputs.values()
    assert np.abs(reference - want).max() <= 1


@pytest.mark.parametrize("scale", [(5,), (1, 5), (1, 1, 5)], ids=str)
def test_scales_of_columns_multiply_integers(scale: Shape) -> None:
    m = Model(seed=1)
    first, second = one_operand(m, "a", "uint8", (), ())[0], one_operand(m, "b", "int8", scale, ())[0]
    m.constant("b.zero", np.full(scale, 3), "int8")
    b = m.constant("b", m.rng.integers(-128, 128, (16, 5)), "int8")
    a = m.input("a", 7, 16, kind="uint8")
    model = m.build(m.node("QLinearMatMul", a, *first, b, *second, *one_operand(m, "y", "uint8", (), ())[0]))
    assert product_dtypes(import_onnx(model)) <= {"int8", "uint8"}


def test_scales_that_a_constant_node_has() -> None:
    """They are of the filters, too."""
    m = Model(seed=1)
    x, w = one_operand(m, "x", "uint8", (), ())[0], m.constant("w", m.rng.integers(-128, 128, (2, 2, 1, 1)), "int8")
    scales = m.node("Constant", value=onnx.numpy_helper.from_array(np.array([0.01, 0.03], np.float32)))
    weight = w, scales, m.constant("wz", [0, 0], "int8")
    y = one_operand(m, "y", "uint8", (), ())[0]
    model = m.build(m.node("QLinearConv", m.input("x", 3, 2, 4, 4, kind="uint8"), *x, *weight, *y))
    inputs = {"x": m.rng.integers(0, 256, (3, 2, 4, 4)).astype(np.uint8)}
    graph = import_onnx(model)
    (got,) = evaluate_graph(graph, inputs).values()
    assert np.abs(got.astype(int) - expected(model, inputs)).max() <= 1
    assert product_dtypes(graph) <= {"int8", "uint8"}


@pytest.mark.parametrize(("scale", "zero"), [((5,), ()), ((5,), (1,)), ((), (5,)), ((1,), (5,))], ids=str)
@pytest.mark.parametrize("op", ["QLinearConv", "QLinearMatMul"])
def test_one_zero_for_all_scales_and_the_reverse(op: str, scale: Shape, zero: Shape) -> None:
    """ONNX Runtime takes them as if they were repeated."""
    m = Model(seed=1)
    x, w, y = (one_operand(m, n, d, s, z)[0] for n, d, s, z in (
        ("x", "uint8", (), ()), ("w", "int8", scale, zero), ("y", "uint8", (), ())
    ))  # fmt: skip
    m.weights["w.zero"][...] = 3
    shape, kernel = ((7, 16), (16, 5)) if op == "QLinearMatMul" else ((1, 3, 4, 4), (5, 3, 1, 1))
    weight = m.constant("w", m.rng.integers(-128, 128, kernel), "int8")
    model = m.build(m.node(op, m.input("x", *shape, kind="uint8"), *x, weight, *w, *y))
    inputs = {"x": m.rng.integers(0, 256, shape).astype(np.uint8)}
    graph = import_onnx(model)
    (got,) = evaluate_graph(graph, inputs).values()
    assert np.abs(got.astype(int) - expected(model, inputs)).max() <= 1
    assert product_dtypes(graph) <= {"int8", "uint8"}


@pytest.mark.parametrize(("opset", "many"), [(11, False), (17, False), (17, True)])
@pytest.mark.parametrize("op", ["QLinearConv", "QLinearMatMul"])
def test_scales_that_the_network_computes(op: str, opset: int, many: bool) -> None:
    """How many there are is known only after shapes are inferred."""
    m = Model(seed=1, opset=opset)
    scales = [m.node("Abs", m.input(f"{n}s", *shape)) for n, shape in (("x", ()), ("w", (5,) if many else ()))]
    zero = m.constant("xz", 120, "uint8")
    kernel = (16, 5) if op == "QLinearMatMul" else (5, 3, 1, 1)
    weight = (
        m.constant("w", m.rng.integers(-128, 128, kernel), "int8"),
        scales[1],
        m.constant("wz", [0] * 5 if many else 0, "int8"),
    )
    y = m.constant("ys", 0.9, "float32"), zero
    shape = (7, 16) if op == "QLinearMatMul" else (1, 3, 4, 4)
    model = m.build(m.node(op, m.input("x", *shape, kind="uint8"), scales[0], zero, *weight, *y))
    rng = np.random.default_rng(1)
    inputs = {
        "xs": np.full((), 0.03, np.float32),
        "ws": np.asarray(rng.uniform(0.01, 0.05, 5 if many else ()), np.float32),
        "x": rng.integers(0, 256, shape).astype(np.uint8),
    }
    (got,) = evaluate_graph(import_onnx(model), inputs, run_on_host).values()
    assert np.abs(got.astype(int) - expected(model, inputs)).max() <= 1


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ({"a.scale": (5,), "a.zero": (5,)}, r"the scale 'a.scale' has shape \[5\], and 'a' has 7 rows"),
        ({"b.scale": (16,), "b.zero": (16,)}, r"the scale 'b.scale' has shape \[16\], and 'b' has 5 columns"),
        ({"a.scale": (7, 16), "a.zero": (7, 16)}, r"the scale 'a.scale' has shape \[7, 16\]; give .* \[\.\.\., rows, 1\]"),
        ({"b.scale": (16, 5), "b.zero": (16, 5)}, r"the scale 'b.scale' has shape \[16, 5\]; give .* \[\.\.\., 1, columns\]"),
        ({"b.scale": (1, 7), "b.zero": (1, 7)}, r"the scale 'b.scale' has shape \[1, 7\], and 'b' \[16, 5\]: .* \[1, 5\]"),
        ({"b.scale": (2, 1, 5), "b.zero": (2, 1, 5)}, r"the scale 'b.scale' has shape \[2, 1, 5\], and 'b' \[16, 5\]"),
        ({"a.scale": (7,), "a.zero": (5,)}, "the zero point 'a.zero' has 5 numbers, and the scale 'a.scale' has 7: give"),
        ({"y.zero": (5,)}, "the zero point 'y.zero' has 5 numbers; ONNX allows one"),
        ({"y.scale": (5,), "y.zero": (5,)}, "the scale 'y.scale' has 5 numbers; ONNX allows one"),
    ],
    ids=str,
)  # fmt: skip
def test_scales_that_do_not_fit(scales: dict[str, Shape], message: str) -> None:
    m = Model(seed=1)
    a, b, y = (
        one_operand(m, n, d, scales.get(f"{n}.scale", ()), scales.get(f"{n}.zero", ()))[0]
        for n, d in (("a", "uint8"), ("b", "int8"), ("y", "uint8"))
    )
    weight = m.constant("b", m.rng.integers(-128, 128, (16, 5)), "int8")
    node = m.node("QLinearMatMul", m.input("a", 7, 16, kind="uint8"), *a, weight, *b, *y, name="product")
    with pytest.raises(UsageError, match=rf"node 'product' \(QLinearMatMul\): {message}"):
        import_onnx(m.build(node))


def test_a_vector_has_one_scale() -> None:
    m = Model(seed=1)
    (a, b, y) = (
        one_operand(m, n, d, s, s)[0] for n, d, s in (("a", "uint8", (3,)), ("b", "int8", ()), ("y", "uint8", ()))
    )
    weight = m.constant("b", np.ones((3, 2)), "int8")
    node = m.node("QLinearMatMul", m.input("a", 3, kind="uint8"), *a, weight, *b, *y, name="product")
    with pytest.raises(
        UsageError, match=r"\(QLinearMatMul\): the scale 'a.scale' .*, and 'a' has shape \[3\]: give one"
    ):
        import_onnx(m.build(node))


def test_activations_of_a_convolution_have_one_scale() -> None:
    m = Model(seed=1)
    x, y = one_operand(m, "x", "uint8", (2,), (2,))[0], one_operand(m, "y", "uint8", (), ())[0]
    weight = m.constant("w", np.ones((3, 2, 1, 1)), "int8"), *one_operand(m, "w", "int8", (), ())[0]
    node = m.node("QLinearConv", m.input("x", 1, 2, 4, 4, kind="uint8"), *x, *weight, *y, name="conv")
    with pytest.raises(
        UsageError, match=r"node 'conv' .QLinearConv.: the scale 'x\.scale' has 2 numbers; ONNX allows one"
    ):
        import_onnx(m.build(node))
