"""Pooling: of windows, and of whole images."""

from __future__ import annotations

import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Case, Cases

CASES = Cases()


def pool(op: str, *shape: int, **attributes: object) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        return m.build(m.node(op, m.input("x", *shape), **attributes))

    return build


CASES |= {
    "max pool": pool("MaxPool", 1, 5, 8, 8, kernel_shape=[2, 2], strides=[2, 2]),
    "max pool padded": pool("MaxPool", 1, 5, 9, 9, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "max pool ceil": pool("MaxPool", 1, 5, 8, 8, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "max pool overlapping": pool("MaxPool", 1, 5, 8, 8, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]),
    "max pool 1d": pool("MaxPool", 1, 5, 11, kernel_shape=[3], strides=[2]),
    "average pool": pool("AveragePool", 1, 5, 8, 8, kernel_shape=[2, 2], strides=[2, 2]),
    "average pool padded": pool("AveragePool", 1, 5, 9, 9, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "average pool asymmetric": pool("AveragePool", 1, 5, 8, 8, kernel_shape=[3, 3], pads=[0, 1, 2, 0]),
    "average pool with pads counted": pool(
        "AveragePool", 1, 5, 9, 9, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    "average pool ceil": pool("AveragePool", 1, 5, 8, 8, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "global average pool": pool("GlobalAveragePool", 2, 5, 6, 7),
    "global max pool": pool("GlobalMaxPool", 2, 5, 6, 7),
}
