"""Resize between aligned corners to a single element, which TVM divides by zero for.

Its one result is the first input along that dimension, and so is the first of two results.
"""

from __future__ import annotations

from ..net.net import Info
from ..onnx.prepare import Network, Node
from ..onnx.replacement import Replacement


def resize_to_two(network: Network) -> None:
    """Let, in place, each such Resize make two elements where it made one, of which a Slice takes the first."""
    network.nodes = [new for node in network.nodes for new in _resized(node, network)]


def _resized(node: Node, network: Network) -> list[Node]:
    info = network.infos.get(node.outputs[0]) if node.op_type == "Resize" else None
    if info is None or node.attribute("coordinate_transformation_mode") != b"align_corners":
        return [node]
    single = [axis for axis, size in enumerate(info.shape) if size == 1 and axis >= 2]
    if not single:
        return [node]
    nodes = Replacement(network, node)
    sizes = [2 if axis in single else size for axis, size in enumerate(info.shape)]
    attributes = {name: node.attribute(name, default) for name, default in _ATTRIBUTES.items()}
    inputs = node.inputs[0], "", "", nodes.constant("sizes", sizes)
    two = nodes.add("Resize", *inputs, info=Info(tuple(sizes), info.dtype), **attributes)
    bounds = ([0] * len(single), [1] * len(single), single)
    limits = (nodes.constant(name, values) for name, values in zip(("starts", "ends", "axes"), bounds, strict=True))
    return nodes.finish("Slice", two, *limits)


_ATTRIBUTES = {"mode": b"linear", "coordinate_transformation_mode": b"align_corners", "cubic_coeff_a": -0.75}
"""The attributes of a Resize that interpolates."""
