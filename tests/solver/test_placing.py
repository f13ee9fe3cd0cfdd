"""Where local buffers lie, beyond that they do not overlap while they live."""

from __future__ import annotations

import graphs

from girih.ir.cell import Cells
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import LocalBuffer, Segment
from girih.solver.cp import Budget
from girih.solver.placing import LocalPlaces, Placing
from girih.solver.tiling import Infeasible, Tiler
from girih.solver.walk import Walks

MACHINE = load_machine("stcp920")


def placed(graph: Graph) -> list[LocalBuffer]:
    """Of a graph as one segment, which leaves room in all memories."""
    cells = Cells(graph)
    tiled = Tiler(graph, MACHINE).segment(Segment(tuple(op.name for op in graph.ops), (), (), ()), cells)
    assert not isinstance(tiled, Infeasible)
    found = Placing(graph, cells, MACHINE, Walks(graph, MACHINE), 0).local(0, tiled[0], Budget(1.0, 0.1))
    assert isinstance(found, LocalPlaces)
    return list(found.buffers)


def apart(a: LocalBuffer, b: LocalBuffer) -> bool:
    return a.memory != b.memory or a.address + a.bytes <= b.address or b.address + b.bytes <= a.address


def test_neighbouring_operators_keep_results_and_weights_apart() -> None:
    """So that one engine can begin with the next operator while the other is busy with the last one."""
    private = [b for b in placed(graphs.chain(4)) if b.use != "data"]
    pairs = [(a, b) for a in private for b in private if a.memory == b.memory and a.live[1] == b.live[0]]
    assert len(pairs) >= 6 and all(apart(a, b) for a, b in pairs)


def test_constants_have_room_while_the_operator_before_works() -> None:
    graph = graphs.residual()
    data = [b for b in placed(graph) if b.use == "data"]
    constants = [b for b in data if b.live[0] > 0 and b.name in graph.constant_names]
    before = [(c, b) for c in constants for b in data if b.live[1] == c.live[0]]
    assert before and all(apart(c, b) for c, b in before)
