"""The graph as it suits a machine: what is rewritten before anything is planned, and computes the same function.

``divide`` makes two products part after part where their inner result has no room; ``reduction_innermost`` lays out
weights for long bursts.
"""

from __future__ import annotations

from ...ir.graph import Graph
from ...ir.machine import Machine
from .divide import divide
from .reduction_innermost import reduction_innermost


def fitted(graph: Graph, machine: Machine, *, parts: bool) -> Graph:
    """The graph for this machine; ``parts``: products may be divided, which published heuristics do not do."""
    return reduction_innermost(divide(graph, machine) if parts else graph, machine)
