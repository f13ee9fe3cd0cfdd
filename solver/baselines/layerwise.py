"""Segments of one operator each: what a compiler without a schedule of the whole would do.

Each operator is cut on its own, for the least cycles with all its activations read from and written to main memory.
"""

from __future__ import annotations

from math import prod

from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment
from ..cost.operator import Rates
from ..segmentation.candidates import Candidates
from ..segmentation.column_cost import Column
from ..segmentation.solve import segments_of
from ..segmentation.splits import single_elements
from ..switches import Disabled

MOST_SINGLE_ELEMENTS = 4096
"""Elements that a result may have to be made one by one. Chosen, not measured."""


def layerwise_segments(
    graph: Graph, machine: Machine, *, margin: int = 0, shared_margin: int = 0
) -> tuple[Segment, ...]:
    """One segment for each operator, cut as suits it best.

    ``margin`` and ``shared_margin``: bytes of local and of shared memory to leave free; small operators that cannot are
    cut into single elements. Raises :class:`~girih.ir.errors.InfeasibleError` if an operator fits under no cut.
    """
    # All that crosses main memory is counted here, outputs among it.
    disabled: Disabled = frozenset(("output-stores",))
    candidates = Candidates(graph, machine, longest=1, margin=margin, shared_margin=shared_margin, disabled=disabled)
    rate = Rates.from_machine(machine).slowest_home

    def time(column: Column) -> float:
        activations = column.instances * sum(moved for *_, moved in column.footprints)
        moved = column.weight_bytes + column.refetched_bytes + activations
        return column.cycles + moved / rate

    segments: list[Segment] = []
    for last, op in enumerate(graph.ops):
        try:
            options = sorted(candidates.ending(last), key=time)
        except InfeasibleError:
            shape = graph.tensor[op.output].shape
            if not (margin or shared_margin) or prod(shape) > MOST_SINGLE_ELEMENTS:
                raise
            single = single_elements(shape)
            segments.append(Segment((op.name,), single.instances, single.cores, ()))
            continue
        fitting = (c for c in options if candidates.exact_local_bytes(c) <= candidates.capacity)
        segments += segments_of([next(fitting, options[0])], graph)
    return tuple(segments)
