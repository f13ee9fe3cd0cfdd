"""The operators of a graph as a networkx graph: for orders, ancestors and reachability that are not hot."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from ..graph import Graph


def operator_graph(graph: Graph) -> nx.DiGraph[str]:
    """An edge from each operator to each reader of its results, by name; nodes are in the order of the operators.

    Use it as ``graph.analysis(operator_graph)``, and do not change it.
    """
    edges: nx.DiGraph[str] = nx.DiGraph()
    edges.add_nodes_from(op.name for op in graph.ops)
    edges.add_edges_from(
        (graph.producer[n].name, op.name) for op in graph.ops for n in op.inputs if n in graph.producer
    )
    return edges


def ancestors(graph: Graph, root: str, among: Iterable[str]) -> frozenset[str]:
    """The operators ``among`` these that ``root`` needs, directly or through others of them."""
    return frozenset(nx.ancestors(graph.analysis(operator_graph).subgraph([*among, root]), root))
