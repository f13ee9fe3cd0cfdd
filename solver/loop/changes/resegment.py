"""Other cuts for the segments of a plan, which only a plan can tell to be worth it.

Cut like those that read their results, where a result passed through main memory for want of that:

    a1 a2 a3 a4  b1 b2        b1 needs a part of each a: all of a's result has to wait for b

    a1 a2 b1  a3 a4 b2        a cut first like b, then on: half of it has to wait, and shared memory has room for that

Segmentation prices segments by themselves and cannot know. And into fewer instances: a price assumes that what an
instance loads and stores overlaps with other instances alone, while tiles of a larger one may overlap among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ir.box import Box, hull, part
from ....ir.graph import Graph
from ....ir.plan import Plan, Segment, Split
from ....ir.semantics.cell import Cells, count
from ...segmentation.batched_cells import MOST_SPLITS
from ...segmentation.candidates import Candidates
from ...segmentation.splits import MOST_INSTANCES, SegmentSplit, core_splits, instance_splits

HALO = 8
"""Positions more than its share that a part may read and still be said to be cut like that. Chosen, not measured."""


def aligned(graph: Graph, cells: Cells, candidates: Candidates, plan: Plan) -> tuple[Segment, ...]:
    """The segments of ``plan`` without tiles; those of which a reader needed everything at once are cut like it."""
    spilled = {b.tensor for b in plan.shared if b.store} - graph.output_tensors
    segments = list(bare(graph, plan.segments))
    place = {op.name: number for number, op in enumerate(graph.ops)}
    segment_of = {name: number for number, s in enumerate(segments) for name in s.ops}
    # From the last to the first: a reader may be cut anew itself.
    for number, segment in reversed(list(enumerate(segments))):
        root = graph.op[segment.ops[-1]]
        readers = [segment_of[c.name] for c in graph.consumers[root.output]]
        if root.host is None and root.output in spilled and readers:
            like = _like(graph, cells, root.output, segment, segments[min(readers)])
            cut = _cheapest(graph, candidates, segment, place, like) if like else None
            if cut is not None:
                segments[number] = replace(segment, instances=cut.instances, cores=cut.cores)
    return tuple(segments)


def longest_first(plan: Plan) -> list[int]:
    """The indices of a plan's segments, that with the most predicted cycles first."""
    cycles = [0] * len(plan.segments)
    for p in plan.predictions:
        cycles[plan.steps[p.step].segment] += p.stop - p.start
    return sorted(range(len(cycles)), key=lambda s: (-cycles[s], s))


def bare(graph: Graph, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """The segments without tiles, with their operators in the order of the graph."""
    place = {op.name: number for number, op in enumerate(graph.ops)}
    return tuple(replace(s.bare, ops=tuple(sorted(s.ops, key=place.__getitem__))) for s in segments)


def coarser(graph: Graph, candidates: Candidates, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """The segments (in the order of the graph) with the cheapest of their cuts into fewer instances, if any fits."""
    place = {op.name: number for number, op in enumerate(graph.ops)}
    coarse: list[Segment] = []
    for segment in segments:
        most = count(segment.instances)
        cut: SegmentSplit | None = None
        if most > 1:
            shape = graph.tensor[graph.op[segment.ops[-1]].output].shape
            thirds = "thirds" not in candidates.disabled
            fewer = instance_splits(shape, most - 1, most - 1, thirds=thirds)
            choices = tuple(split for i in fewer if (split := SegmentSplit(i, segment.cores)).fits(shape))
            column = candidates.cheapest(place[segment.ops[0]], place[segment.ops[-1]], choices)
            cut = column.split if column is not None else None
        coarse.append(segment if cut is None else replace(segment, instances=cut.instances))
    return tuple(coarse)


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
    # A reader that turns dimensions, or reads more than its share, has other parts.
    same = all(abs(first[s.dim].size - part(shape[s.dim], s.parts, 0).size) <= HALO for s in like)
    return like if len(dims) == len(splits) and same and segment.instances[: len(like)] != like else ()


def _cheapest(
    graph: Graph, candidates: Candidates, segment: Segment, place: dict[str, int], like: tuple[Split, ...]
) -> SegmentSplit | None:
    """The cheapest way to cut a segment first like its reader, then on."""
    shape = graph.tensor[graph.op[segment.ops[-1]].output].shape
    splits: list[SegmentSplit] = []
    thirds = "thirds" not in candidates.disabled
    for cores in core_splits(shape, candidates.machine.cores):
        for more in instance_splits(shape, MOST_INSTANCES // count(like), 1, thirds=thirds):
            split = SegmentSplit((*like, *more), cores)
            if len(split.instances) <= MOST_SPLITS and split.fits(shape):
                splits.append(split)
    column = candidates.cheapest(place[segment.ops[0]], place[segment.ops[-1]], tuple(splits))
    return column.split if column is not None else None
