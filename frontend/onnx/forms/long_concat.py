"""Concatenations of many inputs: of groups of them first.

TVM makes a chain of selections of a concatenation, one in the other for each input. Reading that takes a stack as deep
as there are inputs, and time by their square.
"""

from __future__ import annotations

from ...net.net import Info
from ..prepare import Network, Node
from ..replacement import Replacement

MOST_INPUTS = 64
"""Of one concatenation; more than those of published networks, which stay as they are. Chosen, not measured."""


def grouped(node: Node, network: Network) -> list[Node]:
    """The nodes for a concatenation of more than ``MOST_INPUTS`` inputs; any other itself."""
    axis = node.attribute("axis", None)
    infos = [network.infos.get(name) for name in node.inputs]
    known = [info for info in infos if info is not None]
    if len(node.inputs) <= MOST_INPUTS or not isinstance(axis, int) or len(known) < len(infos) or not known[0].shape:
        return [node]
    axis %= len(known[0].shape)
    nodes = Replacement(network, node)
    parts = list(zip(node.inputs, known, strict=True))
    while len(parts) > 1:
        groups = [parts[i : i + MOST_INPUTS] for i in range(0, len(parts), MOST_INPUTS)]
        parts = [group[0] if len(group) == 1 else _joined(nodes, group, axis) for group in groups]
    return nodes.done()


def _joined(nodes: Replacement, group: list[tuple[str, Info]], axis: int) -> tuple[str, Info]:
    shape = list(group[0][1].shape)
    shape[axis] = sum(info.shape[axis] for _, info in group)
    info = Info(tuple(shape), group[0][1].dtype)
    return nodes.add("Concat", *(name for name, _ in group), info=info, axis=axis), info
