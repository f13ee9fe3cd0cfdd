"""The graph as it suits a machine: what is rewritten before anything is planned, and computes the same function.

``fold_scales`` and ``normalise_later`` give work of the vector engine around products to the products themselves.
``divide`` makes two products part after part where their inner result has no room; ``reduction_innermost`` lays out
weights for long bursts. ``swap_operands`` makes weights the rows of the array where its caller says so: to know which
products gain by it takes the models of the solver.
"""

from __future__ import annotations

from ...ir.graph import Graph
from ...ir.machine import Machine
from .divide import divide
from .folded_scales import fold_scales
from .late_normalisation import normalise_later
from .partial_sums import partial_sums
from .reduction_innermost import reduction_innermost
from .swap_operands import swappable, swapped


def fitted(graph: Graph, machine: Machine, *, divides: bool) -> Graph:
    """The graph for this machine; ``divides``: pairs of products may be divided, as published heuristics do not."""
    return reduction_innermost(partial_sums(divide(graph, machine), machine) if divides else graph, machine)


__all__ = ["fitted", "fold_scales", "normalise_later", "swappable", "swapped"]
