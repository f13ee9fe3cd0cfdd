"""Reductions over no axes (``noop_with_empty_axes = 1``): only what they do with each element is left of them.

    ReduceSumSquare(x)    becomes   Mul(x, x)

TVM's importer hands ``x`` on unchanged.
"""

from __future__ import annotations

from ..prepare import Network, Node
from ..replacement import Replacement

ELEMENTWISE = {"ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log", "ReduceSumSquare": "Mul"}
"""What the reductions do with one element; all others hand it on."""


def without_axes(node: Node, network: Network) -> list[Node]:
    """The element-wise operator for a reduction over no axes; any other reduction itself."""
    source, *axes = node.inputs
    shapes = [network.infos[name].shape if name in network.infos else None for name in axes if name]
    if not node.attribute("noop_with_empty_axes", 0) or any(shape != (0,) for shape in shapes):
        return [node]
    operands = [source, source] if ELEMENTWISE[node.op_type] == "Mul" else [source]
    return Replacement(network, node).finish(ELEMENTWISE[node.op_type], *operands)
