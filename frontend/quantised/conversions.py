"""QuantizeLinear and DequantizeLinear become Quantise and Dequantise, by the inverse of the scale where they divide.

q = QuantizeLinear(x)                         becomes     q = Quantise(x)
q = QuantizeLinear(DequantizeLinear(p))       becomes     q = Quantise(p)
y = DequantizeLinear(q)                       becomes     y = Dequantise(q)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..net.net import fresh
from ..onnx.inline import Node
from .integer_nodes import dequantise, quantise
from .parameters import EIGHT_BITS, Quantised, parameters
from .quantised_network import QuantisedNetwork


def rewrite_conversion(quantised: QuantisedNetwork, node: Node) -> bool:
    """Rewrite a QuantizeLinear or DequantizeLinear of what the network computes, by parameters that are constant."""
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or node.inputs[0] in quantised.network.constants:
        return False
    nodes, known = quantised.nodes, parameters(quantised.network, node)
    info = quantised.network.infos.get(node.inputs[0])
    if known is None or info is None:
        return False
    if node.op_type == "DequantizeLinear":
        scale = nodes.constant(node, "scale", known.scale)
        nodes.append(dequantise(node.name, node.origin, known.tensor, scale, node.outputs[0], known.zero, known.axis))
        return True
    if info.dtype != "float32" or known.dtype not in EIGHT_BITS:
        return False
    source = quantised.source(node.inputs[0])
    if source is not None and source.dtype in EIGHT_BITS and source.whole and known.whole:
        requantise(quantised, node, source, known, known.tensor)
        return True
    inverse = nodes.constant(node, "inverse", (np.float32(1) / known.scale).astype(np.float32))
    nodes.append(
        quantise(node.name, node.origin, node.inputs[0], inverse, known.tensor, known.zero, known.dtype, known.axis)
    )
    return True


def requantise(quantised: QuantisedNetwork, node: Node, source: Quantised, target: Quantised, result: str) -> None:
    """Write to the tensor ``result`` the integers by the parameters of ``target`` for those of ``source``.

    Both have one scale.
    """
    factor = quantised.nodes.constant(node, "factor", np.asarray(source.scale / target.scale, np.float32))
    zeros = target.zero, target.dtype, 0, source.zero
    quantised.nodes.append(quantise(node.name, node.origin, source.tensor, factor, result, *zeros))


def with_own_dequantisations(quantised: QuantisedNetwork, node: Node) -> Node:
    """The node, reading copies of its dequantised inputs that other nodes read, too; each is dequantised by itself."""
    network, inputs = quantised.network, list(node.inputs)
    for position, name in enumerate(inputs):
        source = quantised.source(name) if name else None
        if source is None or source.tensor in network.constants or len(quantised.readers.get(name, ())) < 2:
            continue
        inputs[position] = fresh(f"{name}.{next(quantised.copy_numbers)}", network.infos)
        network.infos[inputs[position]] = network.infos[name]
        dequantisation = replace(quantised.writers[name], outputs=(inputs[position],))
        quantised.writers[inputs[position]] = dequantisation
        rewrite_conversion(quantised, dequantisation)
    return replace(node, inputs=tuple(inputs))
