"""Operators on quantised tensors, ONNX's and ONNX Runtime's, as the operators on real numbers that define them.

    QLinearConv(x, w, b)      becomes      Quantize(Conv(Dequantize(x), Dequantize(w), Dequantize(b)))

Whether integers are multiplied is decided for all that is written so (:mod:`..quantised.to_integers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
import onnx
from onnx import numpy_helper

from ...ir.errors import UnsupportedError, UsageError
from .checks.quantisation import WRITTEN_AS, misfit, numbers
from .inline import MICROSOFT, QUANTISED, Node

_DTYPES = ("int8", "uint8", "int32")
"""Dtypes that ONNX has quantised from the beginning."""

PER_AXIS = 13
"""The operator set in which a tensor can have a scale for each channel, and Softmax got one axis."""


def expanded(nodes: Sequence[Node], constants: Mapping[str, np.ndarray], opset: int) -> list[Node]:
    """The nodes without those of :data:`.inline.QUANTISED`, and QuantizeLinear and DequantizeLinear as ONNX has them.

    Raises :class:`UnsupportedError` for a scale for each channel in an older operator set, and :class:`UsageError` for
    several scales where the operator has one.
    """
    read = {name for node in nodes if _is_quantised(node) for name in node.inputs}
    known = dict(constants)
    for node in nodes:
        value = node.attribute("value") if node.op_type == "Constant" and node.outputs[0] in read else None
        if isinstance(value, onnx.TensorProto):
            known[node.outputs[0]] = numpy_helper.to_array(value)
    return [
        part
        for node in nodes
        for part in (_parts(node, known, opset) if _is_quantised(node) else (_of_onnx(node, known),))
    ]


def _of_onnx(node: Node, constants: Mapping[str, np.ndarray]) -> Node:
    """ONNX Runtime's own QuantizeLinear or DequantizeLinear as ONNX's, which has none of 4 or 16 bits for long."""
    zero = constants.get(node.inputs[2]) if len(node.inputs) > 2 else None
    is_own = node.domain == MICROSOFT and node.op_type in ("QuantizeLinear", "DequantizeLinear")
    return replace(node, domain="") if is_own and zero is not None and zero.dtype.name in _DTYPES else node


def widen_weights(nodes: Sequence[Node], constants: dict[str, np.ndarray]) -> None:
    """Make 8 bits, in place, of the constants of 4 that only DequantizeLinear reads: it takes the same numbers there.

    ONNX's and ONNX Runtime's both have weights and zeros of int4 and uint4.
    """
    kept = {name for node in nodes if node.op_type != "DequantizeLinear" for name in node.inputs}
    for name, array in constants.items():
        if name not in kept and array.dtype.name in ("int4", "uint4"):
            constants[name] = array.astype(np.int8 if array.dtype.name == "int4" else np.uint8)


def _is_quantised(node: Node) -> bool:
    return node.op_type in QUANTISED and node.domain == QUANTISED[node.op_type]


def _parts(node: Node, constants: Mapping[str, np.ndarray], opset: int) -> Iterator[Node]:
    groups, bias, result = _operands(node)
    start = f"{node.outputs[0]}/"
    op_type = {"QGemm": "Gemm"}.get(node.op_type, node.op_type.removeprefix("QLinear"))
    plain = replace(node, domain="", attributes=())
    _check_scales(node, [*groups, ("", *result)], constants, opset)
    factors: list[str] = []
    for number, operand in enumerate(groups):
        factors.append(f"{start}{number}")
        yield from _dequantised(node, number, operand, constants)
    if bias:
        (_, first, _), (_, second, _) = groups
        many = second in constants and constants[second].size > 1
        axis = (onnx.helper.make_attribute("axis", 0),) if many else ()
        both = start + "bias scale"
        yield replace(plain, op_type="Mul", inputs=(first, second), outputs=(both,))
        alpha = node.attribute("alpha", 1.0)
        if isinstance(alpha, float) and alpha != 1.0:
            # ONNX Runtime's QGemm has its bias in the unit of the scaled product.
            value = onnx.helper.make_tensor("alpha", onnx.TensorProto.FLOAT, [], [alpha])
            constant, product = (onnx.helper.make_attribute("value", value),), start + "bias unit"
            yield replace(plain, op_type="Constant", inputs=(), outputs=(start + "alpha",), attributes=constant)
            yield replace(plain, op_type="Mul", inputs=(both, start + "alpha"), outputs=(product,))
            both = product
        factors.append(start + "bias")
        yield replace(plain, op_type="DequantizeLinear", inputs=(bias, both), outputs=(factors[-1],), attributes=axis)
    attributes = tuple(a for a in node.attributes if a.name != "channels_last")
    if op_type == "Softmax":
        attributes = (onnx.helper.make_attribute("axis", _softmax_axis(node, opset)),)
    scale, zero = result
    target = start + "y" if scale else node.outputs[0]
    yield replace(node, op_type=op_type, domain="", inputs=tuple(factors), outputs=(target,), attributes=attributes)
    if scale:
        inputs = (target, scale, zero) if zero else (target, scale)
        yield replace(plain, op_type="QuantizeLinear", inputs=inputs)


def _scale_axis(node: Node, number: int) -> int | None:
    """Along which dimension an operand may have a scale for each index; ``None``: it has one scale.

    Each row of the left factor of a QLinearMatMul may have its scale, and each column of the right one. Of the weights
    of a convolution, and of transposed ones, each row may; of others, each column.
    """
    if node.op_type == "QLinearMatMul" and number < 2:
        return number - 2
    if number != 1 or node.op_type not in ("QLinearConv", "QGemm"):
        return None
    return 0 if node.op_type == "QLinearConv" or node.attribute("transB", 0) else -1


def _check_scales(
    node: Node, operands: Sequence[tuple[str, str, str]], constants: Mapping[str, np.ndarray], opset: int
) -> None:
    """Raise an error for several scales or zeros where there may be one only, or where they are not of rows or columns.

    ``operands``: tensor, scale and zero of each operand and of the result.
    """
    for number, (x, scale, zero) in enumerate(operands):
        axis, place = _scale_axis(node, number), f"node {node.name!r} ({node.op_type})"
        several = [(kind, name, constants[name].shape) for kind, name in (("scale", scale), ("zero point", zero))
                   if name in constants and constants[name].size != 1]  # fmt: skip
        for kind, name, shape in several:
            if axis is not None and opset < PER_AXIS:
                raise UnsupportedError(
                    f"node {node.name!r}: {node.op_type} with a {kind} for each channel is of operator set {opset}; "
                    f"export the model with {PER_AXIS} or later"
                )
            operand = constants[x].shape if x in constants else None
            problem = misfit(node.op_type, f"the {kind} {name!r}", shape, axis, x, operand)
            if problem is not None:
                raise UsageError(f"{place}: {problem}")
        if len(several) == 2 and prod(several[0][2]) != prod(several[1][2]):
            raise UsageError(
                f"{place}: the zero point {zero!r} has {numbers(constants[zero].size)}, and the scale {scale!r} has "
                f"{constants[scale].size}: give as many"
            )


def _dequantised(
    node: Node, number: int, operand: tuple[str, str, str], constants: Mapping[str, np.ndarray]
) -> Iterator[Node]:
    """The real numbers that an operand stands for, by a DequantizeLinear if it can have the operand's scales."""
    start, plain = f"{node.outputs[0]}/{number}", replace(node, domain="", attributes=())
    axis, (x, *pair) = _scale_axis(node, number), operand
    shape = max((constants[name].shape for name in pair if name in constants), key=prod, default=())
    along_one = axis is None or len(shape) < 2 or prod(shape) == shape[axis]
    for place, name in enumerate(pair):
        # ONNX's DequantizeLinear takes vectors, and as many zeros as scales.
        form = (prod(shape),) if along_one else shape
        if prod(shape) > 1 and name in constants and constants[name].shape != form:
            array = constants[name]
            array = array.reshape(form) if array.size > 1 else np.full(form, array.flat[0], array.dtype)
            value = (onnx.helper.make_attribute("value", numpy_helper.from_array(array)),)
            pair[place] = f"{start}/{name}"
            yield replace(plain, op_type="Constant", inputs=(), outputs=(pair[place],), attributes=value)
    scale, zero = pair
    if along_one:
        inputs = (x, scale, zero) if zero else (x, scale)
        # Of one scale, the axis does not matter; scales that the network computes may be several.
        none = axis is None or (scale in constants and prod(shape) == 1)
        along = () if none else (onnx.helper.make_attribute("axis", axis),)
        source = onnx.helper.make_attribute(WRITTEN_AS, node.op_type)
        yield replace(plain, op_type="DequantizeLinear", inputs=inputs, outputs=(start,), attributes=(*along, source))
        return
    # Each sample has scales of its own.
    to = (onnx.helper.make_attribute("to", onnx.TensorProto.FLOAT),)
    real = f"{start}/real"
    yield replace(plain, op_type="Cast", inputs=(x,), outputs=(real,), attributes=to)
    if zero:
        yield replace(plain, op_type="Cast", inputs=(zero,), outputs=(f"{start}/zero",), attributes=to)
        yield replace(plain, op_type="Sub", inputs=(real, f"{start}/zero"), outputs=(f"{start}/shifted",))
        real = f"{start}/shifted"
    yield replace(plain, op_type="Mul", inputs=(real, scale), outputs=(start,))


def _softmax_axis(node: Node, opset: int) -> int:
    """The axis of a QLinearSoftmax, which is a Softmax of the operator set that its own attribute names.

    Before 13, a Softmax was of all dimensions from its axis on: the same for the last axis only.
    """
    axis, node_opset = node.attribute("axis", -1), node.attribute("opset", opset)
    if not isinstance(axis, int) or not isinstance(node_opset, int):
        raise UnsupportedError(f"node {node.name!r}: QLinearSoftmax has an attribute that is no whole number")
    if axis != -1 and (node_opset < PER_AXIS) != (opset < PER_AXIS):
        raise UnsupportedError(
            f"node {node.name!r}: QLinearSoftmax of operator set {node_opset} along axis {axis} in a model of operator "
            f"set {opset}; quantise it again from a model of this operator set"
        )
    return axis


Operands = tuple[list[tuple[str, str, str]], str, tuple[str, str]]
"""Of each quantised input its tensor, scale and zero (empty: 0), the bias, and scale and zero of the result (empty: it
is a real number)."""


def _operands(node: Node) -> Operands:
    inputs = node.inputs
    if node.attribute("channels_last", 0):
        raise UnsupportedError(f"node {node.name!r}: {node.op_type} with channels_last is not supported")
    if node.op_type == "QLinearConcat":
        scale, zero, *rest = inputs
        return [(rest[i], rest[i + 1], rest[i + 2]) for i in range(0, len(rest), 3)], "", (scale, zero)
    one = node.op_type in (
        "QLinearSigmoid", "QLinearSoftmax", "QLinearLeakyRelu", "QLinearGlobalAveragePool", "QLinearAveragePool"
    )  # fmt: skip
    padded = (*inputs, *("",) * 9)
    if one:
        return [(padded[0], padded[1], padded[2])], "", (padded[3], padded[4])
    groups = [(padded[0], padded[1], padded[2]), (padded[3], padded[4], padded[5])]
    if node.op_type == "QGemm":
        return groups, padded[6], (padded[7], padded[8])
    return groups, padded[8] if node.op_type == "QLinearConv" else "", (padded[6], padded[7])
