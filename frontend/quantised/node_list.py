"""A network's nodes while they are written anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from ..net.net import Info, fresh
from ..onnx.inline import Node
from ..onnx.prepare import Network


@dataclass
class NodeList:
    """New nodes, in their order; their results are values of the network."""

    network: Network
    nodes: list[Node] = field(default_factory=list[Node])

    def append(self, node: Node) -> None:
        """Put a node behind those that there are."""
        self.nodes.append(node)

    def value(self, name: str, info: Info) -> str:
        """A new value, of this name or one with a number."""
        result = fresh(name, self.network.infos)
        self.network.infos[result] = info
        return result

    def constant(self, node: Node, name: str, array: np.ndarray) -> str:
        """A constant that belongs to a node."""
        return self.network.add_constant(f"{node.outputs[0]}.{name}", array)

    def add(self, op_type: str, name: str, node: Node, inputs: Sequence[str], info: Info, **attributes: object) -> str:
        """A node of ONNX that belongs to another one; its result, of ``info``."""
        result = self.value(f"{node.outputs[0]}.{name}", info)
        values = tuple(onnx.helper.make_attribute(key, value) for key, value in attributes.items())
        self.append(Node(f"{node.name}.{name}", op_type, tuple(inputs), (result,), values, origin=node.origin))
        return result

    def needed(self) -> list[Node]:
        """The nodes whose results somebody reads."""
        used = set(self.network.outputs)
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if used.intersection(node.outputs):
                kept.append(node)
                used.update(node.inputs)
        return kept[::-1]
