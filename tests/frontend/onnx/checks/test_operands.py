"""Operands whose types or shapes do not fit each other are refused with both sides; those that do are not."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import parser

from girih.frontend import import_onnx
from girih.ir.errors import UsageError
from tests.support.onnx_models import Model


def network(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "g (float[3] x, int64[3] i) => (float[3] y) { y = Add (x, i) }",
            r"\(Add\): its operands 'x' and 'i' must have the same type; they have float32 and int64: cast",
        ),
        (
            "g (float[3] x, float[2] i) => (float[2] y) { y = Gather (x, i) }",
            r"\(Gather\): its operand 'i' is of type float32, and ONNX allows int32, int64 for indices",
        ),
        (
            "g (float[3] x) => (float[3] y) { y = Where (x, x, x) }",
            r"\(Where\): its operand 'x' is of type float32, and ONNX allows bool for condition",
        ),
        (
            "g (float[3] x, float16[3] h) => (float[6] y) { y = Concat <axis = 0> (x, h) }",
            r"\(Concat\): its operands 'x' and 'h' must have the same type; they have float32 and float16",
        ),
    ],
)
def test_types_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        import_onnx(network(text))


def test_types_that_may_differ() -> None:
    """Bounds, scales and shapes have types of their own."""
    text = """g (float[2, 3] x, int64[2] i) => (float[3, 2] y, int8[2, 3] q)
        <int64[2] to = {3, 2}, float scale = {0.5}, int8 zero = {1}> {
        picked = Gather <axis = 0> (x, i)
        y = Reshape (picked, to)
        q = QuantizeLinear (x, scale, zero)
    }"""
    assert len(import_onnx(network(text)).outputs) == 2


@pytest.mark.parametrize(
    ("shape", "attributes", "message"),
    [
        ((8, 4, 3, 3), {}, r"'x' has 6 channels, and its filters 'w' of shape \[8, 4, 3, 3\] take 4"),
        ((8, 2, 3, 3), {"group": 2}, r"'x' has 6 channels, and its filters 'w' of shape .* in 2 groups take 4"),
        ((7, 3, 3, 3), {"group": 2}, "the 7 filters of 'w' are no multiple of its 2 groups"),
        ((8, 6, 3, 3), {"group": 0}, "group is 0; give 1 or more"),
        ((8, 6, 3, 3), {"kernel_shape": [3, 5]}, r"kernel_shape is \[3, 5\], and 'w' has \[3, 3\]"),
    ],
)
def test_filters_that_do_not_fit(shape: tuple[int, ...], attributes: dict[str, Any], message: str) -> None:
    m = Model()
    y = m.node("Conv", m.input("x", 1, 6, 8, 8), m.weight("w", *shape), name="conv", **attributes)
    with pytest.raises(UsageError, match=rf"node 'conv' \(Conv\): {message}"):
        import_onnx(m.build(y))


def test_filters_of_a_transposed_convolution_that_do_not_fit() -> None:
    m = Model()
    y = m.node("ConvTranspose", m.input("x", 1, 6, 8, 8), m.weight("w", 4, 5, 3, 3), name="up")
    with pytest.raises(UsageError, match=r"'x' has 6 channels, and its filters 'w' of shape \[4, 5, 3, 3\] take 4"):
        import_onnx(m.build(y))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "g (float[1, 6, 4, 4] x) => (float[a, b, c, d] y) { y = DepthToSpace <blocksize = 2> (x) }",
            r"'x' has 6 channels, no multiple of blocksize squared, 4",
        ),
        (
            "g (float[1, 6, 4, 5] x) => (float[a, b, c, d] y) { y = SpaceToDepth <blocksize = 2> (x) }",
            r"'x' has 4 x 5 positions, no multiples of blocksize, 2",
        ),
        (
            "g (float[2, 3] x) => (float[a, b] y) { y = Transpose <perm = [0]> (x) }",
            r"perm is \[0\], and 'x' has 2 dimensions: give each of 0, 1 once",
        ),
        (
            'g (float[2, 3] x, float[4, 5] w) => (float[a, b] y) { y = Einsum <equation = "ij,jk->ik"> (x, w) }',
            r"'j' of 'ij,jk->ik' is 3 in 'x' and 4 in 'w'",
        ),
        (
            "g (float[2, 3] x) => (float[a, b] y) { y = ReduceMean <axes = [1, -1]> (x) }",
            r"axis 1 of 'x' is named twice in axes, \[1, -1\]",
        ),
    ],
)
def test_attributes_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        import_onnx(network(text))


def test_attributes_that_fit() -> None:
    """A size of 1 is repeated in an Einsum, and a Transpose names each dimension once."""
    text = """g (float[2, 1] x, float[4, 5] w) => (float[5, 2] y) {
        e = Einsum <equation = "ij,jk->ik"> (x, w)
        y = Transpose <perm = [1, 0]> (e)
    }"""
    assert import_onnx(network(text)).outputs
