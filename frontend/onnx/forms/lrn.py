"""Local response normalisation over an even number of channels, which TVM's importer lacks.

    y[c] = x[c] / (bias + alpha/size · Σ x[i]²) ** beta     over c - ⌊(size-1)/2⌋ ≤ i ≤ c + ⌈(size-1)/2⌉

(Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", NeurIPS 2012, section 3.3; ONNX).
The sum is a pool of squares, whose first dimension is that of the channels.
"""

from __future__ import annotations

import numpy as np

from ....ir.errors import UsageError
from ...net.net import Info
from ..prepare import Network, Node
from ..replacement import Replacement


def expand_even_lrn(network: Network) -> None:
    """Replace, in place, each LRN of even size by the operators that define it."""
    nodes: list[Node] = []
    for node in network.nodes:
        even = node.op_type == "LRN" and _number(node, "size", 1) % 2 == 0
        nodes += _expanded(node, network) if even and node.inputs[0] in network.infos else [node]
    network.nodes = nodes


def _number(node: Node, name: str, default: float) -> float:
    value = node.attribute(name, default)
    if not isinstance(value, int | float):
        raise UsageError(f"node {node.name!r}: the attribute {name} is no number")
    return value


def _expanded(node: Node, network: Network) -> list[Node]:
    source, size = node.inputs[0], int(_number(node, "size", 1))
    info = network.infos[source]
    nodes = Replacement(network, node)

    def number(name: str, default: float) -> str:
        return nodes.constant(name, np.array(_number(node, name, default), info.dtype))

    batch, *others = info.shape
    rows = Info((batch, 1, *others), info.dtype)
    squares = nodes.add("Mul", source, source, info=info)
    squares = nodes.add("Reshape", squares, nodes.constant("rows", rows.shape), info=rows)
    flat = [0] * (len(others) - 1)
    pads = [(size - 1) // 2, *flat, size // 2, *flat]
    kernel = [size, *(1 for _ in flat)]
    mean = nodes.add("AveragePool", squares, info=rows, kernel_shape=kernel, pads=pads, count_include_pad=1)
    mean = nodes.add("Reshape", mean, nodes.constant("shape", info.shape), info=info)
    scale = nodes.add("Mul", mean, number("alpha", 1e-4), info=info)
    scale = nodes.add("Add", scale, number("bias", 1.0), info=info)
    return nodes.finish("Div", source, nodes.add("Pow", scale, number("beta", 0.75), info=info))
