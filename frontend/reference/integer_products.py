"""Products of integers as products of real numbers: TVM imports no ConvInteger, and few forms of MatMulInteger's zeros.

    y = ConvInteger(x, w, zx, zw)    becomes    y = Cast(Conv(Cast(x) - Cast(zx), Cast(w) - Cast(zw)))

In float64, in which 32-bit sums are exact.
"""

from __future__ import annotations

import numpy as np
import onnx

from ..onnx.inline import Node
from ..onnx.prepare import Network

PRODUCTS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}


def integer_products_to_real(network: Network) -> None:
    """Rewrite the network in place: afterwards it has neither ConvInteger nor MatMulInteger."""
    network.nodes = [part for node in network.nodes for part in _parts(node, network)]


def _parts(node: Node, network: Network) -> list[Node]:
    if node.domain or node.op_type not in PRODUCTS:
        return [node]
    parts: list[Node] = []

    def add(op_type: str, name: str, *inputs: str, attributes: tuple[onnx.AttributeProto, ...] = ()) -> str:
        parts.append(Node(node.name, op_type, inputs, (f"{node.outputs[0]}/{name}",), attributes, origin=node.origin))
        return parts[-1].outputs[0]

    double = (onnx.helper.make_attribute("to", onnx.TensorProto.DOUBLE),)
    factors: list[str] = []
    for side, factor, zero in zip(("left", "right"), node.inputs[:2], (*node.inputs[2:], "", "")[:2], strict=True):
        real = add("Cast", side, factor, attributes=double)
        if zero:
            shape = _zero_shape(node, side, network.infos[zero].shape, len(network.infos[factor].shape))
            shaped = add("Reshape", f"{side} zero", zero, network.add_constant("shape", np.array(shape, np.int64)))
            real = add("Sub", f"{side} less zero", real, add("Cast", f"{side} real zero", shaped, attributes=double))
        factors.append(real)
    total = add(PRODUCTS[node.op_type], "sum", *factors, attributes=node.attributes)
    whole = (onnx.helper.make_attribute("to", onnx.TensorProto.INT32),)
    return [*parts, Node(node.name, "Cast", (total,), node.outputs, whole, origin=node.origin)]


def _zero_shape(node: Node, side: str, shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """In what shape zeros broadcast with their factor: a list has one for each row of the left one, or each filter."""
    if len(shape) != 1 or shape[0] == 1 or (node.op_type == "MatMulInteger" and side == "right"):
        return shape
    return (*shape, *(1 for _ in range(rank - 1 if side == "right" else 1)))
