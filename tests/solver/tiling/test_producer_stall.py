"""Producer stall: what a matrix operator waits for the vector operator that produces its input."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from girih.ir.box import Box, Span, full
from girih.ir.graph import Graph, Op
from girih.ir.load_machine import load_machine
from girih.ir.plan import Segment, Tile
from girih.ir.semantics.cell import Cells
from girih.solver.cost.operator import OpCost
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.pipeline.model import walk_cycles
from girih.solver.pipeline.problem import NO_PRECEDING_WORK, PrecedingWork
from girih.solver.tiling.candidates import Shape, tile_shapes
from girih.solver.tiling.producer_stall import Lead, Overlap, producer_overlap
from tests.support import graphs

MACHINE = load_machine("stcp920")


def test_the_share_of_a_producer_is_that_of_its_walk() -> None:
    """As :meth:`girih.solver.cost.tile_walk.TileWalk.last_tiles_read` says, for every box that begins at the corner."""
    graph = graphs.attention(length=12)
    op = next(op for op in graph.ops if op.name == "softmax")
    shape = graph.tensor[op.output].shape
    tile = Tile(op.name, tuple(max(1, e // 3) for e in shape), tuple(range(len(shape))), engine="vector")
    cell = Cells(graph).cell(Segment(tuple(o.name for o in graph.ops), (), (), ()), 0, 0)
    producer = TileWalks(graph, MACHINE).walk(op, tile, cell)
    reader = next(o for o in graph.ops if op.output in o.inputs)
    whole = graph.tensor[reader.output].shape
    walk = TileWalks(graph, MACHINE).walk(
        reader, Tile(reader.name, tuple(max(1, e // 2) for e in whole), tuple(range(len(whole))), engine="vector"), cell
    )
    lead = Lead(1000, full(shape), tile.sizes, tile.order)
    shares = lead.share(walk.reads[op.output].spans)
    assert np.allclose(shares, [(last + 1) / len(producer) for last in walk.last_tiles_read(op.output, producer)])
    assert lead.share(np.array([full(shape)]))[0] == 1.0


@given(
    tiles=st.integers(1, 12), depth=st.integers(1, 8), lead=st.integers(0, 2000),
    matrix=st.integers(1, 300), vector=st.integers(1, 300),
)  # fmt: skip
def test_the_producer_stall_is_that_of_a_list_schedule(
    tiles: int, depth: int, lead: int, matrix: int, vector: int
) -> None:
    """Rows alone: tile i of n needs the share (i + 1) / n of the producer; in-order engines, results in d places."""
    drained = [0.0] * tiles
    done, busy = 0.0, float(lead)
    for i in range(tiles):
        free = drained[i - depth] if i >= depth else 0.0
        done = max(done, free, lead * (i + 1) / tiles) + matrix
        busy = drained[i] = max(busy, done) + vector
    ones = np.ones(1)
    numbers = np.arange(tiles)[np.newaxis, :]
    time = np.array([float(max(tiles * matrix, tiles * vector, tiles * (matrix + vector) / depth)) + vector])
    producer_overlap = Overlap(lead, (numbers + 1) / tiles, numbers / tiles, ones * tiles, ones * vector * tiles)
    told = float((time + producer_overlap.wait(time, depth))[0])
    # The estimate leaves out how the two engines wait for each other at the ends: two tiles.
    assert abs(told - busy) <= 2 * (matrix + vector) + lead / tiles


def test_more_buffers_let_the_matrix_engine_run_ahead() -> None:
    graph = graphs.matmul(m=256, k=64, n=32)
    op = graph.ops[0]
    cell = Cells(graph).cell(Segment((op.name,), (), (), ()), 0, 0)
    walk = TileWalks(graph, MACHINE).walk(op, Tile(op.name, (32, 32), (0, 1), (64,), "matrix"), cell)
    loads = dict.fromkeys(range(len(walk.loads)), 1)
    alone = walk_cycles(walk, MACHINE, loads, 8, 1)
    lead = 2 * alone
    before = PrecedingWork(lead, tuple(lead * (i + 1) // len(walk) for i in range(len(walk))))
    few, many = (walk_cycles(walk, MACHINE, loads, d, 1, before) for d in (1, 8))
    assert walk_cycles(walk, MACHINE, loads, 8, 1, NO_PRECEDING_WORK) == alone
    assert lead < many < few <= lead + walk_cycles(walk, MACHINE, loads, 1, 1)


def all_of(graph: Graph, op: Op) -> Box:
    return full(graph.tensor[op.output].shape)


def four_heads() -> tuple[Graph, Op, Op, list[Shape]]:
    """Attention, its softmax, the context that reads it, and the tiles that the context may have."""
    graph = graphs.attention(batch=1, length=16, heads=4)
    softmax = next(op for op in graph.ops if op.name == "softmax")
    context = next(op for op in graph.ops if softmax.output in op.inputs)
    cost = OpCost(context, graph, MACHINE)
    room = MACHINE.levels.sums.capacity
    return graph, softmax, context, tile_shapes(context, graph, cost, [all_of(graph, context)], room)


def test_heads_need_their_own_rows_alone() -> None:
    """The context of a head needs the softmax of that head: tiles of one head wait less than those of all."""
    graph, softmax, context, shapes = four_heads()
    rows, whole = all_of(graph, softmax), all_of(graph, context)
    lead = Lead(10_000, rows, tuple(1 if d < 2 else s.size for d, s in enumerate(rows)), tuple(range(len(rows))))
    found = producer_overlap(lead, context, graph, whole, shapes)
    waits = found.wait(np.full(len(shapes), 4_000.0), 8)
    all_heads = [w for w, s in zip(waits, shapes, strict=True) if s.tiles == 1]
    one_head = [w for w, s in zip(waits, shapes, strict=True) if s.sizes == (1, 1, 16, 32)]
    assert all_heads and one_head and max(all_heads) == 10_000
    assert min(one_head) == 10_000 - 3_000


def test_milestones_find_the_longest_wait() -> None:
    """No tile that is not looked at waits much longer than those that are: by less than two hundredths of the whole."""
    graph, softmax, context, shapes = four_heads()
    rows, whole = all_of(graph, softmax), all_of(graph, context)
    lead = Lead(10_000, rows, tuple(max(1, s.size // 4) for s in rows), tuple(range(len(rows))))
    cell = Cells(graph).cell(Segment(tuple(o.name for o in graph.ops), (), (), ()), 0, 0)
    found = producer_overlap(lead, context, graph, whole, shapes)
    for number, shape in enumerate(shapes):
        tile = Tile(context.name, shape.sizes, shape.order, (shape.sizes[-1],), "vector")
        walk = TileWalks(graph, MACHINE).walk(context, tile, cell)
        every = lead.share(walk.reads[softmax.output].spans) * 10_000 - 4_000 * np.arange(len(walk)) / len(walk)
        looked = (found.cycles * found.need[number] - 4_000 * found.place[number]).max()
        assert every.max() - 200 <= looked <= every.max()


def test_a_span_behind_the_last_tile_counts_as_all() -> None:
    lead = Lead(10, (Span(4, 8),), (1,), (0,))
    assert lead.share(np.array([[[4, 20]]]))[0] == 1.0
