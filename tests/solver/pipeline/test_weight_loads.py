"""The load of weights is timed in an instance that runs the operator."""

from __future__ import annotations

from girih.ir.load_machine import load_machine
from girih.ir.plan import Segment, Split
from girih.ir.semantics.cell import Cells
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.cpsat.backend import Budget
from girih.solver.pipeline.solve import Pipelines
from girih.solver.tiling.solve import Tiler
from tests.support import graphs

STCP = load_machine("stcp920")


def test_a_product_that_the_first_instance_does_not_need_is_scheduled() -> None:
    """Two products side by side, concatenated, and instances over the concatenated dimension: one product in each."""
    net = graphs.Net("side by side")
    x = net.input("x", 64, 64)
    net.concat("joined", net.matmul("first", x, 64), net.matmul("second", x, 64))
    graph = net.graph()
    cells = Cells(graph)
    bare = Segment(tuple(op.name for op in graph.ops), (Split(1, 2),), (), ())
    assert [set(cells.cell(bare, i, 0).ops) & {"first", "second"} for i in range(2)] == [{"first"}, {"second"}]
    tiled = Tiler(graph, STCP, budget=Budget(2.0, 0.2)).segment(bare, cells)
    assert isinstance(tiled, tuple)
    scheduled = Pipelines(graph, cells, STCP, TileWalks(graph, STCP)).segment(0, tiled[0])
    assert isinstance(scheduled, tuple)
    assert {loop.op for loop in scheduled[1] if loop.cycles > 0} >= {"first", "second"}
