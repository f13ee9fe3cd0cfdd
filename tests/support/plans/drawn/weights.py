"""Stationary operands of drawn plans: which there are, which are streamed, and their tiles in the order of a walk."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from girih.ir.box import Box, Span, is_empty
from girih.ir.graph import Op
from girih.ir.plan import Segment, Tile
from girih.ir.semantics.cell import Cell, tile_boxes
from girih.ir.semantics.region import accessed, op_boxes
from tests.support.plans.drawn.drawing import Drawing


def stationary(op: Op, tile: Tile) -> str | None:
    return op.stages[op.contraction].reads[1].tensor if tile.engine == "matrix" and op.contraction is not None else None


def is_streamed(drawing: Drawing, segment: Segment, name: str) -> bool:
    """Whether a constant is nothing but stationary in a segment."""
    if name not in drawing.graph.constant_names:
        return False
    for op in (drawing.graph.op[n] for n in segment.ops):
        for position, stage in enumerate(op.stages):
            for number, read in enumerate(stage.reads):
                weights = stationary(op, segment.tile[op.name]) == name and position == op.contraction and number == 1
                if read.tensor == name and not weights:
                    return False
    return True


def weight_boxes(drawing: Drawing, op: Op, tile: Tile, cell: Cell) -> list[Box]:
    """The tiles of the stationary operand in the order of the walk."""
    key = op.name, cell.ops[op.name].tensors[op.output]
    if key not in drawing.walks:
        drawing.walks[key] = list(_weight_walk(drawing, op, tile, cell))
    return drawing.walks[key]


def _weight_walk(drawing: Drawing, op: Op, tile: Tile, cell: Cell) -> Iterator[Box]:
    """What :func:`weight_boxes` remembers: several instances and both memories ask for the same."""
    assert op.contraction is not None
    stage = op.stages[op.contraction]
    right = stage.reads[1]
    reduced = [a for a, axis in enumerate(stage.axes) if axis.reduce]
    for box in tile_boxes(cell.ops[op.name].tensors[op.output], tile.sizes, tile.order):
        points = op_boxes(op, drawing.graph.tensor, box).points[op.contraction]
        if is_empty(points):
            continue
        cuts = [
            [Span(lo, min(lo + size, points[a].hi)) for lo in range(points[a].lo, points[a].hi, size)]
            for a, size in zip(reduced, tile.reduce, strict=True)
        ]
        for chosen in product(*cuts):
            part = list(points)
            for a, span in zip(reduced, chosen, strict=True):
                part[a] = span
            yield accessed(right, tuple(part), drawing.graph.tensor[right.tensor].shape)
