"""A quantised network while its nodes are rewritten: what is known of its tensors, and which nodes are written anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from ..onnx.inline import Node
from ..onnx.prepare import Network
from .node_list import NodeList
from .parameters import Quantised, parameters


@dataclass(frozen=True)
class QuantisedNetwork:
    """A network whose nodes are rewritten one after the other, in their order.

    A function that rewrites a node appends what takes its place to ``nodes``, and returns whether it did.
    """

    nodes: NodeList
    writers: dict[str, Node]
    """By tensor: the node that computes it; of tensors that the rewriting adds, only those that are dequantised."""
    readers: dict[str, list[Node]]
    """By tensor: the nodes of the original network that read it, each once."""
    computed: dict[str, str] = field(default_factory=dict[str, str])
    """By result of a QuantizeLinear whose integers a node in front of it computes: the tensor that has them."""
    absorbed: set[str] = field(default_factory=set[str])
    """Results of the additions that are rewritten together with the product in front of them, as its bias."""
    copy_numbers: Iterator[int] = field(default_factory=lambda: count(1))
    """Numbers for the names of copied tensors, of which no two are equal."""

    @classmethod
    def from_network(cls, network: Network) -> QuantisedNetwork:
        """The network before the first of its nodes is rewritten."""
        writers: dict[str, Node] = {}
        readers: dict[str, list[Node]] = {}
        for node in network.nodes:
            writers |= dict.fromkeys(node.outputs, node)
            for name in dict.fromkeys(node.inputs):
                readers.setdefault(name, []).append(node)
        return cls(NodeList(network), writers, readers)

    @property
    def network(self) -> Network:
        """The network itself, to whose constants and infos the rewriting adds."""
        return self.nodes.network

    def source(self, name: str) -> Quantised | None:
        """What a tensor of real numbers is dequantised from; ``None`` if it is not, or its parameters are not known."""
        writer = self.writers.get(name)
        if writer is None or writer.op_type != "DequantizeLinear" or writer.domain:
            return None
        return parameters(self.network, writer)

    def only_reader(self, name: str) -> Node | None:
        """The one node that reads a tensor; ``None`` if there are others or none, or it is an output of the network."""
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self.network.outputs else None


def real_attribute(node: Node, name: str, default: float) -> float:
    """An attribute that is a real number, or the default if the node has none of this name."""
    value = node.attribute(name, default)
    return value if isinstance(value, float) else default
