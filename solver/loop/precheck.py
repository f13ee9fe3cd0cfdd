"""Machines that are too small for one element of an operator, found before any model is asked.

Whatever the tiles, some tile holds the middle element of a result, and its buffers are at least those of that element
alone, with one point of its reduction at a time. Of these, what is live at one stage is at different addresses, however
rooms are shared. So what does not fit here fits nowhere.
"""

from __future__ import annotations

from ...ir.box import Span
from ...ir.equivalence import EquivalenceClasses
from ...ir.graph import Graph, Op
from ...ir.machine import Machine
from ...ir.plan import Tile
from ..cost.local_buffers import round_up, scratch_sizes, weight_size
from ..cost.operator import contraction_engine
from ..cost.scratch import scratch_lower_bound
from ..tiling.solve import TileOverflow


def check_smallest(graph: Graph, machine: Machine) -> None:
    """Raise :class:`InfeasibleError` for the first operator of which not even one element fits in a core's memory."""
    for op in graph.analysis(EquivalenceClasses).representatives:
        infeasibility = _without_tile(op, graph, machine) if op.host is None else None
        if infeasibility is not None:
            raise infeasibility.error()


def _without_tile(op: Op, graph: Graph, machine: Machine) -> TileOverflow | None:
    shape = graph.tensor[op.output].shape
    engine = contraction_engine(op, graph, machine)
    axes = op.stages[op.contraction].axes if op.contraction is not None else ()
    smallest = Tile(op.name, (1,) * len(shape), tuple(range(len(shape))), tuple(1 for a in axes if a.reduce), engine)
    middle = [tuple(Span(extent // 2, extent // 2 + 1) for extent in shape)]
    memory = machine.role("accumulator")
    need = scratch_lower_bound(op, engine, scratch_sizes(graph, op, smallest, middle), memory.alignment)
    if need > memory.capacity:
        levers = ("split the operator's inner loop in the model", f"use a machine with more {memory.name}")
        return TileOverflow(op.name, memory.name, need, memory.capacity, levers)
    memory = machine.role("weights")
    need = round_up(weight_size(graph, op, smallest, middle), memory.alignment) if engine == "matrix" else 0
    if need > memory.capacity:
        return TileOverflow(op.name, memory.name, need, memory.capacity, (f"use a machine with more {memory.name}",))
    return None
