"""A part of an operator as one tile of the lowering."""

from __future__ import annotations

from collections.abc import Mapping

from girih.ir.graph import Graph, Op
from girih.ir.semantics.region import OpBoxes
from girih.lowering.loops.tile_nests import TileNests, tile_nests
from girih.lowering.schedule.cell_spec import BoundSpec, cell_spec
from girih.lowering.schedule.lower_to_loops import lowered, scheduled
from girih.lowering.schedule.tile_plan import TilePlan


def one_tile(
    op: Op, graph: Graph, boxes: OpBoxes, strides: Mapping[str, tuple[int, ...]], reduce: tuple[int, ...] | None
) -> tuple[BoundSpec, TileNests]:
    """The nests of the part with these boxes, in one tile, and what their buffers stand for."""
    bound = cell_spec(op, graph.tensor, boxes, strides, reduce)
    sizes = bound.spec.views[bound.spec.output].shape
    plan = TilePlan(sizes, tuple(range(len(sizes))), bound.reduce)
    (nests,) = tile_nests(lowered(scheduled(bound.spec, plan))["main"], bound.spec, plan).classes
    return bound, nests
