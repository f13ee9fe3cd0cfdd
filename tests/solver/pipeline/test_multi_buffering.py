"""Versions of scratch leave room for what the vector engine holds meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import LocalBuffer, Segment
from girih.ir.semantics.cell import Cells
from girih.solver.cost.local_buffers import scratch_buffers, scratch_groups
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.cpsat.backend import Budget
from girih.solver.pipeline.solve import Pipelines
from girih.solver.tiling.solve import Tiler
from tests.support import graphs

STCP = load_machine("stcp920")
BUDGET = Budget(2.0, 0.2)


def with_scratch(capacity: int) -> Machine:
    return replace(
        STCP,
        memories=tuple(
            replace(m, capacity=capacity) if STCP.use_of(m.name) == "accumulator" else m for m in STCP.memories
        ),
    )


def block() -> Graph:
    """A vector operator with private buffers, a product that reads its result, and one that does not."""
    net = graphs.Net("block")
    x = net.input("x", 256, 128)
    y = net.matmul("product", net.softmax("softmax", x), 128)
    net.matmul("other", x, 128, add=y)
    return net.graph()


def scratch(graph: Graph, machine: Machine, *, leads: bool, ops: tuple[str, ...] = ()) -> dict[str, int]:
    """By operator, the bytes of all versions of its private buffers, as tiling and pipeline have them."""
    cells = Cells(graph)
    tiled = Tiler(graph, machine, budget=BUDGET).segment(
        Segment(ops or tuple(op.name for op in graph.ops), (), (), ()), cells, leads=leads
    )
    assert isinstance(tiled, tuple)
    deep = Pipelines(graph, cells, machine, TileWalks(graph, machine)).segment(0, tiled[0])
    assert isinstance(deep, tuple)
    found: dict[str, int] = {}
    buffers: list[LocalBuffer] = scratch_buffers(graph, cells, machine, 0, deep[0])
    for b, *_ in scratch_groups(graph, deep[0], buffers):
        found[b.op] = found.get(b.op, 0) + b.bytes
    return found


@pytest.mark.parametrize("capacity", [24 << 10, 32 << 10, 48 << 10, 64 << 10, 96 << 10, 128 << 10, 256 << 10])
def test_a_product_and_what_makes_its_input_lie_side_by_side(capacity: int) -> None:
    found = scratch(block(), with_scratch(capacity), leads=True)
    assert max(found.values()) <= capacity
    if found["softmax"] <= capacity // 2:
        assert found["softmax"] + found["product"] <= capacity


@pytest.mark.parametrize("capacity", [32 << 10, 64 << 10, 128 << 10])
def test_a_product_that_waits_for_nothing_has_all_the_room(capacity: int) -> None:
    graph, machine = block(), with_scratch(capacity)
    alone = scratch(graph, machine, leads=True, ops=("other",))
    assert scratch(graph, machine, leads=True)["other"] == alone["other"]


def test_where_tiles_are_too_large_to_lie_side_by_side_depths_are_what_fits() -> None:
    """Tiles made as if each operator were alone: of their versions, as many as leave room, or else as many as fit."""
    beside = 0
    for capacity in range(20 << 10, 260 << 10, 4 << 10):
        found = scratch(block(), with_scratch(capacity), leads=False)
        assert max(found.values()) <= capacity
        beside += found["softmax"] + found["product"] <= capacity
    assert beside > 10
