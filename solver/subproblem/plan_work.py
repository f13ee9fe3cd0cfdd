"""How much there is to a plan, for whoever builds or predicts it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan, Segment, Tile
from ...ir.semantics.cell import Cells
from ...ir.semantics.portions import receivers


@dataclass(frozen=True)
class PlanWork:
    """``slots``: of operators in steps; ``products``: of tiles with tiles of weights, for each group of cores that
    waits for tiles of its own, in all slots."""

    slots: int = 0
    products: int = 0

    def __add__(self, other: PlanWork) -> PlanWork:
        return PlanWork(self.slots + other.slots, self.products + other.products)


def plan_work(graph: Graph, cells: Cells, machine: Machine, plan: Plan) -> PlanWork:
    """What a prediction goes through; products as if all instances of a segment were like its first."""
    steps = Counter(step.segment for step in plan.steps)
    segments = ((plan.segments[number], repeated) for number, repeated in steps.items())
    products = sum(
        repeated * _products(graph, cells, machine, segment, tile)
        for segment, repeated in segments
        for tile in segment.tiles
    )
    return PlanWork(len(plan.slots), products)


def _products(graph: Graph, cells: Cells, machine: Machine, segment: Segment, tile: Tile) -> int:
    """Those of one operator in one step; 0 unless the matrix engine runs it."""
    op, cell = graph.op[tile.op], cells.busiest(segment, 0)
    if tile.engine != "matrix" or op.contraction is None or op.name not in cell.ops:
        return 0
    stage = op.stages[op.contraction]
    box = cell.ops[op.name].tensors[op.output]
    tiles = prod(-(-span.size // size) for span, size in zip(box, tile.sizes, strict=True))
    reduced = (axis.extent for axis in stage.axes if axis.reduce)
    parts = prod(-(-extent // size) for extent, size in zip(reduced, tile.reduce, strict=True))
    weights = stage.factors[1].tensor
    if weights not in graph.constant_names:
        return tiles * parts
    levels = machine.levels
    broadcast = machine.moves("broadcast", levels.source_of(constant=True), levels.weights)
    wanted = (c.tensors[weights] if op.name in c.ops else None for c in cells.row(segment, 0))
    return tiles * parts * len(receivers(wanted, broadcast))
