"""Convolutions, transposed ones among them, of odd extents."""

from __future__ import annotations

import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Case, Cases

CASES = Cases()


def conv(
    *shape: int, out: int, kernel: tuple[int, ...] = (3, 3), relu: bool = False, op: str = "Conv", **attributes: object
) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        group = int(attributes.get("group", 1))  # type: ignore[call-overload]
        filters = (shape[1], out // group, *kernel) if op == "ConvTranspose" else (out, shape[1] // group, *kernel)
        x = m.node(op, m.input("x", *shape), m.weight("w", *filters), m.weight("b", out), **attributes)
        return m.build(m.node("Relu", x) if relu else x)

    return build


CASES |= {
    "conv padded": conv(2, 19, 13, 11, out=23, pads=[1, 1, 1, 1], relu=True),
    "conv padded asymmetrically": conv(1, 7, 10, 13, out=16, pads=[0, 2, 3, 1]),
    "conv strided": conv(1, 12, 17, 15, out=9, strides=[2, 3], pads=[1, 1, 1, 1]),
    "conv dilated": conv(1, 8, 14, 16, out=10, dilations=[2, 3], pads=[2, 3, 2, 3]),
    "conv strided and dilated": conv(1, 5, 19, 18, out=6, strides=[3, 2], dilations=[2, 4], pads=[2, 4, 1, 3]),
    "conv pointwise": conv(2, 31, 9, 7, out=37, kernel=(1, 1)),
    "conv pointwise strided": conv(1, 16, 9, 9, out=8, kernel=(1, 1), strides=[2, 2]),
    "conv of patches": conv(1, 3, 28, 28, out=24, kernel=(7, 7), strides=[7, 7]),
    "conv with a large kernel": conv(1, 3, 20, 20, out=16, kernel=(11, 11), strides=[4, 4], pads=[2, 2, 2, 2]),
    "conv with a kernel like the image": conv(1, 6, 7, 7, out=11, kernel=(7, 7)),
    "conv padded beyond the kernel": conv(1, 4, 5, 5, out=6, pads=[3, 4, 4, 3]),
    "conv of rows": conv(1, 6, 9, 21, out=8, kernel=(1, 7), pads=[0, 3, 0, 3]),
    "conv of columns": conv(1, 6, 21, 9, out=8, kernel=(5, 1), pads=[2, 0, 2, 0], strides=[2, 1]),
    "conv grouped": conv(1, 12, 8, 8, out=18, group=3, pads=[1, 1, 1, 1]),
    "conv depthwise": conv(2, 21, 11, 9, out=21, group=21, pads=[1, 1, 1, 1], strides=[2, 1], relu=True),
    "conv depthwise with multiplier": conv(1, 5, 9, 9, out=15, group=5, pads=[1, 1, 1, 1]),
    "conv depthwise dilated": conv(1, 8, 13, 13, out=8, kernel=(5, 5), group=8, dilations=[2, 2], pads=[4, 4, 4, 4]),
    "conv 1d": conv(2, 13, 41, out=17, kernel=(5,), pads=[2, 2], strides=[2]),
    "conv 1d dilated": conv(1, 6, 37, out=8, kernel=(3,), dilations=[4], pads=[8, 0]),
    "conv 3d": conv(1, 3, 5, 6, 7, out=4, kernel=(3, 3, 3), pads=[1, 1, 1, 1, 1, 1]),
    "conv 3d strided": conv(1, 4, 7, 7, 8, out=5, kernel=(2, 3, 2), strides=[2, 2, 1], pads=[1, 1, 0, 0, 1, 1]),
    "conv transposed": conv(1, 7, 6, 5, out=9, kernel=(2, 2), strides=[2, 2], op="ConvTranspose"),
    "conv transposed padded": conv(1, 6, 7, 6, out=8, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1], op="ConvTranspose"),
    "conv transposed dense": conv(1, 5, 6, 6, out=4, pads=[1, 0, 1, 2], op="ConvTranspose"),
    "conv transposed depthwise": conv(1, 6, 5, 5, out=6, kernel=(4, 4), group=6, strides=[2, 2], pads=[1, 1, 1, 1], op="ConvTranspose"),
}  # fmt: skip
