"""ScatterElements whose indices are fewer than the data along other dimensions than that of the scatter.

It then changes only a part of the data, from the beginning of each such dimension: the scatter is into that part, and
what lies beyond it is concatenated, one dimension after the other. TVM takes positions among the indices for positions
in the data.
"""

from __future__ import annotations

from ...net.net import Info
from ..prepare import Network, Node
from ..replacement import Replacement


def scattered(node: Node, network: Network) -> list[Node]:
    """The nodes for a scatter into a part of its data; any other itself."""
    info, indices = network.infos.get(node.inputs[0]), network.infos.get(node.inputs[1])
    axis = node.attribute("axis", 0)
    if info is None or indices is None or not isinstance(axis, int):
        return [node]
    if not info.shape or len(indices.shape) != len(info.shape):
        return [node]
    axis %= len(info.shape)
    part = [n if d == axis else min(n, indices.shape[d]) for d, n in enumerate(info.shape)]
    smaller = [d for d, n in enumerate(info.shape) if part[d] < n]
    if not smaller or 0 in part:
        return [node]
    nodes = Replacement(network, node)
    axes = nodes.constant("axes", smaller)

    def cut(starts: list[int], ends: list[int]) -> str:
        """The data between these places of the dimensions that are ``smaller``."""
        shape = list(info.shape)
        for d, start, end in zip(smaller, starts, ends, strict=True):
            shape[d] = end - start
        bounds = nodes.constant("starts", starts), nodes.constant("ends", ends)
        return nodes.add("Slice", node.inputs[0], *bounds, axes, info=Info(tuple(shape), info.dtype))

    starts, ends = [0] * len(smaller), [part[d] for d in smaller]
    reduction = node.attribute("reduction", None)
    attributes = {"axis": axis} if reduction is None else {"axis": axis, "reduction": reduction}
    changed = Info(tuple(part), info.dtype)
    result = nodes.add(node.op_type, cut(starts, ends), *node.inputs[1:], info=changed, **attributes)
    for position, d in enumerate(smaller):
        starts[position], ends[position] = part[d], info.shape[d]
        beyond, starts[position] = cut(starts, ends), 0
        part[d] = info.shape[d]
        result = nodes.add("Concat", result, beyond, info=Info(tuple(part), info.dtype), axis=d)
    return nodes.done()
