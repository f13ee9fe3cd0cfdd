"""The walks of cells that are alike are one; what is remembered is what would be computed."""

from __future__ import annotations

from dataclasses import replace

from girih.ir.graph import Op
from girih.ir.load_machine import load_machine
from girih.ir.plan import Segment, Split, Tile
from girih.ir.semantics.box_arrays import Boxes
from girih.ir.semantics.cell import Cells
from girih.solver.cost.tile_walk import TileWalk, TileWalks
from tests.support import graphs

STCP = load_machine("stcp920")


def test_instances_in_the_middle_share_their_walks() -> None:
    """They read the halo of a convolution from the same place in what they hold; the first and the last do not."""
    net = graphs.Net("halo")
    x = net.elementwise("x1", "exp", net.input("x", 1, 30, 8, 16))
    wide = net.conv("wide", x, 16, kernel=5)
    net.elementwise("sum", "add", net.conv("narrow", x, 16, kernel=3), wide)
    graph = net.graph()
    cells, remembered = Cells(graph), TileWalks(graph, STCP)
    segment = Segment(tuple(op.name for op in graph.ops), (Split(1, 6),), (), ())
    for op in graph.ops:
        tile = Tile(op.name, (1, 2, 8, 16), (0, 1, 2, 3), (3, 3, 16) if op.contraction is not None else ())
        walks: list[TileWalk] = []
        for instance in range(6):
            cell = cells.cell(segment, instance, 0)
            walks.append(remembered.walk(op, tile, cell))
            assert_equal(walks[-1], TileWalks(graph, STCP).walk(op, tile, cell))
        assert all(walk is walks[2] for walk in walks[2:4])


def test_tiles_that_see_padding_on_other_sides_are_others_and_those_inside_are_alike() -> None:
    graph = graphs.conv(size=30, channels=64, out=32)
    (op,) = graph.ops
    segment = Segment((op.name,), (), (), ())
    tile = Tile(op.name, (1, 3, 30, 32), (0, 1, 2, 3), (1, 3, 64), "matrix")
    walk = TileWalks(graph, STCP).walk(op, tile, Cells(graph).cell(segment, 0, 0))
    first, *inside, last = walk.timing
    assert len(walk.timings) == 3
    assert len(set(inside)) == 1
    assert {first, inside[0], last} == {0, 1, 2}


def test_cells_that_a_window_leaves_on_other_sides_have_walks_of_their_own() -> None:
    """The second row and the last but one of a kernel of 5 see one row of padding each, and neither is at a border."""
    graph = graphs.conv(size=8, channels=64, out=32, kernel=5)
    (op,) = graph.ops
    cells, remembered = Cells(graph), TileWalks(graph, STCP)
    segment = Segment((op.name,), (Split(1, 8),), (), ())
    tile = Tile(op.name, (1, 1, 8, 32), (0, 1, 2, 3), (1, 5, 64), "matrix")
    walks = [remembered.walk(op, tile, cells.cell(segment, row, 0)) for row in range(8)]
    alone = [TileWalks(graph, STCP).walk(op, tile, cells.cell(segment, row, 0)) for row in range(8)]
    for walk, other in zip(walks, alone, strict=True):
        assert_equal(walk, other)
    assert len({id(walk) for walk in walks}) == 5


def assert_equal(walk: TileWalk, other: TileWalk) -> None:
    assert (walk.box, walk.timings, walk.timing, walk.weights) == (
        other.box,
        other.timings,
        other.timing,
        other.weights,
    )
    assert (walk.loads, walk.boxes) == (other.loads, other.boxes)
    for name, boxes in walk.reads.items():
        assert (boxes.spans == other.reads[name].spans).all() and (boxes.present == other.reads[name].present).all()


def test_all_tiles_are_compared_with_those_of_the_producer() -> None:
    """Where the first tile reads what the producer's first has made, the others may need more, or other parts."""
    net = graphs.Net("chain")
    graph = net.graph(net.elementwise("second", "exp", net.elementwise("first", "exp", net.input("x", 16, 32))))
    cell = Cells(graph).busiest(Segment(("first", "second"), (), (), ()), 0)
    first, second = graph.ops

    def walk(op: Op, order: tuple[int, ...], *sizes: int) -> TileWalk:
        return TileWalks(graph, STCP).walk(op, Tile(op.name, sizes, order, (), "vector"), cell)

    producer, reader = walk(first, (0, 1), 4, 8), walk(second, (0, 1), 4, 8)
    assert reader.reads_tile_by_tile(first.output, producer)
    assert not walk(second, (1, 0), 4, 8).reads_tile_by_tile(first.output, producer)
    assert not walk(second, (0, 1), 8, 4).reads_tile_by_tile(first.output, producer)
    assert not reader.reads_tile_by_tile(second.output, producer)
    # One row more of what lies above, which the first tile does not have.
    spans = reader.reads[first.output].spans.copy()
    spans[4:, 0, 0] -= 1
    window = replace(reader, reads={first.output: Boxes(spans, reader.reads[first.output].present)})
    assert not window.reads_tile_by_tile(first.output, producer)
