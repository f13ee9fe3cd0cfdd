"""Further versions of weights, where weight memory has room for them beside those of neighbouring operators.

The pipeline model looks at one operator on one core, in which further versions often gain nothing. In the program, all
cores wait for the last one that is to receive a broadcast, and copies queue behind others: what is loaded earlier is
there in spite of that. Whether the plan gains, the prediction says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import LocalBuffer, Plan, WeightStream
from ...ir.semantics.cell import Cells
from ..cost.tile_walk import TileWalks
from ..tiling.problem import WEIGHT_DEPTHS
from .separation_problem import SeparationProblem, separation_problem


def with_deeper_weights(graph: Graph, cells: Cells, machine: Machine, walks: TileWalks, plan: Plan) -> Plan:
    """``plan`` with more versions of weights; those that neighbouring operators share bytes with may be others."""
    use = machine.levels.weights.use
    numbers = [i for i, b in enumerate(plan.local) if b.use == use and b.bytes]
    if not numbers:
        return plan
    buffers = [plan.local[i] for i in numbers]
    problem, _ = separation_problem(graph, machine, plan, buffers)
    depths = fitting_depths(problem, [_useful(graph, cells, walks, plan, b) for b in buffers])
    return _with_depths(plan, machine, {(b.segment, b.op): d for b, d in zip(buffers, depths, strict=True)})


def fitting_depths(problem: SeparationProblem, useful: Sequence[int]) -> list[int]:
    """The versions of each buffer, one more at a time in turn: at most so many as are ``useful``, and while it fits
    beside each one that it meets."""
    sizes, depths = list(problem.sizes), list(problem.depths)
    met = [
        list(dict.fromkeys(other for m in meetings for other in (m.earlier, m.later) if other != i))
        for i, meetings in enumerate(problem.meetings_by_buffer)
    ]
    for _ in range(max(WEIGHT_DEPTHS)):
        for i, most in enumerate(useful):
            larger = sizes[i] + problem.sizes[i] // problem.depths[i]
            if depths[i] < most and larger + max((sizes[other] for other in met[i]), default=0) <= problem.capacity:
                sizes[i], depths[i] = larger, depths[i] + 1
    return depths


def _useful(graph: Graph, cells: Cells, walks: TileWalks, plan: Plan, buffer: LocalBuffer) -> int:
    """How many versions an operator can have something in: as many as it has weight tiles, up to what is allowed."""
    segment = plan.segments[buffer.segment]
    cell = cells.busiest(segment, 0)
    if buffer.op not in cell.ops:
        return buffer.depth
    walk = walks.walk(graph.op[buffer.op], segment.tile[buffer.op], cell)
    return min(max(WEIGHT_DEPTHS), len({tile for tiles in walk.weights for tile in tiles}))


def _with_depths(plan: Plan, machine: Machine, depths: Mapping[tuple[int, str], int]) -> Plan:
    """The plan with so many versions; buffers that would end beyond the memory lie at its end."""
    level = machine.levels.weights
    end = level.base + level.capacity // level.alignment * level.alignment
    segments = tuple(
        replace(s, tiles=tuple(replace(t, weight_depth=depths.get((i, t.op), t.weight_depth)) for t in s.tiles))
        for i, s in enumerate(plan.segments)
    )
    local: list[LocalBuffer] = []
    for b in plan.local:
        depth = depths.get((b.segment, b.op), b.depth) if b.use == level.use else b.depth
        size = b.bytes // b.depth * depth
        local.append(
            replace(b, address=min(b.address, end - size) if depth > b.depth else b.address, bytes=size, depth=depth)
        )
    streams = tuple(_with_versions(s, depths.get((s.segment, s.op), 0)) for s in plan.weight_streams)
    return replace(plan, segments=segments, local=tuple(local), weight_streams=streams)


def _with_versions(stream: WeightStream, depth: int) -> WeightStream:
    """With so many versions, if these are more; where tiles for all versions are prefetched, for the new ones, too."""
    if depth <= len(stream.versions):
        return stream
    prefetch = depth if stream.prefetch == len(stream.versions) else stream.prefetch
    return replace(stream, versions=tuple(range(depth)), prefetch=prefetch)
