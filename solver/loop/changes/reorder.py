"""Other orders for the instances of a plan, where results pass through main memory.

Segment by segment, all of a result waits in shared memory, or in main memory if it has no room there, until the next
segment begins; depth first, the weights of all segments are in use at once. Between these are orders with groups of
segments that take turns. Groups end at borders; those that spilled results of equal size cross, as in equal layers,
change together: segments on both sides of them take turns from then on, or no longer do.

    a1 a2 a3 a4 | b1 b2 b3 b4 | c1 c2        a1 b1 a2 b2 a3 b3 a4 b4 | c1 c2        a1 a2 a3 a4 | b1 b2 c1 b3 b4 c2
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from itertools import accumulate, pairwise

from ....ir.graph import Graph
from ....ir.plan import Plan, Step
from ....ir.semantics.cell import Cells
from ...subproblem.step_order import depth_first, groups_of


def spilled_borders(graph: Graph, plan: Plan) -> list[tuple[int, ...]]:
    """Borders that spilled results cross, by their bytes at one border; those first that the most bytes cross in all.

    Border *i* lies behind segment *i*. What the host reads is stored in any order.
    """
    place = {name: number for number, segment in enumerate(plan.segments) for name in segment.ops}
    crossing = [0] * len(plan.segments)
    for name in sorted({b.tensor for b in plan.shared if b.store} - graph.output_tensors):
        readers = [place[op.name] for op in graph.consumers[name]]
        if any(op.host is not None for op in graph.consumers[name]):
            continue
        for border in range(place[graph.producer[name].name], max(readers, default=0)):
            crossing[border] += graph.tensor[name].bytes
    by_size: defaultdict[int, list[int]] = defaultdict(list)
    for border, size in enumerate(crossing):
        if size:
            by_size[size].append(border)
    order = sorted(by_size, key=lambda size: (-size * len(by_size[size]), -size))
    return [tuple(by_size[size]) for size in order]


def with_borders(
    graph: Graph, cells: Cells, plan: Plan, borders: Collection[int], *, take_turns: bool
) -> tuple[Step, ...]:
    """The order of a plan that is depth first in groups, but segments on both sides of these borders take turns, or do
    not."""
    ends = [later > earlier for earlier, later in pairwise(groups_of(plan))]
    for border in borders:
        ends[border] = not take_turns
    return depth_first(graph, cells, plan.segments, (0, *accumulate(ends)))
