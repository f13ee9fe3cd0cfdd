"""How long local buffers keep their bytes in an arrangement, and in which order arrangements are tried."""

from __future__ import annotations

import pytest

from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import LocalBuffer, Segment, Split
from girih.ir.semantics.cell import Cells
from girih.solver.banks.arrangement import Arrangement, Extension, NextInstance, arrangements
from girih.solver.banks.problem import BufferRequest
from girih.solver.cost.local_buffers import local_requests
from girih.solver.switches import checked
from girih.solver.tiling.solve import TileOverflow, Tiler
from tests.support import graphs

STCP = load_machine("stcp920")


def buffer(name: str, *live: int, size: int = 8) -> LocalBuffer:
    return LocalBuffer(0, "op", name, "data", "L1", -1, size, 1, (live[0], live[1]))


A, B, C = buffer("a", 2, 4), buffer("b", 4, 5, size=12), buffer("c", 0, 3)
GROUPS = ([A, B], [C])


def test_buffers_at_one_address_are_one_request() -> None:
    assert Arrangement(GROUPS).requests() == (
        BufferRequest("op:a, op:b", 12, (2, 5)),
        BufferRequest("op:c", 8, (0, 3)),
    )


@pytest.mark.parametrize(
    ("extension", "names", "lives"),
    [
        (Extension.OPERATOR_BEFORE, "a", ((1, 5), (0, 3))),
        (Extension.OPERATOR_BEFORE, "c", ((2, 5), (0, 3))),
        (Extension.OPERATOR_BEFORE, "b", ((2, 5), (0, 3))),
        (Extension.ALL_OPERATORS_BEFORE, "a", ((0, 5), (0, 3))),
        (Extension.ALL_OPERATORS_BEFORE, "b", ((2, 5), (0, 3))),
        (Extension.OPERATOR_AFTER, "a", ((2, 6), (0, 3))),
        (Extension.OPERATOR_AFTER, "bc", ((2, 6), (0, 4))),
    ],
)
def test_lives_are_extended_at_the_ends_of_a_group(
    extension: Extension, names: str, lives: tuple[tuple[int, int], ...]
) -> None:
    arrangement = Arrangement(GROUPS, {extension: frozenset(("op", name) for name in names)})
    assert tuple(request.live for request in arrangement.requests()) == lives


@pytest.mark.parametrize(("position", "again"), [(1, 3), (3, 3), (4, 4)])
def test_the_next_instance_has_room_when_this_one_needs_it_no_longer(position: int, again: int) -> None:
    arrangement = Arrangement(GROUPS, next_instance=NextInstance(position, frozenset("ca")))
    assert [request.again for request in arrangement.requests()] == [None, again]
    assert [request.again for request in Arrangement(GROUPS).requests()] == [None, None]
    of_others = Arrangement(GROUPS, next_instance=NextInstance(position, frozenset("b")))
    assert [request.again for request in of_others.requests()] == [None, None]


def tried(graph: Graph, *splits: Split, off: tuple[str, ...] = ()) -> list[Arrangement]:
    """For the activations of a graph as one segment."""
    cells = Cells(graph)
    tiled = Tiler(graph, STCP).segment(Segment(tuple(op.name for op in graph.ops), splits, (), ()), cells)
    assert not isinstance(tiled, TileOverflow)
    level = STCP.levels.activations
    local = [b for b in local_requests(graph, cells, STCP, 0, tiled[0]) if b.use == level.use]
    return list(arrangements(graph, STCP, tiled[0], local, level, checked(list(off))))


def test_extensions_are_given_up_before_the_next_instance_is() -> None:
    graph = graphs.chain(4, batch=2)
    all_tried = tried(graph, Split(0, 2))
    assert all_tried[0].next_instance is not None
    assert all_tried[0].extended[Extension.OPERATOR_BEFORE] and all_tried[0].extended[Extension.ALL_OPERATORS_BEFORE]
    assert all_tried[-1].next_instance is None and not any(all_tried[-1].extended.values())
    without = [a.next_instance is None for a in all_tried]
    assert without == sorted(without)
    assert all(a.next_instance is None for a in tried(graph))
    positions = [a.next_instance.position for a in all_tried if a.next_instance is not None]
    assert positions[0] == min(positions) >= 1


def test_extensions_can_be_switched_off() -> None:
    plain = tried(graphs.chain(4, batch=2), Split(0, 2), off=("extended-lifetimes",))
    assert 1 <= len(plain) <= 2
    assert not any(a.extended or a.next_instance for a in plain)
