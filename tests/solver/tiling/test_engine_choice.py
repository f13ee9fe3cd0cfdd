"""Which engine runs a contraction: the one that takes it fewer cycles, if it has the types, and where that is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.box import full
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Segment
from girih.ir.semantics.cell import Cells
from girih.ir.semantics.contraction_engines import contraction_engines, least_vector_cycles
from girih.ir.semantics.region import op_boxes
from girih.solver.cost.operator import Weights
from girih.solver.tiling.solve import Choice, TileOverflow, Tiler
from tests.support import graphs
from tests.support.machines import with_engines

MACHINE = load_machine("stcp920")
PRODUCTS = [(1, 64, 64), (1, 64, 256), (1, 32, 32), (2, 128, 64), (8, 64, 64), (32, 64, 48), (128, 256, 256)]
"""Rows, points of the reduction, columns."""


def chosen(graph: Graph, machine: Machine, *, engines: bool) -> Choice:
    """Of an operator alone on one core."""
    segment = Segment((graph.ops[0].name,), (), (), ())
    answer = Tiler(graph, machine).segment(segment, Cells(graph), leads=False, engines=engines)
    assert not isinstance(answer, TileOverflow)
    return answer[1][0]


def least(graph: Graph, machine: Machine, engine: str) -> int:
    """Cycles of the best candidate of an engine, by trying all."""
    tiler, box = Tiler(graph, machine), full(graph.tensor[graph.ops[0].output].shape)
    capacity = machine.levels.sums.capacity, machine.levels.weights.capacity
    problem = tiler.problem(tiler.cost(graph.ops[0], engine), [box], Weights(1, 1), capacity)
    assert problem is not None and problem.engine == engine
    fitting = [
        int(problem.cycles[a, b])
        for a, shape in enumerate(problem.shapes)
        for b, mode in enumerate(problem.modes)
        if problem.fits(shape, mode)
    ]
    return min(fitting)


@pytest.mark.parametrize(("m", "k", "n"), PRODUCTS)
def test_the_engine_of_the_fewest_cycles_has_it(m: int, k: int, n: int) -> None:
    graph = graphs.matmul(m=m, k=k, n=n)
    matrix, vector = (least(graph, MACHINE, engine) for engine in ("matrix", "vector"))
    choice = chosen(graph, MACHINE, engines=True)
    assert choice.cycles == min(matrix, vector)
    assert choice.tile.engine == ("vector" if vector < matrix else "matrix")
    usual = chosen(graph, MACHINE, engines=False)
    assert (usual.tile.engine, usual.cycles) == ("matrix", matrix)


def test_few_rows_are_for_the_vector_engine_and_many_for_the_matrix_engine() -> None:
    engines = [chosen(graphs.matmul(m=m, k=k, n=n), MACHINE, engines=True).tile.engine for m, k, n in PRODUCTS]
    assert engines[0] == "vector" and engines[-1] == "matrix"


@pytest.mark.parametrize(("m", "k", "n"), PRODUCTS)
def test_no_tile_on_the_vector_engine_takes_less_than_all_lanes_do(m: int, k: int, n: int) -> None:
    """What is skipped because of it could not have been chosen."""
    graph = graphs.matmul(m=m, k=k, n=n)
    op = graph.ops[0]
    part = op_boxes(op, graph.tensor, full(graph.tensor[op.output].shape))
    assert 0 < least_vector_cycles(op, MACHINE, part) <= least(graph, MACHINE, "vector")


@pytest.mark.parametrize("kind", ["sums", "factors"])
def test_without_lanes_for_the_types_there_is_no_choice(kind: str) -> None:
    graph = graphs.matmul(m=1, k=32, n=32)
    missing = "float32" if kind == "sums" else "float16"

    def without(lanes: dict[str, int]) -> dict[str, int]:
        return {dtype: count for dtype, count in lanes.items() if dtype != missing}

    machine = with_engines(MACHINE, lambda e: replace(e, lanes=without(dict(e.lanes))) if e.lanes else e)
    assert contraction_engines(graph.ops[0], graph, MACHINE) == ("matrix", "vector")
    assert contraction_engines(graph.ops[0], graph, machine) == ("matrix",)


def test_what_the_matrix_engine_cannot_multiply_has_no_choice() -> None:
    graph = graphs.matmul(m=1, k=32, n=32)
    machine = with_engines(MACHINE, lambda e: replace(e, rate={"int8": 1.0}) if "matrix" in e.classes else e)
    assert contraction_engines(graph.ops[0], graph, machine) == ("vector",)


def test_the_vector_engine_waits_for_all_weights() -> None:
    """The vector engine would have to wait for all of them, at the pace of a slow link."""
    graph = graphs.matmul(m=1, k=64, n=64)
    slow = replace(MACHINE, links=tuple(replace(link, bytes_per_cycle=0.25) for link in MACHINE.links))
    assert chosen(graph, MACHINE, engines=True).tile.engine == "vector"
    assert least(graph, slow, "vector") >= graph.tensor["matmul.w"].bytes * 4
