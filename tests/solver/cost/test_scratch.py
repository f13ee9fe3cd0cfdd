"""Private buffers share room by lifetime, and those that both engines use have versions."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from girih.ir.graph import Graph, Op
from girih.ir.load_machine import load_machine
from girih.ir.semantics.cell import Cells
from girih.solver import plan
from girih.solver.cost.local_buffers import scratch_buffers, scratch_groups
from girih.solver.cost.scratch import ScratchBytes, equal_rooms, scratch_lower_bound, scratch_rooms, tile_rooms
from girih.solver.options import Options, Strategy
from tests.support.graphs import attention, elementwise_chain, residual
from tests.support.plans.rough_plans import rough_segments

TINY = load_machine("tiny")


def lives(op: Op, name: str) -> tuple[int, int]:
    touched = [i for i, s in enumerate(op.stages) if name in {s.write.tensor, *(r.tensor for r in s.reads)}]
    return touched[0], touched[-1]


def test_two_rooms_are_enough_for_a_chain() -> None:
    op = elementwise_chain(600).ops[0]
    rooms = scratch_rooms(op, "vector")
    assert rooms.versioned == ()
    assert len(rooms.shared) == 2
    assert rooms.bytes(dict.fromkeys((b.name for b in op.buffers), 100), 32) == ScratchBytes(0, 256)


@pytest.mark.parametrize("graph", [elementwise_chain(9), residual(2), attention()], ids=lambda g: g.name)
def test_what_shares_a_room_lives_one_after_the_other(graph: Graph) -> None:
    for op in graph.ops:
        for engine in ("matrix", "vector"):
            rooms = scratch_rooms(op, engine)
            assert sorted([*rooms.versioned, *(n for room in rooms.shared for n in room)]) == sorted(
                b.name for b in op.buffers
            )
            for room in rooms.shared:
                for a, b in combinations([lives(op, name) for name in room], 2):
                    assert a[1] < b[0] or b[1] < a[0]


def test_tiles_in_other_proportions_than_buffers_have_other_rooms() -> None:
    """Of four buffers in turn, the first two and the last two live together."""
    op = elementwise_chain(5).ops[0]
    usual = scratch_rooms(op, "vector")
    assert [set(room) for room in usual.shared] == [{"t0", "t2"}, {"t1", "t3"}]
    assert tile_rooms(op, "vector", dict.fromkeys(("t0", "t1", "t2", "t3"), 64), 32) == usual
    largest = {"t0": 640, "t1": 32, "t2": 32, "t3": 640}
    rooms = tile_rooms(op, "vector", largest, 32)
    assert usual.bytes(largest, 32).total(1) == 1280
    assert rooms.bytes(largest, 32).total(1) == 704 >= scratch_lower_bound(op, "vector", largest, 32)
    for room in rooms.shared:
        for a, b in combinations([lives(op, name) for name in room], 2):
            assert a[1] < b[0] or b[1] < a[0]
    groups = equal_rooms(op, "vector", rooms.sizes(largest, 32))
    assert sorted(map(sorted, groups)) == sorted(map(sorted, rooms.shared))


def test_what_the_matrix_engine_touches_has_versions_and_a_room_of_its_own() -> None:
    graph = residual(1)
    op = next(o for o in graph.ops if o.contraction is not None and o.buffers)
    assert op.contraction is not None
    result = op.stages[op.contraction].write.tensor
    assert scratch_rooms(op, "matrix").versioned == (result,)
    assert all(result not in room for room in scratch_rooms(op, "matrix").shared)
    assert scratch_rooms(op, "vector").versioned == ()


def test_buffers_that_share_a_room_are_equally_large() -> None:
    graph = attention()
    for segment in rough_segments(graph, TINY):
        buffers = scratch_buffers(graph, Cells(graph), TINY, 0, segment)
        for group in scratch_groups(graph, segment, buffers):
            assert len({(b.op, b.bytes, b.depth, b.live) for b in group}) == 1


@pytest.mark.parametrize("strategy", ["solver", "graphturbo", "layerwise"])
def test_a_long_chain_needs_no_small_tiles(strategy: Strategy) -> None:
    """With a room for each buffer, not even one element of each would fit."""
    graph = elementwise_chain(40, rows=8)
    memories = tuple(replace(m, capacity=1024) if TINY.use_of(m.name) == "accumulator" else m for m in TINY.memories)
    planned = plan(graph, replace(TINY, memories=memories), Options(timeout=1.0, strategy=strategy)).plan
    (tile,) = planned.segments[-1].tiles
    assert tile.sizes == ((1, 32) if strategy == "layerwise" else (4, 32)), "the whole cell"
    assert len({b.address for b in planned.local if b.use == "scratch"}) == 2


def test_host_operators_have_no_scratch() -> None:
    graph = residual(1)
    segment = rough_segments(graph, TINY)[0]
    assert scratch_groups(graph, replace(segment, tiles=()), ()) == []
