"""Bounds of a Slice that are attributes, as they were before operator set 10, become inputs: TVM reads only those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..prepare import Network, Node
from ..replacement import Replacement


def with_inputs(node: Node, network: Network) -> list[Node]:
    """The node with its bounds as inputs. ONNX's inference has looked whether they are equally many."""
    source, *bound_inputs = node.inputs
    if bound_inputs:
        return [node]
    starts, ends = (list(cast("Sequence[int]", node.attribute(name, ()))) for name in ("starts", "ends"))
    axes = list(cast("Sequence[int]", node.attribute("axes", range(len(starts)))))
    nodes = Replacement(network, node)
    bounds = (nodes.constant(name, value) for name, value in (("starts", starts), ("ends", ends), ("axes", axes)))
    return nodes.finish("Slice", source, *bounds)
