"""Pooling: of windows, and of whole images."""

from __future__ import annotations

from tests.support.operators.cases import Cases
from tests.support.operators.single_nodes import one

CASES = Cases()

CASES |= {
    "max pool": one("MaxPool", (2, 13, 12, 10), kernel_shape=[2, 2], strides=[2, 2]),
    "max pool padded": one("MaxPool", (1, 9, 11, 13), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "max pool padded asymmetrically": one("MaxPool", (1, 5, 9, 8), kernel_shape=[4, 3], strides=[1, 2], pads=[0, 1, 3, 2]),
    "max pool ceil": one("MaxPool", (1, 5, 8, 10), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "max pool dilated": one("MaxPool", (1, 5, 12, 11), kernel_shape=[3, 2], dilations=[2, 3], pads=[1, 1, 1, 1]),
    "max pool large": one("MaxPool", (1, 5, 9, 9), kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]),
    "max pool 1d": one("MaxPool", (2, 5, 23), kernel_shape=[3], strides=[2]),
    "average pool": one("AveragePool", (2, 5, 8, 10), kernel_shape=[2, 2], strides=[2, 2]),
    "average pool padded": one("AveragePool", (1, 9, 11, 9), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "average pool asymmetric": one("AveragePool", (1, 5, 8, 9), kernel_shape=[3, 3], pads=[0, 1, 2, 0]),
    "average pool with pads counted": one(
        "AveragePool", (1, 5, 9, 9), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    "average pool ceil": one("AveragePool", (1, 5, 8, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "global average pool": one("GlobalAveragePool", (2, 13, 6, 7)),
    "global max pool": one("GlobalMaxPool", (2, 13, 6, 7)),
}  # fmt: skip
