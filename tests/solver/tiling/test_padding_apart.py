"""What the rows of a kernel take apart, where some see padding: of a table of tiles as of the tiles themselves."""

from __future__ import annotations

import pytest

from girih.ir.box import Span, full
from girih.ir.graph import Graph, Op
from girih.ir.load_machine import load_machine
from girih.ir.plan import Tile
from girih.ir.semantics.cell import Cells
from girih.ir.semantics.region import op_boxes
from girih.solver.cost.operator import OpCost, Weights
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.tiling.candidates import reductions, tile_shapes
from girih.solver.tiling.problem import ShapeTable
from girih.solver.tiling.solve import Choice, Tiler
from tests.support import graphs
from tests.support.plans.rough_plans import rough_segment

STCP = load_machine("stcp920")


def convolution(size: int, *, kernel: int = 3, channels: int = 64) -> tuple[Graph, Op]:
    graph = graphs.conv(size=size, channels=channels, out=32, kernel=kernel)
    return graph, graph.ops[0]


def walked(graph: Graph, op: Op, sizes: tuple[int, ...], reduce: tuple[int, ...]) -> int:
    """Busy cycles of the matrix engine, tile by tile."""
    segment = rough_segment(graph, STCP, (op.name,))
    tile = Tile(op.name, sizes, tuple(range(len(sizes))), reduce, "matrix")
    walk = TileWalks(graph, STCP).walk(op, tile, Cells(graph).cell(segment, 0, 0))
    return sum(work.busy for number in walk.timing for work in walk.timings[number].products)


@pytest.mark.parametrize(("size", "kernel"), [(14, 3), (7, 3), (28, 3), (14, 5), (14, 1)])
def test_the_table_knows_what_the_tiles_take(size: int, kernel: int) -> None:
    """Where each tile of the reduction is a row of the kernel, or all of it; other cuts are estimates."""
    graph, op = convolution(size, kernel=kernel)
    box = full(graph.tensor[op.output].shape)
    cost = Tiler(graph, STCP).cost(op)
    shapes = tile_shapes(op, graph, cost, [box], 1 << 40)
    table = ShapeTable(shapes)
    issue = table.instructions * cost.matrix.issue
    cuts = {r.sizes: r for r in reductions(op, cost, op_boxes(op, graph.tensor, box))}
    at = next(a for a, shape in enumerate(shapes) if shape.sizes == (1, size, size, 32))
    for reduce in ((kernel, kernel, 64), (1, kernel, 64)):
        assert table.matrix_cycles(cuts[reduce], issue)[at] == walked(graph, op, (1, size, size, 32), reduce)


def test_rows_apart_are_cheaper_where_blocks_become_fewer() -> None:
    """Of 14 x 14 results; not of 7 x 7, whose 49 and 42 rows are one block."""
    for size, fewer in ((14, True), (7, False)):
        graph, op = convolution(size, channels=256)
        part = op_boxes(op, graph.tensor, full(graph.tensor[op.output].shape))
        cost = OpCost(op, graph, STCP)
        matrix = cost.work(part, part.tensors).matrix
        rows, columns, channels = cost.apart(part, part.tensors)
        assert (rows < matrix) == (columns < matrix) == fewer
        assert channels == 0, "no channel sees padding"


def test_the_model_chooses_rows_apart_where_these_are_cheaper() -> None:
    graph, op = convolution(14, channels=256)
    choice = Tiler(graph, STCP).tile(op, [full(graph.tensor[op.output].shape)], Weights())
    assert isinstance(choice, Choice)
    assert choice.tile.reduce[0] == 1


def test_kinds_of_tiles_add_up() -> None:
    """Of 16 rows in tiles of 5: three of these, of which the middle one is seen, and one of 1."""
    graph, op = convolution(16)
    cost, box = OpCost(op, graph, STCP), full(graph.tensor[op.output].shape)
    shapes = tile_shapes(op, graph, cost, [box], 1 << 40, also=(1, 5, 16, 32))
    cell = op_boxes(op, graph.tensor, box).tensors

    def apart(first: int, last: int) -> tuple[int, ...]:
        return cost.apart(op_boxes(op, graph.tensor, (box[0], Span(first, last), *box[2:])), cell)

    (shape,) = (s for s in shapes if s.sizes == (1, 5, 16, 32))
    assert shape.apart == tuple(3 * whole + rest for whole, rest in zip(apart(5, 10), apart(15, 16), strict=True))


def test_engines_that_stage_have_nothing_apart() -> None:
    machine = load_machine("ascend310")
    assert machine.staging_memories
    graph, op = convolution(14)
    part = op_boxes(op, graph.tensor, full(graph.tensor[op.output].shape))
    assert OpCost(op, graph, machine).apart(part, part.tensors) == ()
