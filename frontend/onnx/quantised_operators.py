"""ONNX's operators on quantised tensors, as the operators on real numbers that define them.

    QLinearConv(x, w, b)      becomes      Quantize(Conv(Dequantize(x), Dequantize(w), Dequantize(b)))

Whether integers are multiplied is decided for all that is written so (:mod:`...quantised.to_integers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx

from ...ir.errors import UnsupportedError
from .inline import Node

OPERATORS = frozenset({"QLinearConv", "QLinearMatMul"})
PER_AXIS = 13
"""The operator set in which a tensor can have a scale for each channel."""


def expanded(nodes: Sequence[Node], constants: Mapping[str, np.ndarray], opset: int) -> list[Node]:
    """The nodes without those of :data:`OPERATORS`.

    Raises :class:`UnsupportedError` for a scale for each channel in an older operator set.
    """
    return [part for node in nodes for part in _expanded(node, constants, opset)]


def _expanded(node: Node, constants: Mapping[str, np.ndarray], opset: int) -> list[Node]:
    if node.domain or node.op_type not in OPERATORS:
        return [node]
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero, *bias = node.inputs
    many = constants[w_scale].size > 1 if w_scale in constants else False
    if many and opset < PER_AXIS:
        raise UnsupportedError(
            f"node {node.name!r}: {node.op_type} with a scale for each channel is of operator set {opset}; "
            f"export the model with {PER_AXIS} or later"
        )
    conv = node.op_type == "QLinearConv"
    axis = (onnx.helper.make_attribute("axis", 0 if conv else -1),) if many else ()
    start = f"{node.outputs[0]}/"
    parts = [
        replace(node, op_type="DequantizeLinear", inputs=(x, x_scale, x_zero), outputs=(start + "x",), attributes=()),
        replace(node, op_type="DequantizeLinear", inputs=(w, w_scale, w_zero), outputs=(start + "w",), attributes=axis),
    ]
    factors = [start + "x", start + "w"]
    if bias and bias[0]:
        both, real = start + "bias scale", start + "bias"
        parts += [
            replace(node, op_type="Mul", inputs=(x_scale, w_scale), outputs=(both,), attributes=()),
            replace(node, op_type="DequantizeLinear", inputs=(bias[0], both), outputs=(real,), attributes=axis),
        ]
        factors.append(real)
    return [
        *parts,
        replace(node, op_type="Conv" if conv else "MatMul", inputs=tuple(factors), outputs=(start + "y",)),
        replace(node, op_type="QuantizeLinear", inputs=(start + "y", scale, zero), attributes=()),
    ]
