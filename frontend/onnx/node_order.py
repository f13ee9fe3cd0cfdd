"""The order of a model's nodes, which ONNX demands and which some tools do not keep.

ONNX Runtime's converter to float16 appends its casts to the list of nodes, and runs the result: it sorts nodes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import networkx as nx
import onnx

from .local_functions import nodes_in


def in_order(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with each node, and each in the body of a function, after those whose results it reads.

    It is the same model if they are so already; else a copy, in which nodes that need not wait for others keep their
    order. Nodes of a cycle stay beside each other, so that one of them reads what a later one of the cycle makes.
    """
    if all(map(_is_in_order, _lists(model))):
        return model
    ordered = onnx.ModelProto()
    ordered.CopyFrom(model)
    for part in (ordered.graph, *ordered.functions):
        if not _is_in_order(part.node):
            nodes = [part.node[number] for number in _order(part.node)]
            copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
            del part.node[:]
            part.node.extend(copies)
    return ordered


def _lists(model: onnx.ModelProto) -> Iterator[Sequence[onnx.NodeProto]]:
    yield model.graph.node
    for function in model.functions:
        yield function.node


def _is_in_order(nodes: Sequence[onnx.NodeProto]) -> bool:
    later = {name for node in nodes for name in node.output if name}
    for node in nodes:
        if not later.isdisjoint(_read(node)):
            return False
        later.difference_update(node.output)
    return True


def _read(node: onnx.NodeProto) -> Iterable[str]:
    """The values that a node and the bodies of its control flow read, and in these bodies make."""
    return (name for part in nodes_in([node]) for name in part.input if name)


def _order(nodes: Sequence[onnx.NodeProto]) -> Iterator[int]:
    makers: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in node.output:
            if name:
                makers.setdefault(name, number)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(nodes)))
    graph.add_edges_from((makers[name], n) for n, node in enumerate(nodes) for name in _read(node) if name in makers)
    cycles = nx.condensation(graph)
    members: dict[int, list[int]] = {component: sorted(data["members"]) for component, data in cycles.nodes.items()}
    for component in nx.lexicographical_topological_sort(cycles, key=lambda c: members[c][0]):
        yield from members[component]
