"""Segments cut like those that read their results, where a result passed through main memory for want of that.

    a1 a2 a3 a4  b1 b2        b1 needs a part of each a: all of a's result has to wait for b

    a1 a2 b1  a3 a4 b2        a cut first like b, then on: half of it has to wait, and shared memory has room for that

Segmentation prices segments by themselves and cannot know; a plan shows where it happens.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.box import Box, hull
from ..ir.cell import Cells, count
from ..ir.graph import Graph
from ..ir.plan import Plan, Segment, Split
from .candidates import Candidates
from .splits import MOST_INSTANCES, Cut, core_splits, instance_splits


def aligned(graph: Graph, cells: Cells, candidates: Candidates, plan: Plan) -> tuple[Segment, ...]:
    """The segments of ``plan`` without tiles; those of which a reader needed everything at once are cut like it."""
    spilled = {b.tensor for b in plan.shared if b.store} - graph.output_tensors
    place = {op.name: number for number, op in enumerate(graph.ops)}
    segments = [replace(s, ops=tuple(sorted(s.ops, key=place.__getitem__)), tiles=()) for s in plan.segments]
    of = {name: number for number, s in enumerate(segments) for name in s.ops}
    for number, segment in enumerate(segments):
        leader = graph.op[segment.ops[-1]]
        readers = [of[c.name] for c in graph.consumers[leader.output]]
        if leader.host is None and leader.output in spilled and readers:
            like = _like(graph, cells, leader.output, segment, segments[min(readers)])
            cut = _cheapest(graph, candidates, segment, place, like) if like else None
            if cut is not None:
                segments[number] = replace(segment, instances=cut.instances, cores=cut.cores)
    return tuple(segments)


def _like(graph: Graph, cells: Cells, tensor: str, segment: Segment, reader: Segment) -> tuple[Split, ...]:
    """The instances of ``reader`` as cuts of what it reads; empty if they are no such cuts, or ``segment`` has them."""
    shape = graph.tensor[tensor].shape
    first: Box | None = None
    for core in range(count(reader.cores)):
        first = hull(first, cells.cell(reader, 0, core).tensors.get(tensor))
    if first is None or count(segment.instances) == 1:
        return ()
    dims = [d for d, (span, extent) in enumerate(zip(first, shape, strict=True)) if span.size < extent]
    splits = sorted(reader.instances, key=lambda s: s.dim)
    like = tuple(Split(d, s.parts) for d, s in zip(dims, splits, strict=False))
    return like if len(dims) == len(splits) and segment.instances[: len(like)] != like else ()


def _cheapest(
    graph: Graph, candidates: Candidates, segment: Segment, place: dict[str, int], like: tuple[Split, ...]
) -> Cut | None:
    """The cheapest way to cut a segment first like its reader, then on."""
    shape = graph.tensor[graph.op[segment.ops[-1]].output].shape
    ways: list[Cut] = []
    for cores in core_splits(shape, candidates.machine.cores):
        for more in instance_splits(shape, MOST_INSTANCES // count(like), 1):
            parts = [1] * len(shape)
            for split in (*like, *more, *cores):
                parts[split.dim] *= split.parts
            if all(p <= extent for p, extent in zip(parts, shape, strict=True)):
                ways.append(Cut((*like, *more), cores))
    found = candidates.cheapest(place[segment.ops[0]], place[segment.ops[-1]], tuple(ways))
    return found.cut if found is not None else None
