"""In which order the instances of all segments run.

Instances of a segment are independent, so those of a later segment can begin before the last of an earlier one: a
result is then consumed while it is still on chip, at the price of switching between the weights of the segments. The
two extremes are tried and, in plans of few segments, orders between them; the prediction decides:

    segment by segment    a1 a2 a3 a4 a5 a6 a7 a8  b1 b2 b3 b4  c1 c2  d1
    depth first           a1 a2 b1 a3 a4 b2 c1  a5 a6 b3 a7 a8 b4 c2  d1
    depth first from c    a1 a2 a3 a4 b1 b2 c1  a5 a6 a7 a8 b3 b4 c2  d1

Depth first is the order of Zhao et al. (OSDI 2023, algorithm 3): of the steps whose inputs are there, the one of the
latest segment runs next. Between the extremes, steps of the later segments run depth first, and what each of them needs
of the earlier ones runs segment by segment before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from ...ir.box import Box, hull, is_empty, overlap
from ...ir.graph import Graph
from ...ir.plan import Segment, Step
from ...ir.semantics.cell import Cells, count
from ..switches import ALL_ON, Disabled

MOST_SEGMENTS = 12
"""Segments in a plan for which more than the two extremes are tried."""


def orders(
    graph: Graph, cells: Cells, segments: Sequence[Segment], disabled: Disabled = ALL_ON
) -> tuple[tuple[Step, ...], ...]:
    """The orders worth trying, each once: the extremes, and between them."""
    if "step-orders" in disabled:
        return (segment_by_segment(segments),)
    found = extremes(graph, cells, segments)
    if "mixed-orders" in disabled:
        return found
    counts = [count(s.instances) for s in segments]
    falls = [i for i in range(1, len(segments)) if counts[i] < counts[i - 1]]
    if len(segments) > MOST_SEGMENTS or len(falls) < 2:
        return found
    needs = _needs(graph, cells, segments)
    return tuple(dict.fromkeys((*found, *(_from(needs, found[-1], level) for level in falls))))


def extremes(graph: Graph, cells: Cells, segments: Sequence[Segment]) -> tuple[tuple[Step, ...], ...]:
    """Segment by segment and, if it differs, depth first."""
    return tuple(dict.fromkeys((segment_by_segment(segments), depth_first(graph, cells, segments))))


def segment_by_segment(segments: Sequence[Segment]) -> tuple[Step, ...]:
    """All instances of a segment before the next segment."""
    return tuple(Step(i, n) for i, s in enumerate(segments) for n in range(count(s.instances)))


def depth_first(graph: Graph, cells: Cells, segments: Sequence[Segment]) -> tuple[Step, ...]:
    """Of the steps whose inputs are there, always the one of the latest segment, then of the first instance."""
    needs = _needs(graph, cells, segments)
    missing = {step: len(before) for step, before in needs.items()}
    after: dict[Step, list[Step]] = {step: [] for step in needs}
    for step, before in needs.items():
        for other in before:
            after[other].append(step)
    ready = [(-step.segment, step.instance) for step, number in missing.items() if not number]
    heapify(ready)
    found: list[Step] = []
    while ready:
        segment, instance = heappop(ready)
        found.append(Step(-segment, instance))
        for step in after[found[-1]]:
            missing[step] -= 1
            if not missing[step]:
                heappush(ready, (-step.segment, step.instance))
    return tuple(found)


def _from(needs: Mapping[Step, frozenset[Step]], deep: Sequence[Step], level: int) -> tuple[Step, ...]:
    """Depth first from segment ``level`` on."""
    found: dict[Step, None] = {}
    for step in (*(s for s in deep if s.segment >= level), *deep):
        before: set[Step] = set()
        wanted = [step]
        while wanted:
            new = needs[wanted.pop()] - before - found.keys()
            before |= new
            wanted += new
        found |= dict.fromkeys((*sorted(before, key=lambda s: (s.segment, s.instance)), step))
    return tuple(found)


def _needs(graph: Graph, cells: Cells, segments: Sequence[Segment]) -> dict[Step, frozenset[Step]]:
    """The steps that write what each step reads."""
    written: dict[str, list[tuple[Step, Box | None]]] = {}
    needs: dict[Step, frozenset[Step]] = {}
    for step in segment_by_segment(segments):
        segment = segments[step.segment]
        made = {name for op in segment.ops for name in graph.op[op].outputs}
        if graph.op[segment.ops[0]].host is not None:
            reads: dict[str, Box | None] = dict.fromkeys(graph.op[segment.ops[0]].inputs)
            writes: dict[str, Box | None] = dict.fromkeys(made)
        else:
            there = cells.row(segment, step.instance)
            reads, writes = {}, {}
            for cell in there:
                for name, box in cell.tensors.items():
                    if name not in made:
                        reads[name] = hull(reads.get(name), box)
                for name, box in cell.owned.items():
                    writes[name] = hull(writes.get(name), box)
        needs[step] = frozenset(
            before
            for name, box in reads.items()
            for before, there in written.get(name, ())
            if box is None or there is None or (not is_empty(box) and overlap(box, there))
        )
        for name, box in writes.items():
            written.setdefault(name, []).append((step, box))
    return needs
