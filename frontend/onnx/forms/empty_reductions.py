"""Reductions over no axes (``noop_with_empty_axes = 1``): only what they do with each element is left of them.

    ReduceSumSquare(x)    becomes   Mul(x, x)

TVM's importer hands ``x`` on unchanged.
"""

from __future__ import annotations

from ..prepare import Network, Node
from .replacement import Replacement

ELEMENTWISE = {"ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log", "ReduceSumSquare": "Mul"}
"""What the reductions do with one element; all others hand it on."""


def without_axes(node: Node, network: Network) -> list[Node]:
    """The element-wise operator for a reduction over no axes; any other reduction itself."""
    axes = node.inputs[1] if len(node.inputs) > 1 else ""
    info = network.infos.get(axes)
    if not node.attribute("noop_with_empty_axes", 0) or (axes and (info is None or info.shape != (0,))):
        return [node]
    op_type, source = ELEMENTWISE[node.op_type], node.inputs[0]
    return Replacement(network, node).finish(op_type, *((source, source) if op_type == "Mul" else (source,)))
