"""OneHot is a choice between its two values: whether an index, or an index from the end, is that of the place.

    y[i, d] = on if x[i] == d or x[i] == d - depth else off

Indices of all types count as int64, in which no place wraps around. TVM gives the result the dtype of a Python number,
and takes a depth of rank 0 alone.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ....ir.errors import UnsupportedError
from ...net.net import Info
from ..prepare import Network, Node
from .replacement import Replacement


def chosen(node: Node, network: Network) -> list[Node]:
    """The nodes for a OneHot of constant depth and values; raises :class:`UnsupportedError` for any other."""
    indices, depth, values = node.inputs
    info, axis = network.infos.get(indices), node.attribute("axis", -1)
    if depth not in network.constants or values not in network.constants:
        raise UnsupportedError(
            f"node {node.name!r}: OneHot: its depth or values are not constant; give both as weights"
        )
    if info is None or not isinstance(axis, int):
        return [node]
    places = int(network.constants[depth].reshape(-1)[0])
    off, on = network.constants[values]
    rank = len(info.shape) + 1
    axis %= rank
    nodes = Replacement(network, node)

    def equal(numbers: np.ndarray) -> str:
        """Whether each index is that of each place, of which there are as many as ``numbers``."""
        along = numbers.astype(np.int64).reshape([-1 if d == axis else 1 for d in range(rank)])
        return nodes.add("Equal", apart, nodes.constant("places", along), info=Info(shape, "bool"))

    shape = (*info.shape[:axis], places, *info.shape[axis:])
    whole = (*info.shape[:axis], 1, *info.shape[axis:])
    if info.dtype != "int64":
        indices = nodes.add("Cast", indices, info=Info(info.shape, "int64"), to=TensorProto.INT64)
    apart = nodes.add("Reshape", indices, nodes.constant("shape", whole), info=Info(whole, "int64"))
    same = nodes.add("Or", equal(np.arange(places)), equal(np.arange(-places, 0)), info=Info(shape, "bool"))
    return nodes.finish("Where", same, nodes.constant("on", np.asarray(on)), nodes.constant("off", np.asarray(off)))
