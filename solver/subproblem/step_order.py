"""In which order the instances of all segments run.

Instances of a segment are independent, so those of a later segment can begin before the last of an earlier one: a
result is then consumed while it is still on chip, at the price of switching between the weights of the segments. The
two extremes are tried for each segmentation, and the prediction decides; where segmentation has groups of segments, and
of the best plan, also orders between them (:mod:`..loop.changes.reorder`), where segments are depth first in groups:

    segment by segment    a1 a2 a3 a4 a5 a6 a7 a8  b1 b2 b3 b4  c1 c2  d1
    b and c in a group    a1 a2 a3 a4 a5 a6 a7 a8  b1 b2 c1 b3 b4 c2  d1
    depth first           a1 a2 b1 a3 a4 b2 c1  a5 a6 b3 a7 a8 b4 c2  d1

Depth first is the order of Zhao et al. (OSDI 2023, algorithm 3): of the steps whose inputs are there, the one of the
latest segment runs next.
"""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from ...ir.box import Box, hull, is_empty
from ...ir.graph import Graph
from ...ir.plan import Plan, Segment, Step
from ...ir.semantics.cell import Cells, count
from ..switches import ALL_ON, Disabled


def orders(
    graph: Graph, cells: Cells, segments: Sequence[Segment], disabled: Disabled = ALL_ON, groups: Sequence[int] = ()
) -> tuple[tuple[Step, ...], ...]:
    """The orders worth trying, each once: segment by segment, or ``groups`` of them depth first one after the other;
    and, if it differs, all depth first."""
    first = depth_first(graph, cells, segments, groups) if groups else segment_by_segment(segments)
    if "step-orders" in disabled:
        return (first,)
    return tuple(dict.fromkeys((first, depth_first(graph, cells, segments))))


def order_like(graph: Graph, cells: Cells, plan: Plan, segments: Sequence[Segment]) -> tuple[Step, ...] | None:
    """An order for as many other ``segments`` of the kind that ``plan`` has: segment by segment, depth first, or depth
    first in the same groups; ``None`` if its order is of no kind, or of the first two at once."""
    by_segment = plan.steps == segment_by_segment(plan.segments)
    by_depth = plan.steps == depth_first(graph, cells, plan.segments)
    if by_segment and by_depth:
        return None
    if by_segment or by_depth:
        return segment_by_segment(segments) if by_segment else depth_first(graph, cells, segments)
    groups = groups_of(plan)
    if plan.steps != depth_first(graph, cells, plan.segments, groups):
        return None
    return depth_first(graph, cells, segments, groups)


def groups_of(plan: Plan) -> tuple[int, ...]:
    """For each segment of a plan, the number of the group of segments whose instances take turns with its own."""
    first, last = [0] * len(plan.segments), [0] * len(plan.segments)
    for place, step in reversed(list(enumerate(plan.steps))):
        first[step.segment] = place
        last[step.segment] = max(last[step.segment], place)
    groups: list[int] = []
    group, latest = -1, -1
    for begin, end in zip(first, last, strict=True):
        group += begin > latest
        latest = max(latest, end)
        groups.append(group)
    return tuple(groups)


def segment_by_segment(segments: Sequence[Segment]) -> tuple[Step, ...]:
    """All instances of a segment before the next segment."""
    return tuple(Step(i, n) for i, s in enumerate(segments) for n in range(count(s.instances)))


def depth_first(
    graph: Graph, cells: Cells, segments: Sequence[Segment], groups: Sequence[int] = ()
) -> tuple[Step, ...]:
    """Of the steps whose inputs are there, always the one of the latest segment, then of the first instance.

    ``groups``: that in one group of segments after the other; the number of its group for each segment, which never
    falls from one to the next.
    """
    dependences = _dependences(graph, cells, segments)

    def rank(step: Step) -> tuple[int, int, int]:
        return groups[step.segment] if groups else 0, -step.segment, step.instance

    return tuple(nx.lexicographical_topological_sort(dependences, key=rank))


def _dependences(graph: Graph, cells: Cells, segments: Sequence[Segment]) -> nx.DiGraph[Step]:
    """An edge from each step that writes what another one reads to that one."""
    written: dict[str, Writes] = {}
    dependences: nx.DiGraph[Step] = nx.DiGraph()
    for step in segment_by_segment(segments):
        dependences.add_node(step)
        reads, writes = _accesses(graph, cells, segments[step.segment], step.instance)
        for name, box in reads.items():
            if name in written:
                dependences.add_edges_from((writer, step) for writer in written[name].met(box))
        for name, box in writes.items():
            written.setdefault(name, Writes()).add(step, box)
    return dependences


class Writes:
    """The steps that write a tensor: all of it, or each of them a box."""

    def __init__(self) -> None:
        self._whole: list[Step] = []
        self._steps: list[Step] = []
        self._boxes: list[Box] = []
        self._spans: NDArray[np.int64] | None = None
        """By step and dimension of its box: begin and end."""

    def add(self, step: Step, box: Box | None) -> None:
        """``box``: what the step writes; ``None``: all of the tensor."""
        if box is None:
            self._whole.append(step)
        else:
            self._steps.append(step)
            self._boxes.append(box)
            self._spans = None

    def met(self, box: Box | None) -> list[Step]:
        """The steps that write some of a box, or of all of the tensor."""
        if box is None:
            return [*self._whole, *self._steps]
        if is_empty(box) or not self._boxes:
            return list(self._whole)
        if self._spans is None:
            self._spans = np.array(self._boxes, dtype=np.int64).reshape(len(self._boxes), len(box), 2)
        low, high = np.array(box, dtype=np.int64).reshape(len(box), 2).T
        begin, end = self._spans[:, :, 0], self._spans[:, :, 1]
        meets = ((begin < high) & (low < end) & (begin < end)).all(axis=1)
        return [*self._whole, *(self._steps[i] for i in np.flatnonzero(meets).tolist())]


def _accesses(
    graph: Graph, cells: Cells, segment: Segment, instance: int
) -> tuple[dict[str, Box | None], dict[str, Box | None]]:
    """By tensor, the boxes that an instance of a segment reads and writes; ``None``: all of the tensor."""
    results = {name for op in segment.ops for name in graph.op[op].outputs}
    first = graph.op[segment.ops[0]]
    if first.host is not None:
        return dict.fromkeys(first.inputs), dict.fromkeys(first.outputs)
    reads: dict[str, Box | None] = {}
    writes: dict[str, Box | None] = {}
    for cell in cells.row(segment, instance):
        for name, box in cell.tensors.items():
            if name not in results:
                reads[name] = hull(reads.get(name), box)
        for name, box in cell.owned.items():
            writes[name] = hull(writes.get(name), box)
    return reads, writes
