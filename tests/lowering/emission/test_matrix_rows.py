"""Of the loops over rows, those go into matrix instructions that fill the array best, as the prediction assumes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.isa.timing import instruction_cost
from girih.ir.load_machine import load_machine
from girih.ir.plan import Step
from girih.ir.semantics.cell import Cells
from girih.lowering import lower
from girih.solver.cost.tile_walk import TileWalks
from tests.support import graphs
from tests.support.plans.rough_plans import rough_plan, rough_segment

STCP = load_machine("stcp920")


@pytest.mark.parametrize("batch", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [(4, 20), (5, 13), (8, 8), (3, 30), (9, 7)])
def test_products_take_what_is_predicted(batch: int, size: tuple[int, int]) -> None:
    """Images, rows and columns are three loops, and two fit."""
    graph = graphs.conv(batch=batch, size=40, channels=32, out=32, kernel=1)
    op = graph.ops[0]
    segment = rough_segment(graph, STCP, (op.name,))
    assert op.contraction is not None
    tile = replace(segment.tiles[0], sizes=(batch, *size, 32), reduce=(1, 1, 32))
    segment = replace(segment, cores=(), tiles=(tile,))
    program = lower(graph, rough_plan(graph, STCP, (segment,), (Step(0, 0),)), STCP)
    engine = STCP.engine_for("matrix")
    emitted = [i for stream in program.streams for i in stream if i.row.kind == "matrix"]
    cycles = sum(instruction_cost(STCP, engine, i).busy for i in emitted)
    walk = TileWalks(graph, STCP).walk(op, tile, Cells(graph).cell(segment, 0, 0))
    assert cycles == walk.matrix_cycles
