"""Which tensors of a segment are made where their concatenation lies, so that nothing is left to copy.

A concatenation copies each of its inputs, as a whole, to a place of its own in the result. What the segment itself
makes can be written there at once: the tensor then has no buffer of its own, but lies *inside* that of the result, in
rows as long as the result's, and the stage that would copy it has nothing to do. The result can lie inside another one
in turn: all layers of a dense block are written into one buffer.

What a segment loads keeps its own buffer and is copied. The common buffer has room for the largest of its parts, halos
included, and lives as long as any of them: it is a decision (:attr:`girih.ir.plan.Segment.inside`) which tensors lie in
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..box import Affine, Box, Span, hull
from ..graph import Access, Graph, Op, Stage, Tensor
from ..plan import Segment


@dataclass(frozen=True)
class Inside:
    """A tensor is part of the tensor ``whole``, in which its first element has the index ``corner``."""

    whole: str
    corner: tuple[int, ...]


def pieces(op: Op, tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """The inputs of a concatenation, each with the index in the result to which its first element goes.

    Empty for any other operator. An input that is copied twice, or in part, or converted, is none of them.
    """
    moves = op.host is None and not op.buffers and len(op.stages) > 1
    if not moves or any(s.func != "copy" or s.combine is not None for s in op.stages):
        return {}
    found: dict[str, tuple[int, ...]] = {}
    read = [r.tensor for s in op.stages for r in s.reads]
    for stage in op.stages:
        for source in stage.reads:
            corner = _corner(stage, source, tensors[source.tensor])
            same = tensors[source.tensor].dtype == tensors[op.output].dtype
            if corner is not None and same and read.count(source.tensor) == 1:
                found[source.tensor] = corner
    return found


def _corner(stage: Stage, source: Access, tensor: Tensor) -> tuple[int, ...] | None:
    """Where the stage puts the first element, if it copies all of ``tensor`` as it is."""
    if source.fill is not None or len(stage.write.index) != len(tensor.shape):
        return None
    for index, target, extent in zip(source.index, stage.write.index, tensor.shape, strict=True):
        axes = [a for a, c in enumerate(index.coeffs) if c]
        if len(axes) != 1 or index != Affine(target.coeffs) or index.coeffs[axes[0]] != 1:
            return None
        if stage.axes[axes[0]].extent != extent:
            return None
    return tuple(target.const for target in stage.write.index)


def possible(graph: Graph, ops: Sequence[Op]) -> dict[str, Inside]:
    """For a run of operators, in order: which of their results can lie inside the result of another one."""
    made = {op.output for op in ops if op.host is None}
    found: dict[str, Inside] = {}
    for op in ops:
        for name, corner in pieces(op, graph.tensor).items():
            if name in made:
                # A tensor lies in one place: where it is copied first.
                found.setdefault(name, Inside(op.output, corner))
    return found


def inside(graph: Graph, segment: Segment) -> dict[str, Inside]:
    """Which results of a segment lie inside another one."""
    if not segment.inside:
        return {}
    found = possible(graph, [graph.op[name] for name in segment.ops])
    return {name: where for name, where in found.items() if name in segment.inside}


def outermost(found: Mapping[str, Inside]) -> dict[str, Inside]:
    """The same, each tensor inside the one that has the buffer."""
    ends: dict[str, Inside] = {}
    for name, where in found.items():
        whole, corner = where.whole, where.corner
        while whole in found:
            corner = tuple(a + b for a, b in zip(corner, found[whole].corner, strict=True))
            whole = found[whole].whole
        ends[name] = Inside(whole, corner)
    return ends


def wholes(graph: Graph, segment: Segment) -> dict[str, str]:
    """For each tensor of a segment that has no buffer of its own: the one in whose buffer it lies."""
    return {name: where.whole for name, where in outermost(inside(graph, segment)).items()}


def rooms(found: Mapping[str, Inside], boxes: Mapping[str, Box]) -> dict[str, Box]:
    """Of each buffer that holds more than its own tensor's box, the extent, in the index space of each tensor in it.

    ``boxes`` are what a cell has of the tensors. So the extent of a part begins before its first element.
    """
    ends = outermost(found)
    whole: dict[str, Box | None] = {}
    for name, where in ends.items():
        if name in boxes:
            before = whole.get(where.whole, boxes.get(where.whole))
            whole[where.whole] = hull(before, _moved(boxes[name], where.corner))
    room = {name: box for name, box in whole.items() if box is not None}
    for name, where in ends.items():
        if where.whole in room:
            room[name] = _moved(room[where.whole], tuple(-c for c in where.corner))
    return room


def idle(op: Op, found: Mapping[str, Inside]) -> frozenset[int]:
    """The stages that would copy what is in its place already."""
    return frozenset(
        position
        for position, stage in enumerate(op.stages)
        for read in stage.reads
        if read.tensor in found and found[read.tensor].whole == op.output
    )


def _moved(box: Box, by: Sequence[int]) -> Box:
    return tuple(Span(span.lo + d, span.hi + d) for span, d in zip(box, by, strict=True))
