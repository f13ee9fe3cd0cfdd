"""ConvInteger and MatMulInteger become products of integers without their zeros, which are constant or computed."""

from __future__ import annotations

import numpy as np

from ...ir.errors import UnsupportedError
from ..net.net import Info
from ..onnx.inline import Node
from .integer_sums import Factor, constant_factor, window_sums
from .quantised_network import QuantisedNetwork
from .vector_factors import product_sums


def rewrite_integer_product(quantised: QuantisedNetwork, node: Node) -> bool:
    """Rewrite ConvInteger and MatMulInteger.

    Raises :class:`UnsupportedError` for a ConvInteger whose weights have a zero that can only be subtracted while
    the network runs: there would have to be a sum of activations for each window.
    """
    if node.op_type not in ("ConvInteger", "MatMulInteger"):
        return False
    nodes, network, conv = quantised.nodes, quantised.network, node.op_type == "ConvInteger"
    values = network.constants.get(node.inputs[1])
    left, right = (_zeros(quantised, node, position) for position in (0, 1))
    second = None if values is None or isinstance(right, str) else constant_factor(nodes, node, values, right)
    # A sum of each row costs less than three products.
    if second is None or (len(second.others) > 1 and not conv):
        second = Factor(node.inputs[1], _as_zero(quantised, node, right), values)
    if conv and second.zero != 0:
        raise UnsupportedError(
            f"node {node.name!r}: ConvInteger whose weights have a zero point is supported only if the network "
            "computes neither of the two; make both constants, or leave the zero point out"
        )
    first = Factor(node.inputs[0], _as_zero(quantised, node, left))
    sums_of = window_sums if conv else product_sums
    sums = sums_of(nodes, node, first, second, network.infos[node.outputs[0]], None)
    if sums is not None:
        nodes.append(Node(node.name, "Identity", (sums,), node.outputs, origin=node.origin))
    elif conv:
        raise UnsupportedError(f"node {node.name!r}: sums of ConvInteger are beyond 32 bits")
    return sums is not None


def _zeros(quantised: QuantisedNetwork, node: Node, position: int) -> int | str | np.ndarray:
    """The zero of the first or second factor (``position`` 0 or 1), if it is one and constant.

    Of several, the array that broadcasts with the factor; or the tensor that has them, if they are computed.
    """
    name = (*node.inputs[2:], "", "")[position]
    values = quantised.network.constants.get(name)
    if not name or (values is not None and (values == values.flat[0]).all()):
        return 0 if values is None else int(values.flat[0])
    info = quantised.network.infos[name]
    if len(info.shape) != 1 or info.shape[0] == 1 or (position and node.op_type == "MatMulInteger"):
        return name if values is None else values.astype(np.int64)
    # One for each row of the left factor, or for each filter.
    rank = len(quantised.network.infos[node.inputs[position]].shape) if position else 2
    shape = (*info.shape, *(1 for _ in range(rank - 1)))
    if values is not None:
        return values.astype(np.int64).reshape(shape)
    target = quantised.nodes.constant(node, "shape", np.array(shape, np.int64))
    return quantised.nodes.add("Reshape", "rows", node, (name, target), Info(shape, info.dtype))


def _as_zero(quantised: QuantisedNetwork, node: Node, zero: int | str | np.ndarray) -> int | str:
    """Zeros as :class:`.integer_sums.Factor` has them: several that are constant become a tensor."""
    if isinstance(zero, np.ndarray):
        return quantised.nodes.constant(node, "zeros", zero.astype(np.int32))
    return zero
