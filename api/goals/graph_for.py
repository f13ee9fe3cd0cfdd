"""The graph of a network as it is planned for: rewritten for a machine, as the options of the solver say."""

from __future__ import annotations

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...solver.options import Options
from ..held_interrupts import load_solver, whole_imports


def graph_for(graph: Graph, machine: Machine, options: Options) -> Graph:
    """An imported graph as every goal plans it; what the solver is compared with gets its products as they are."""
    with whole_imports():
        # Imported here because TVM takes seconds to load.
        from ...frontend.for_machine import fitted, fold_scales, normalise_later, swappable, swapped
        from ...solver.orientation.array_fill import worth_judging

    solves = options.strategy == "solver"
    if solves and "folded-scales" not in options.disabled:
        graph = fold_scales(graph)
    if solves and "late-normalisation" not in options.disabled:
        graph = normalise_later(graph)
    graph = fitted(graph, machine, divides=solves)
    if not solves or "swapped-operands" in options.disabled:
        return graph
    names = worth_judging(graph, swappable(graph), machine)
    if not names:
        return graph
    load_solver()
    from ...solver.orientation.better_form import better_swapped

    return swapped(graph, better_swapped(graph, swapped(graph, names), names, machine, options.timeout))
