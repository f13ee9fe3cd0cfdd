"""Segments of one operator each: what a compiler without a schedule of the whole would do.

Each operator is cut on its own, for the least cycles with all its activations read from and written to main memory.
"""

from __future__ import annotations

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment
from ..cost.operator import Rates
from ..segmentation.candidates import Candidates
from ..segmentation.column_cost import Column
from ..segmentation.solve import segments_of


def layerwise_segments(graph: Graph, machine: Machine, *, margin: int = 0) -> tuple[Segment, ...]:
    """One segment for each operator, cut as suits it best.

    Raises :class:`~girih.ir.errors.InfeasibleError` if an operator fits under no cut.
    """
    candidates = Candidates(graph, machine, longest=1, margin=margin)
    rate = Rates.of(machine).main

    def time(column: Column) -> float:
        moved = (
            column.weight_bytes + column.refetched_bytes + column.instances * sum(size for _, size in column.footprints)
        )
        return column.cycles + moved / rate

    chosen: list[Column] = []
    for last in range(len(graph.ops)):
        options = sorted(candidates.ending(last), key=time)
        chosen.append(next((c for c in options if candidates.exact_local_bytes(c) <= candidates.capacity), options[0]))
    return segments_of(chosen, graph)
