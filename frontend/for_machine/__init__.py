"""The graph as it suits a machine: what is rewritten before anything is planned, and computes the same function.

``divide`` makes two products part after part where their inner result has no room; ``reduction_innermost`` lays out
weights for long bursts.
"""

from __future__ import annotations

from ...ir.graph import Graph
from ...ir.machine import Machine
from .divide import divide
from .partial_sums import partial_sums
from .reduction_innermost import reduction_innermost


def fitted(graph: Graph, machine: Machine, *, divides: bool) -> Graph:
    """The graph for this machine; ``divides``: pairs of products may be divided, as published heuristics do not."""
    return reduction_innermost(partial_sums(divide(graph, machine), machine) if divides else graph, machine)
