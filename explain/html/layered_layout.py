"""Layers of a graph for drawing it: a node is behind all its predecessors, and lines between layers rarely cross.

Sugiyama, Tagawa and Toda, IEEE Trans. SMC 11, 1981: layers by longest paths, then sweeps that order each layer by the
mean place of the neighbours in the one before, or behind. A node with a single successor far away moves towards it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import networkx as nx
import numpy as np

_SWEEPS = 4


def layered_layout(nodes: int, edges: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """(layer of each node, its place in the layer), both from 0 on; ``edges`` lead from producers to consumers."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(edges)
    before = {node: list(graph.predecessors(node)) for node in graph}
    behind = {node: list(graph.successors(node)) for node in graph}
    order = list(nx.lexicographical_topological_sort(graph))
    layer = dict.fromkeys(order, 0)
    for node in order:
        layer[node] = max((layer[p] + 1 for p in before[node]), default=0)
    for node in reversed(order):
        # Beside those that read it, lines are short: a source need not be in the first layer.
        if behind[node] and not before[node]:
            layer[node] = min(layer[s] for s in behind[node]) - 1
    members: dict[int, list[int]] = defaultdict(list)
    for node in order:
        members[layer[node]].append(node)
    place = {node: i for row in members.values() for i, node in enumerate(row)}
    for sweep in range(_SWEEPS):
        neighbours = behind if sweep % 2 else before
        for level in sorted(members, reverse=bool(sweep % 2)):
            _reorder(members[level], neighbours, place)
    return np.array([layer[n] for n in range(nodes)]), np.array([place[n] for n in range(nodes)])


def _reorder(row: list[int], neighbours: Mapping[int, Sequence[int]], place: dict[int, int]) -> None:
    """Sort a layer by the mean place of the neighbours; who has none stays where it is."""
    mean = {n: sum(place[m] for m in neighbours[n]) / len(neighbours[n]) if neighbours[n] else place[n] for n in row}
    row.sort(key=lambda node: (mean[node], place[node]))
    place.update((node, i) for i, node in enumerate(row))
