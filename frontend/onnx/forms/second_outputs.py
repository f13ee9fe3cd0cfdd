"""Second outputs that TVM's importer lacks: the mask of a Dropout, the indices of a MaxPool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....ir.errors import UnsupportedError
from ..prepare import Network, Node


def kept(node: Node, network: Network) -> list[Node]:
    """A Dropout outside of training: its input, and a mask that is true everywhere.

    Before operator set 12 it is not defined what the mask is: raises :class:`UnsupportedError` if it is read.
    """
    mask = node.outputs[1] if len(node.outputs) > 1 else ""
    info = network.infos.get(node.inputs[0])
    if not mask or info is None:
        return [node]
    if network.opset >= 12:
        network.constants[mask] = np.ones(info.shape, bool)
    elif is_read(mask, network):
        raise UnsupportedError(
            f"node {node.name!r}: Dropout: its mask {mask!r} is not defined before operator set 12; export the model "
            "with this, or leave the mask out"
        )
    return [replace(node, op_type="Identity", inputs=node.inputs[:1], outputs=node.outputs[:1], attributes=())]


def without_indices(node: Node, network: Network) -> list[Node]:
    """A MaxPool without its indices; raises :class:`UnsupportedError` if they are read."""
    indices = node.outputs[1] if len(node.outputs) > 1 else ""
    if indices and is_read(indices, network):
        raise UnsupportedError(
            f"node {node.name!r}: MaxPool: its second output {indices!r}, the indices of maxima, is not supported; "
            "compile a model that does not read it"
        )
    return [replace(node, outputs=node.outputs[:1])]


def is_read(value: str, network: Network) -> bool:
    """Whether a value is an output of the network, or an input of a node."""
    return value in network.outputs or any(value in node.inputs for node in network.nodes)
