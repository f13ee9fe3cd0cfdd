"""Scales and zero points that do not fit what they quantise are refused, and those that do are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.ir.errors import UsageError
from tests.support.onnx_models import Model

Shape = tuple[int, ...]


def quantisation(op: str, x: Shape, scale: Shape, zero: Shape | None, **attributes: Any) -> onnx.ModelProto:
    m = Model(opset=21)
    operands = [m.input("x", *x, kind="f" if op == "QuantizeLinear" else "int8"), m.constant("s", np.full(scale, 0.1))]
    if zero is not None:
        operands.append(m.constant("z", np.zeros(zero), "int8"))
    return m.build(m.node(op, *operands, name="node", **attributes))


WRONG = [
    ((3, 5), (3,), (3,), {"axis": 1}, r"the scale 's' has 3 numbers, and axis 1 of 'x' has 5: give one, or 5"),
    ((3, 5), (3,), None, {}, r"the scale 's' has 3 numbers, and axis 1 of 'x' has 5"),
    ((3, 5), (3,), (3,), {"axis": -1}, r"the scale 's' has 3 numbers, and axis 1 of 'x' has 5"),
    ((3, 5), (3,), (3,), {"axis": 2}, r"axis is 2, and 'x', of which the scale 's' has 3 numbers, has 2 dimensions"),
    ((3, 5), (3,), (3,), {"axis": -3}, r"axis is -3, and 'x', of which the scale 's' has 3 numbers, has 2 dimensions"),
    ((3, 5), (5,), (3,), {}, r"the zero point 'z' has 3 numbers, and the scale 's' has 5: give as many"),
    ((3, 5), (5,), (1,), {}, r"the zero point 'z' has 1 number, and the scale 's' has 5"),
    ((3, 5), (), (5,), {}, r"the zero point 'z' has 5 numbers, and the scale 's' has 1"),
    ((3, 5), (3, 1), (3, 1), {}, r"the scale 's' has shape \[3, 1\]; give one number, or a vector"),
]


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize(("x", "scale", "zero", "attributes", "message"), WRONG)
def test_scales_of_activations(
    op: str, x: Shape, scale: Shape, zero: Shape | None, attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=rf"node 'node' \({op}\): {message}"):
        import_onnx(quantisation(op, x, scale, zero, **attributes))


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize(
    ("x", "scale", "zero", "attributes"),
    [
        ((3, 5), (5,), (5,), {}),
        ((3, 5), (3,), None, {"axis": -2}),
        ((3, 5), (), (1,), {}),
        ((3, 5), (1,), (), {"axis": 7}),
        ((), (), (), {}),
        ((3,), (), (), {}),
    ],
)
def test_scales_that_fit(op: str, x: Shape, scale: Shape, zero: Shape | None, attributes: dict[str, Any]) -> None:
    """The axis of one number for all does not matter."""
    assert import_onnx(quantisation(op, x, scale, zero, **attributes)).outputs


@pytest.mark.parametrize("form", ["product", "sum", "quantised before"])
def test_scales_of_weights(form: str) -> None:
    m = Model()
    scheme = m.constant("s", [0.1, 0.2, 0.3], "float32"), m.constant("z", [0, 0, 0], "int8")
    x = m.input("x", 2, 3)
    if form == "quantised before":
        weight = m.node("QuantizeLinear", m.weight("w", 3, 5), *scheme, name="weights")
        weight = m.node("DequantizeLinear", weight, *scheme)
    else:
        weight = m.node("DequantizeLinear", m.constant("w", np.ones((3, 5)), "int8"), *scheme, name="weights")
    if form == "product":
        one = m.constant("one", 1.0, "float32"), m.constant("none", 0, "int8")
        x = m.node("DequantizeLinear", m.node("QuantizeLinear", x, *one), *one)
    with pytest.raises(UsageError, match=r"node 'weights' .*: the scale 's' has 3 numbers, and axis 1 of 'w' has 5"):
        import_onnx(m.build(m.node("MatMul", x, weight)))


def test_scales_of_filters() -> None:
    """Of a QLinearConv, each filter has one."""
    m = Model()
    x = m.input("x", 1, 2, 4, 4, kind="uint8"), m.constant("xs", 0.1, "float32"), m.constant("xz", 3, "uint8")
    weight = m.constant("w", np.ones((5, 2, 1, 1)), "int8")
    w = weight, m.constant("ws", [0.1, 0.2], "float32"), m.constant("wz", [0, 0], "int8")
    y = m.constant("ys", 0.1, "float32"), m.constant("yz", 3, "uint8")
    with pytest.raises(UsageError, match=r"node 'conv' .*: the scale 'ws' has shape .2., and 'w' has 5 filters"):
        import_onnx(m.build(m.node("QLinearConv", *x, *w, *y, name="conv")))


@pytest.mark.parametrize(
    ("op", "shapes", "message"),
    [
        ("MatMulInteger", ((7, 16), (16, 5), (5,), ()), "the zero point 'az' has shape .5., and 'a' has 7 rows"),
        ("MatMulInteger", ((7, 16), (16, 5), (), (16,)), "the zero point 'bz' has shape .16., and 'b' has 5 columns"),
        ("MatMulInteger", ((2, 7, 16), (16, 5), (2,), ()), "the zero point 'az' has shape .2., and 'a' has 7 rows"),
        (
            "MatMulInteger",
            ((16,), (16, 5), (16,), ()),
            "the zero point 'az' has shape .16., and 'a' has shape .16.: give",
        ),
        (
            "MatMulInteger",
            ((16,), (16, 5), (16, 1), ()),
            r"the zero point 'az' has shape .16, 1., and 'a' .16.: give one",
        ),
        (
            "MatMulInteger",
            ((7, 16), (16,), (), (16,)),
            "the zero point 'bz' has shape .16., and 'b' has shape .16.: give",
        ),
        (
            "MatMulInteger",
            ((2, 7, 16), (16, 5), (), (1, 3)),
            r"the zero point 'bz' .*, and 'b' .16, 5.: .* shape .1, 5.",
        ),
        (
            "MatMulInteger",
            ((2, 7, 16), (16, 5), (), (2, 1, 5)),
            r"the zero point 'bz' .*, and 'b' .16, 5.: .* shape .1, 5.",
        ),
        (
            "MatMulInteger",
            ((2, 7, 16), (16, 5), (2, 5, 1), ()),
            "the zero point 'az' .*, and 'a' .2, 7, 16.: .* .2, 7, 1.",
        ),
        (
            "MatMulInteger",
            ((2, 7, 16), (16, 5), (3, 7, 1), ()),
            "the zero point 'az' .*, and 'a' .2, 7, 16.: .* .2, 7, 1.",
        ),
        (
            "MatMulInteger",
            ((4, 3), (3, 5), (1, 3), ()),
            r"the zero point 'az' has shape .1, 3.; give .* .\.\.\., rows, 1.",
        ),
        (
            "ConvInteger",
            ((1, 2, 4, 4), (5, 2, 1, 1), (), (5, 1)),
            "the zero point 'bz' has shape .5, 1.; give .* a vector",
        ),
        ("ConvInteger", ((1, 2, 4, 4), (5, 2, 1, 1), (2,), ()), "the zero point 'az' has shape .2.; ONNX allows one"),
        (
            "ConvInteger",
            ((1, 2, 4, 4), (5, 2, 1, 1), (), (2,)),
            "the zero point 'bz' has shape .2., and 'b' has 5 filt",
        ),
    ],
)
def test_zero_points_of_integer_products(op: str, shapes: tuple[Shape, ...], message: str) -> None:
    m = Model()
    names = [m.input("a", *shapes[0], kind="uint8")]
    names += [m.constant(n, np.ones(s), "uint8") for n, s in zip(("b", "az", "bz"), shapes[1:], strict=True)]
    with pytest.raises(UsageError, match=rf"node 'product' \({op}\): {message}"):
        import_onnx(m.build(m.node(op, *names, name="product")))


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(
    ("a", "b", "az", "bz"),
    [
        ((2, 7, 16), (16, 5), (7,), (5,)),
        ((2, 7, 16), (16, 5), (7, 1), (1, 5)),
        ((2, 7, 16), (2, 16, 5), (2, 7, 1), (2, 1, 5)),
        ((2, 7, 16), (16, 5), (2, 1, 1), ()),
        ((16,), (16, 5), (1,), (5,)),
    ],
)
def test_zero_points_of_integer_products_that_fit(a: Shape, b: Shape, az: Shape, bz: Shape, fixed: bool) -> None:
    m, rng = Model(), np.random.default_rng(1)
    arrays = {n: rng.integers(0, 256, s).astype(np.uint8) for n, s in {"a": a, "b": b, "az": az, "bz": bz}.items()}
    kept = {n: v for n, v in arrays.items() if n == "a" or (n == "az" and not fixed)}
    names = [m.input(n, *v.shape, kind="uint8") if n in kept else m.constant(n, v) for n, v in arrays.items()]
    (got,) = evaluate_graph(import_onnx(m.build(m.node("MatMulInteger", *names))), kept).values()
    # A vector of the left factor is of its rows.
    shaped = {"a": arrays["az"].reshape(-1, 1) if len(az) == 1 else arrays["az"], "b": arrays["bz"]}
    left, right = ((arrays[n].astype(np.int64) - shaped[n]).reshape(arrays[n].shape) for n in "ab")
    np.testing.assert_array_equal(got, left @ right)
