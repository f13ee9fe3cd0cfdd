"""Resizes that TVM makes only of the dimensions behind the second: it leaves batch and channels as they are, and takes
no tensor of fewer than three dimensions.

One that interpolates in others goes along one dimension after the other, each of them the last of three:

    y = Resize(x)   becomes   x' = Reshape(Transpose(x), [1, others, size]); y = Transpose(Reshape(Resize(x')))
"""

from __future__ import annotations

from math import prod

from ..net.net import Info
from ..onnx.prepare import Network, Node
from ..onnx.replacement import Replacement


def resize_last_axes(network: Network) -> None:
    """Rewrite such nodes in place."""
    network.nodes = [new for node in network.nodes for new in _resized(node, network)]


def _resized(node: Node, network: Network) -> list[Node]:
    if node.op_type != "Resize" or node.attribute("mode", b"nearest") == b"nearest":
        return [node]
    old, new = network.infos.get(node.inputs[0]), network.infos.get(node.outputs[0])
    if old is None or new is None or (len(old.shape) > 2 and old.shape[:2] == new.shape[:2]):
        return [node]
    nodes = Replacement(network, node)
    attributes = {a.name: node.attribute(a.name) for a in node.attributes if a.name != "axes"}
    source, shape = node.inputs[0], old.shape
    for axis, size in enumerate(new.shape):
        if size == shape[axis]:
            continue
        behind = [*(d for d in range(len(shape)) if d != axis), axis]
        others = tuple(shape[d] for d in behind[:-1])
        source = nodes.add("Transpose", source, info=Info((*others, shape[axis]), old.dtype), perm=behind)
        flat = [1, prod(others), shape[axis]]
        source = nodes.add("Reshape", source, nodes.constant("flat", flat), info=Info(tuple(flat), old.dtype))
        flat[-1] = size
        sizes = nodes.constant("sizes", flat)
        source = nodes.add("Resize", source, "", "", sizes, info=Info(tuple(flat), old.dtype), **attributes)
        last = (*others, size)
        source = nodes.add("Reshape", source, nodes.constant("last", list(last)), info=Info(last, old.dtype))
        shape = (*shape[:axis], size, *shape[axis + 1 :])
        back = [behind.index(d) for d in range(len(shape))]
        source = nodes.add("Transpose", source, info=Info(shape, old.dtype), perm=back)
    return nodes.done()
