"""Which tiles are considered: those whose private buffers fit, and all of those."""

from __future__ import annotations

from girih.frontend import import_onnx
from girih.ir.box import Span, full
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.solver.tiling.candidates import Shape, tile_shapes
from girih.solver.tiling.solve import Tiler
from tests.support import graphs
from tests.support.operators.imported.convolution_cases import conv

TINY = load_machine("tiny")
ENDLESS = 1 << 40


def considered(graph: Graph, capacity: int, *, all_sizes: bool) -> list[Shape]:
    op = graph.ops[-1]
    box = full(graph.tensor[op.output].shape)
    return tile_shapes(op, graph, Tiler(graph, TINY).cost(op), [box], capacity, all_sizes=all_sizes)


def test_tiles_that_fit_are_considered_and_no_others() -> None:
    convolution, softmax = graphs.Net("convolution", "float32"), graphs.Net("softmax", "float32")
    convolution.conv("op", convolution.input("x", 2, 6, 6, 8), 24, kernel=3)
    softmax.softmax("op", softmax.input("x", 12, 50))
    left_out = 0
    for graph in (convolution.graph(), softmax.graph()):
        for all_sizes in (False, True):
            every = considered(graph, ENDLESS, all_sizes=all_sizes)
            for capacity in (1 << 9, 1 << 10, 1 << 11, 1 << 12):
                found = considered(graph, capacity, all_sizes=all_sizes)
                assert all(shape.scratch.total(1) <= capacity for shape in found)
                where = {(s.sizes, s.order) for s in found}
                assert {(s.sizes, s.order) for s in every if s.scratch.total(1) <= capacity} <= where
                assert where <= {(s.sizes, s.order) for s in every}
                left_out += len(every) - len(found)
    assert left_out > 0


def test_tiles_end_where_groups_do_in_the_parts_of_all_cores() -> None:
    graph = import_onnx(conv(1, 8, 5, 5, out=544, group=4)(), precision="fp16")
    op = next(op for op in graph.ops if op.contraction is not None)
    whole = full(graph.tensor[op.output].shape)
    dim = next(d for d, span in enumerate(whole) if span.size == 544)
    parts = [(*whole[:dim], Span(begin, begin + 442), *whole[dim + 1 :]) for begin in (0, 34, 68, 102)]
    cost = Tiler(graph, load_machine("stcp920")).cost(op)
    of_all = {s.sizes[dim] for s in tile_shapes(op, graph, cost, parts, ENDLESS)}
    of_judged = {s.sizes[dim] for s in tile_shapes(op, graph, cost, parts[2:3], ENDLESS)}
    assert 68 in of_judged and 34 in of_all and 68 not in of_all
