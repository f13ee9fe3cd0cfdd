"""Reductions over no axes (``noop_with_empty_axes = 1``), of which only what they do with each element is left, and
logarithms of sums of exponentials of infinities.

    ReduceSumSquare(x)    becomes   Mul(x, x)
    ReduceLogSumExp(x)    becomes   Add(ReduceLogSum(Exp(Sub(x, m))), m)    with ReduceMax(x) for m, or 0 for infinities

TVM's importer hands the ``x`` of the first on unchanged, and subtracts an infinite maximum, which makes a NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from ....ir.graph import FLOATS
from ...net.net import Info
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


def with_finite_maximum(node: Node, network: Network) -> list[Node]:
    """The nodes for a ReduceLogSumExp of floats over axes that are known; any other itself."""
    source, *operands = node.inputs
    info, result = network.infos.get(source), network.infos.get(node.outputs[0])
    axes = _axes(node, network)
    if info is None or result is None or info.dtype not in FLOATS or not axes:
        return [node]
    rank = len(info.shape)
    reduced = {axis % rank for axis in axes}
    kept = Info(tuple(1 if d in reduced else size for d, size in enumerate(info.shape)), info.dtype)
    nodes = Replacement(network, node)
    attributes = {a.name: node.attribute(a.name) for a in node.attributes} | {"keepdims": 1}
    infinity, zero = (nodes.constant(n, np.array(v, info.dtype)) for n, v in (("infinity", np.inf), ("zero", 0)))
    most = nodes.add("ReduceMax", source, *operands, info=kept, **attributes)
    size = nodes.add("Abs", most, info=kept)
    infinite = nodes.add("Equal", size, infinity, info=Info(kept.shape, "bool"))
    finite = nodes.add("Where", infinite, zero, most, info=kept)
    powers = nodes.add("Exp", nodes.add("Sub", source, finite, info=info), info=info)
    logarithm = nodes.add("ReduceLogSum", powers, *operands, info=kept, **attributes)
    total = nodes.add("Add", logarithm, finite, info=kept)
    if kept.shape != result.shape:
        nodes.add("Reshape", total, nodes.constant("shape", list(result.shape)), info=result)
    return nodes.done()


def _axes(node: Node, network: Network) -> Sequence[int]:
    """The axes of a reduction; none if they are not known, or if it is over no axes."""
    info = network.infos.get(node.inputs[0])
    axes_input = node.inputs[1] if len(node.inputs) > 1 else ""
    named = network.constants.get(axes_input) if axes_input else node.attribute("axes", ())
    if named is None:
        return ()
    axes = [int(axis) for axis in np.ravel(cast("Sequence[int]", named))]
    if axes or node.attribute("noop_with_empty_axes", 0) or info is None:
        return axes
    return range(len(info.shape))
