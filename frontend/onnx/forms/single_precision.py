"""Functions that TVM has of float32 alone: its importer mixes types, or its LLVM build has no kernel of 16 bits.

    y = Elu(x)  of float16      becomes      y = Cast(Elu(Cast(x)))  of float32 between
    y = ThresholdedRelu(x)      becomes      y = Where(Greater(x, alpha), x, 0)

TVM multiplies the ``x`` of the second by a truth value, which makes NaN of an infinity.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from ....ir.graph import FLOATS
from ...net.net import Info
from ..prepare import Network, Node
from ..replacement import Replacement

SINGLE = ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Cosh", "Elu", "Selu", "Sinh")
"""Operators with one input."""

_NARROW = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}


def in_single(node: Node, network: Network) -> list[Node]:
    """The nodes for one of 16 bits; any other itself."""
    info = network.infos.get(node.inputs[0])
    if info is None or info.dtype not in _NARROW:
        return [node]
    nodes, wide = Replacement(network, node), Info(info.shape, "float32")
    single = nodes.add("Cast", *node.inputs, info=wide, to=TensorProto.FLOAT)
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attributes}
    result = nodes.add(node.op_type, single, info=wide, **attributes)
    return nodes.finish("Cast", result, to=_NARROW[info.dtype])


def thresholded(node: Node, network: Network) -> list[Node]:
    """The nodes for a ThresholdedRelu of floats, as ONNX defines it: ``alpha`` is of the type of ``x``."""
    source = node.inputs[0]
    info = network.infos.get(source)
    if info is None or info.dtype not in FLOATS:
        return [node]
    nodes = Replacement(network, node)
    numbers = {"alpha": node.attribute("alpha", 1.0), "zero": 0.0}
    alpha, zero = (nodes.constant(name, np.array(value, info.dtype)) for name, value in numbers.items())
    above = nodes.add("Greater", source, alpha, info=Info(info.shape, "bool"))
    return nodes.finish("Where", above, source, zero)
