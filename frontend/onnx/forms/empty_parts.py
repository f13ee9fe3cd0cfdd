"""Parts without elements: a Split leaves them out, and so does a Concat.

The body that ONNX gives a RotaryEmbedding splits off what is not rotated, which mostly is nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import helper

from ....ir.errors import UnsupportedError
from ..prepare import Network, Node
from ..replacement import Replacement
from .long_concat import grouped


def divided(node: Node, network: Network) -> list[Node]:
    """A Split into the parts that have elements; the others become constants. Without such parts the node itself.

    Raises :class:`UnsupportedError` if a part without elements is an output of the network.
    """
    infos = [network.infos.get(name) for name in node.outputs]
    full = [(name, info) for name, info in zip(node.outputs, infos, strict=True) if info is not None and info.elements]
    if None in infos or len(full) in (0, len(infos)):
        return [node]
    for name, info in zip(node.outputs, infos, strict=True):
        if info is not None and not info.elements:
            if name in network.outputs:
                raise UnsupportedError(f"node {node.name!r}: Split of tensors without elements is not supported")
            network.constants[name] = np.zeros(info.shape, info.dtype)
    if len(full) == 1:
        return [replace(node, op_type="Identity", inputs=node.inputs[:1], outputs=(full[0][0],), attributes=())]
    axis = int(node.attribute("axis", 0))  # type: ignore[arg-type]
    sizes = [info.shape[axis] for _, info in full]
    kept = tuple(a for a in node.attributes if a.name == "axis")
    outputs = tuple(name for name, _ in full)
    if network.opset < 13:
        return [replace(node, outputs=outputs, attributes=(*kept, helper.make_attribute("split", sizes)))]
    inputs = node.inputs[0], Replacement(network, node).constant("sizes", sizes)
    return [replace(node, inputs=inputs, outputs=outputs, attributes=kept)]


def joined(node: Node, network: Network) -> list[Node]:
    """The nodes for a Concat, which leaves out inputs without elements."""
    full = tuple(i for i in node.inputs if i not in network.infos or network.infos[i].elements)
    if len(full) == 1 < len(node.inputs):
        return [replace(node, op_type="Identity", inputs=full, attributes=())]
    return grouped(replace(node, inputs=full) if full else node, network)
