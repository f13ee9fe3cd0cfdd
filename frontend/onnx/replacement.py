"""Several nodes in the place of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx import helper

from ..net.net import Info, fresh
from .prepare import Network, Node


class Replacement:
    """``nodes`` that together compute what ``node`` does; they have its name, and its origin."""

    def __init__(self, network: Network, node: Node) -> None:
        self.network = network
        self.node = node
        self.nodes: list[Node] = []

    def constant(self, name: str, value: np.ndarray | Sequence[int]) -> str:
        """A constant of the network, called after the node; a list is one of int64."""
        array = value if isinstance(value, np.ndarray) else np.array(value, np.int64)
        return self.network.add_constant(f"{self.node.name}.{name}", array)

    def add(self, op_type: str, *inputs: str, info: Info, **attributes: object) -> str:
        """A node with one result, of ``info``; returns its name."""
        result = fresh(f"{self.node.outputs[0]}.{op_type.lower()}", self.network.infos)
        self.network.infos[result] = info
        self._append(op_type, inputs, result, attributes)
        return result

    def finish(self, op_type: str, *inputs: str, **attributes: object) -> list[Node]:
        """The last node, with the result of the one that is replaced; returns all nodes."""
        self._append(op_type, inputs, self.node.outputs[0], attributes)
        return self.nodes

    def done(self) -> list[Node]:
        """All nodes, of which the last that was added gets the result of the one that is replaced."""
        if not self.nodes:
            return self.finish("Identity", self.node.inputs[0])
        self.nodes[-1] = replace(self.nodes[-1], outputs=self.node.outputs[:1])
        return self.nodes

    def _append(self, op_type: str, inputs: tuple[str, ...], result: str, attributes: dict[str, object]) -> None:
        protos = tuple(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(Node(self.node.name, op_type, inputs, (result,), protos, origin=self.node.origin))
