"""Which cores do the same at the same time."""

from __future__ import annotations

from girih.ir.graph import Graph
from girih.ir.plan import Segment, Split, Tile
from girih.ir.semantics.cell import Cell, Cells
from girih.solver.timeline.cores_in_step import CoresInStep
from tests.support import graphs


def segment(graph: Graph, name: str, dim: int) -> tuple[Segment, list[Cell]]:
    """An operator alone, divided among four cores."""
    op = graph.op[name]
    shape = graph.tensor[op.output].shape
    tile = Tile(name, shape, tuple(range(len(shape))), (), "vector", 1, 1)
    alone = Segment((name,), (), (Split(dim, 4),), (tile,), ())
    return alone, list(Cells(graph).row(alone, 0))


def share(steps: CoresInStep, part: tuple[Segment, list[Cell]], work: list[int], *, barrier: bool = False) -> float:
    """What is in step if core i has so much to do."""
    chosen, cells = part
    amount = {id(cell): [(0, busy)] for cell, busy in zip(cells, work, strict=True)}
    return steps.share(chosen, cells, cells[work.index(max(work))], lambda cell: amount[id(cell)], barrier=barrier)


def test_cores_begin_in_step_whatever_they_have_to_do() -> None:
    graph = graphs.chain(1)
    assert share(CoresInStep(graph), segment(graph, "conv0", 1), [5, 6, 7, 8]) == 1.0


def test_a_core_with_less_to_do_is_ahead_unless_it_waits_for_the_others() -> None:
    for kernel, in_step in ((1, 0.75), (3, 1.0)):
        # With 3 rows, each core loads the last row of one neighbour and the first of the other.
        graph = graphs.chain(2, kernel=kernel)
        steps = CoresInStep(graph)
        assert share(steps, segment(graph, "conv0", 1), [5, 10, 10, 10]) == 1.0
        assert share(steps, segment(graph, "conv1", 1), [10, 10, 10, 10]) == in_step


def test_a_barrier_brings_all_in_step() -> None:
    graph = graphs.chain(2, kernel=1)
    steps = CoresInStep(graph)
    share(steps, segment(graph, "conv0", 1), [5, 10, 10, 10])
    assert share(steps, segment(graph, "conv1", 1), [10, 10, 10, 10], barrier=True) == 1.0


def test_those_with_most_to_do_decide() -> None:
    graph = graphs.chain(3, kernel=1)
    steps = CoresInStep(graph)
    share(steps, segment(graph, "conv0", 1), [10, 10, 10, 5])
    assert share(steps, segment(graph, "conv1", 1), [5, 5, 5, 10]) == 0.75
    assert share(steps, segment(graph, "conv2", 1), [10, 10, 10, 10]) == 0.25
