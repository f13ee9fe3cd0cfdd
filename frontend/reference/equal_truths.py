"""Equality of truth values, which TVM compiles to a comparison of floats that LLVM rejects.

y = Equal(a, b)  of bool      becomes      y = Not(Xor(a, b))
"""

from __future__ import annotations

from dataclasses import replace

from ..net.net import Info
from ..onnx.inline import Node
from ..onnx.prepare import Network


def equal_truths_to_logic(network: Network) -> None:
    """Rewrite every Equal of bool in place."""
    network.nodes = [part for node in network.nodes for part in _parts(node, network)]


def _parts(node: Node, network: Network) -> list[Node]:
    if node.domain or node.op_type != "Equal" or _dtype(node.inputs[0], network) != "bool":
        return [node]
    differ = f"{node.outputs[0]}/differ"
    if node.outputs[0] in network.infos:
        network.infos[differ] = Info(network.infos[node.outputs[0]].shape, "bool")
    return [
        replace(node, op_type="Xor", outputs=(differ,)),
        replace(node, op_type="Not", inputs=(differ,)),
    ]


def _dtype(name: str, network: Network) -> str:
    if name in network.constants:
        return network.constants[name].dtype.name
    return network.infos[name].dtype if name in network.infos else ""
