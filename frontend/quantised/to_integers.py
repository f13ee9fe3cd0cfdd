"""Products of dequantised numbers become products of integers, and what only moves numbers moves integers.

    q = Quantise(relu(Conv(Dequantise(x), Dequantise(W), Dequantise(b))))
    becomes    s = Product(x, W) + b';  q = Quantise(s)

The one factor of Quantise is scale of x * scale of W / scale of q; where nothing is quantised, Dequantise makes real
numbers of the sums. What is not dequantised or not quantised by constant parameters stays as it is.
"""

from __future__ import annotations

import numpy as np

from ..onnx.checks.quantisation import check_scale_values
from ..onnx.inline import Node
from ..onnx.prepare import Network
from .conversions import rewrite_conversion, with_own_dequantisations
from .moved_integers import rewrite_movement
from .parameters import dequantised_constants
from .products_of_integers import rewrite_integer_product
from .products_of_reals import rewrite_product
from .quantised_network import QuantisedNetwork
from .sums_and_means import rewrite_mean, rewrite_sum

_QUANTISED = frozenset({"QuantizeLinear", "DequantizeLinear", "ConvInteger", "MatMulInteger"})
"""A network with none of these operators has nothing to rewrite."""

_REWRITES = (
    rewrite_product, rewrite_integer_product, rewrite_sum, rewrite_mean, rewrite_movement, rewrite_conversion
)  # fmt: skip
"""Of a node, the first that applies is done."""


def to_integers(network: Network) -> None:
    """Rewrite the network in place. Raises :class:`UsageError` for a constant scale that is not finite.

    Tensors that are 0 throughout have a scale of 0, by which integers are computed as ONNX defines it: of infinities.
    """
    for node in network.nodes:
        check_scale_values(node, network.constants)
    with np.errstate(all="ignore"):
        _rewrite(network)


def _rewrite(network: Network) -> None:
    if any(node.op_type in _QUANTISED for node in network.nodes):
        quantised = QuantisedNetwork.from_network(network)
        for node in network.nodes:
            _rewrite_node(quantised, node)
        network.nodes = quantised.nodes.needed()
    dequantised_constants(network)


def _rewrite_node(quantised: QuantisedNetwork, node: Node) -> None:
    """Append what takes the place of a node, which is nothing where a node in front of it computes its result."""
    if any(output in quantised.absorbed for output in node.outputs):
        return
    node, result = with_own_dequantisations(quantised, node), node.outputs[0]
    if node.op_type == "QuantizeLinear" and result in quantised.computed:
        integers = quantised.computed[result]
        if integers != result:
            quantised.nodes.append(Node(node.name, "Identity", (integers,), node.outputs, origin=node.origin))
    elif node.domain or not any(rewrite(quantised, node) for rewrite in _REWRITES):
        quantised.nodes.append(node)
