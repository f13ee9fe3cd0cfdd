"""What structurally equivalent segments share is what each of them would have by itself."""

from __future__ import annotations

import pytest

from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import Segment, Split
from girih.ir.semantics.cell import Cells
from girih.solver.banks.placement import LocalPlaces, Placing
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.cpsat.backend import Budget
from girih.solver.pipeline.solve import Pipelines
from girih.solver.tiling.solve import TileOverflow, Tiler
from tests.support import graphs

MACHINE = load_machine("stcp920")
BUDGET = Budget(1.0, 0.1)


def _segments(graph: Graph, cells: Cells, length: int, instances: tuple[Split, ...]) -> list[Segment]:
    """Runs of ``length`` operators, tiled."""
    ops = [op.name for op in graph.ops]
    runs = [tuple(ops[i : i + length]) for i in range(0, len(ops), length)]
    tiler = Tiler(graph, MACHINE)
    found: list[Segment] = []
    for run in runs:
        tiled = tiler.segment(Segment(run, instances, (), ()), cells)
        assert not isinstance(tiled, TileOverflow)
        found.append(tiled[0])
    return found


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("instances", [(), (Split(1, 2),)])
def test_what_equivalent_segments_share_is_what_each_has_alone(length: int, instances: tuple[Split, ...]) -> None:
    graph = graphs.chain(12)
    cells = Cells(graph)
    walks = TileWalks(graph, MACHINE)
    pipelines, placing = Pipelines(graph, cells, MACHINE, walks), Placing(graph, cells, MACHINE, walks, 0)
    segments = _segments(graph, cells, length, instances)
    for index, segment in enumerate(segments):
        alone = TileWalks(graph, MACHINE)
        deep = pipelines.segment(index, segment)
        assert isinstance(deep, tuple) and deep == Pipelines(graph, cells, MACHINE, alone).segment(index, segment)
        places = placing.local(index, deep[0], BUDGET)
        fresh = Placing(graph, cells, MACHINE, alone, 0).local(index, deep[0], BUDGET)
        assert isinstance(places, LocalPlaces) and isinstance(fresh, LocalPlaces)
        assert (places.buffers, places.solved) == (fresh.buffers, fresh.solved)
        assert {b.op for b in places.buffers} <= set(segment.ops)
    shared = placing._places, pipelines._segments  # pyright: ignore[reportPrivateUsage]
    assert all(len(answers) < len(segments) for answers in shared)
