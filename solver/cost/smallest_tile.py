"""The smallest tile of an operator, and what it takes: what does not fit then fits under no tile."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.box import Box, Span, shape_of
from ...ir.graph import Graph, Op, contraction_axes
from ...ir.machine import Level, Machine
from ...ir.plan import Tile
from ...ir.semantics.region import op_boxes
from .local_buffers import round_up, scratch_bytes, weight_size


def middle_element(op: Op, graph: Graph) -> Box:
    """The element in the middle of the result: what borders cut off is least there."""
    return tuple(Span(extent // 2, extent // 2 + 1) for extent in graph.tensor[op.output].shape)


def smallest_tile(op: Op, graph: Graph, engine: str, box: Box) -> Tile:
    """One element of ``box`` of the result, and one point of the reduction if the matrix engine runs it."""
    reduce: tuple[int, ...] = ()
    if op.contraction is not None:
        axes = contraction_axes(op.stages[op.contraction]).k
        points = shape_of(op_boxes(op, graph.tensor, box).points[op.contraction])
        reduce = tuple(1 if engine == "matrix" else points[a] for a in axes)
    rank = len(box)
    return Tile(op.name, (1,) * rank, tuple(range(rank)), reduce, engine)


def idle_tile(op: Op, graph: Graph, engine: str) -> Tile:
    """The tile of an operator that no cell runs, since its readers see nothing but padding there: any is right."""
    return smallest_tile(op, graph, engine, middle_element(op, graph))


def smallest_tile_bytes(
    op: Op, graph: Graph, machine: Machine, engine: str, boxes: Sequence[Box]
) -> tuple[tuple[Level, int], ...]:
    """Bytes of each level that holds tiles, for the smallest tile in all these boxes of the result."""
    tile = smallest_tile(op, graph, engine, boxes[0])
    weights = 0
    if engine == "matrix" and op.contraction is not None:
        weights = round_up(weight_size(graph, op, tile, list(boxes)), machine.levels.weights.alignment)
    return (machine.levels.sums, scratch_bytes(graph, machine, op, tile, list(boxes)).total(1)), (
        machine.levels.weights,
        weights,
    )
