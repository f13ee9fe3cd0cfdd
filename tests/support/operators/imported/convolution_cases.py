"""Convolutions, transposed ones among them, and what pads or transposes their images."""

from __future__ import annotations

import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Case, Cases

CASES = Cases()


def conv(*shape: int, out: int, kernel: tuple[int, ...] = (3, 3), bias: bool = True, **attributes: object) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        group = int(attributes.get("group", 1))  # type: ignore[call-overload]
        inputs = [m.input("x", *shape), m.weight("w", out, shape[1] // group, *kernel)]
        if bias:
            inputs.append(m.weight("b", out))
        return m.build(m.node("Conv", *inputs, **attributes))

    return build


CASES |= {
    "conv": conv(1, 5, 9, 9, out=7),
    "conv without bias": conv(1, 5, 9, 9, out=7, bias=False),
    "conv padded": conv(2, 4, 8, 8, out=6, pads=[1, 1, 1, 1]),
    "conv padded asymmetrically": conv(1, 4, 8, 9, out=6, pads=[0, 1, 2, 3]),
    "conv strided": conv(1, 4, 11, 11, out=6, strides=[2, 3], pads=[1, 1, 1, 1]),
    "conv dilated": conv(1, 4, 12, 12, out=6, dilations=[2, 3], pads=[2, 3, 2, 3]),
    "conv same upper": conv(1, 4, 9, 9, out=6, auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv same lower": conv(1, 4, 10, 10, out=6, auto_pad="SAME_LOWER", strides=[2, 2]),
    "conv pointwise": conv(2, 8, 5, 5, out=6, kernel=(1, 1)),
    "conv patches": conv(1, 3, 12, 12, out=8, kernel=(4, 4), strides=[4, 4]),
    "conv grouped": conv(1, 12, 6, 6, out=18, group=3, pads=[1, 1, 1, 1]),
    "conv depthwise": conv(2, 8, 7, 7, out=8, group=8, pads=[1, 1, 1, 1], strides=[2, 2]),
    "conv depthwise with multiplier": conv(1, 4, 7, 7, out=12, group=4, pads=[1, 1, 1, 1]),
    "conv 1d": conv(1, 4, 15, out=6, kernel=(3,), pads=[1, 1], strides=[2]),
    "conv 3d": conv(1, 2, 5, 6, 7, out=4, kernel=(3, 3, 3), pads=[1, 1, 1, 1, 1, 1]),
}


def transposed(
    *shape: int, out: int, kernel: tuple[int, ...] = (3, 3), bias: bool = True, **attributes: object
) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        group = int(attributes.get("group", 1))  # type: ignore[call-overload]
        inputs = [m.input("x", *shape), m.weight("w", shape[1], out // group, *kernel)]
        if bias:
            inputs.append(m.weight("b", out))
        return m.build(m.node("ConvTranspose", *inputs, **attributes))

    return build


CASES |= {
    "transposed": transposed(1, 7, 6, 5, out=9, kernel=(2, 2), strides=[2, 2]),
    "transposed dense": transposed(1, 5, 6, 6, out=4, pads=[1, 0, 1, 2]),
    "transposed padded": transposed(2, 6, 7, 6, out=8, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    "transposed without bias": transposed(
        1, 3, 5, 4, out=6, kernel=(4, 4), strides=[2, 2], bias=False, pads=[1, 1, 1, 1]
    ),
    "transposed asymmetrically": transposed(1, 3, 5, 4, out=4, kernel=(5, 4), strides=[3, 2], pads=[0, 2, 3, 1]),
    "transposed with gaps": transposed(1, 3, 4, 5, out=4, kernel=(2, 1), strides=[3, 2], output_padding=[1, 0]),
    "transposed beyond the kernel": transposed(1, 3, 6, 5, out=4, kernel=(2, 3), strides=[2, 2], pads=[4, 3, 3, 4]),
    "transposed dilated": transposed(1, 4, 5, 6, out=3, strides=[2, 3], dilations=[2, 2], pads=[1, 0, 0, 2]),
    "transposed dilated alone": transposed(1, 4, 5, 6, out=6, dilations=[2, 2], pads=[1, 0, 0, 2], group=2),
    "transposed dilated 3d": transposed(1, 3, 2, 4, 3, out=6, kernel=(2, 3, 1), dilations=[1, 2, 2], group=3),
    "transposed grouped": transposed(1, 6, 4, 5, out=8, strides=[2, 2], group=2),
    "transposed depthwise": transposed(1, 6, 5, 5, out=6, kernel=(4, 4), group=6, strides=[2, 2], pads=[1, 1, 1, 1]),
    "transposed same upper": transposed(1, 4, 5, 6, out=3, strides=[2, 2], auto_pad="SAME_UPPER"),
    "transposed same lower": transposed(1, 4, 5, 6, out=3, strides=[2, 2], auto_pad="SAME_LOWER"),
    "transposed 1d": transposed(1, 4, 9, out=3, kernel=(4,), strides=[2], pads=[1, 1]),
    "transposed 3d": transposed(1, 2, 3, 4, 3, out=3, kernel=(3, 2, 3), strides=[2, 2, 1], pads=[1, 0, 0, 0, 0, 1]),
}


@CASES.add
def transposed_dilated_by_an_input() -> onnx.ModelProto:
    m = Model()
    x, w = m.input("x", 1, 4, 5, 6), m.input("w", 4, 3, 3, 2)
    return m.build(m.node("ConvTranspose", x, w, dilations=[2, 2]))


@CASES.add
def pad_before_convolution() -> onnx.ModelProto:
    m = Model()
    x = m.node("Pad", m.input("x", 1, 4, 8, 8), m.constant("p", [0, 0, 1, 2, 0, 0, 1, 0]))
    return m.build(m.node("Conv", x, m.weight("w", 4, 4, 3, 3), pads=[1, 1, 1, 1]))


@CASES.add
def transposed_image() -> onnx.ModelProto:
    m = Model()
    x = m.node("Transpose", m.input("x", 1, 8, 8, 4), perm=[0, 3, 1, 2])
    y = m.node("Conv", x, m.weight("w", 6, 4, 3, 3), pads=[1, 1, 1, 1])
    return m.build(m.node("Transpose", y, perm=[0, 2, 3, 1]))
