"""What is refused before any model is asked fits nowhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import InfeasibleError
from girih.ir.graph import Access, Affine, Axis, Graph, Stage, Tensor
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine, Role
from girih.solver import plan
from girih.solver.cost.scratch import scratch_lower_bound, scratch_rooms
from girih.solver.loop.precheck import check_smallest
from girih.solver.options import Options, Strategy
from tests.support import graphs
from tests.support.graphs import Net

TINY = load_machine("tiny")


def broadcast_sums(extent: int = 64) -> Graph:
    """One operator; a tile of one element needs all of ``R`` and ``R2``, but one element of ``E`` and ``T``."""
    net = Net("sums", "float16")
    net.elementwise("op", "exp", net.input("x", extent, extent))
    graph = net.graph()
    (op,) = graph.ops
    square = (Axis("i", extent), Axis("j", extent))
    summed = (*square, Axis("k", extent, True), Axis("l", extent, True))
    ij = (Affine((1, 0), 0), Affine((0, 1), 0))
    outer = (Affine((1, 0, 0, 0), 0), Affine((0, 1, 0, 0), 0))
    inner = (Affine((0, 0, 1, 0), 0), Affine((0, 0, 0, 1), 0))
    first = (Affine((0, 0), 0), Affine((0, 0), 0))
    stages = (
        Stage(square, Access("E", ij), "exp", (Access("x", ij),)),
        Stage(square, Access("R", ij), "tanh", (Access("x", ij),)),
        Stage(summed, Access("T", outer), "add", (Access("E", outer), Access("R", inner)), combine="sum"),
        Stage(square, Access("R2", ij), "copy", (Access("T", first),)),
        Stage(summed, Access(op.output, outer), "copy", (Access("R2", inner),), combine="sum"),
    )
    buffers = tuple(Tensor(name, (extent, extent), "float16") for name in ("E", "R", "T", "R2"))
    return replace(graph, ops=(replace(op, buffers=buffers, stages=stages),))


def memory_of(role: Role, capacity: int) -> Machine:
    memories = tuple(replace(m, capacity=capacity) if TINY.use_of(m.name) == role else m for m in TINY.memories)
    return replace(TINY, memories=memories)


def accumulator_of(capacity: int) -> Machine:
    return memory_of("accumulator", capacity)


def test_rooms_that_take_more_than_what_is_live_refuse_nothing() -> None:
    """8,192 bytes of R or R2, and E and T: what is live at one time fits in 8.5 KiB, both large ones would not."""
    graph = broadcast_sums()
    tile_bytes = {"E": 2, "R": 8192, "T": 2, "R2": 8192}
    assert scratch_rooms(graph.ops[0], "vector").bytes(tile_bytes, 32).total(1) == 16_416
    assert scratch_lower_bound(graph.ops[0], "vector", tile_bytes, 32) == 8_256
    check_smallest(graph, accumulator_of(8_704))


@pytest.mark.parametrize("strategy", ["solver", "graphturbo", "layerwise"])
def test_tiles_are_judged_with_rooms_for_their_own_sizes(strategy: Strategy) -> None:
    """Rooms for whole buffers put E with R2 and R with T, so that there are two of 8 KiB."""
    graph = broadcast_sums(16)
    machine = accumulator_of(1024)
    assert scratch_rooms(graph.ops[0], "vector").bytes({"E": 2, "R": 512, "T": 2, "R2": 512}, 32).total(1) > 1024
    planned = plan(graph, machine, Options(timeout=1.0, strategy=strategy)).plan
    check_plan(planned, graph, machine)


def test_what_is_live_at_one_stage_must_fit() -> None:
    with pytest.raises(InfeasibleError, match=r"8,2\d\d"):
        check_smallest(broadcast_sums(), accumulator_of(8_192))


def product() -> Graph:
    """Rows of 100 numbers of four bytes: 416 bytes in memories of an alignment of 32."""
    return graphs.matmul(m=8, k=100, n=8, dtype="float32")


@pytest.mark.parametrize(
    ("role", "need", "what"),
    [
        ("main", 8 * 100 * 4 + 100 * 8 * 4 + 8 * 4 + 8 * 8 * 4, "constants, inputs and outputs"),
        ("shared", 416 + 32, "operator matmul: what one element of its result takes of x and matmul"),
        ("local", 416 + 32 + 32, "operator matmul: one element of its result and what that reads, most of it x"),
        ("accumulator", 32, "operator matmul: the smallest tile on MME"),
        ("weights", 32, "operator matmul: the smallest tile on MME"),
    ],
)
def test_each_memory_must_hold_what_no_plan_can_do_without(role: Role, need: int, what: str) -> None:
    check_smallest(product(), memory_of(role, need))
    (name,) = (m.name for m in TINY.memories if TINY.use_of(m.name) == role)
    with pytest.raises(
        InfeasibleError, match=f"{what}.* need(s)? {need:,} bytes of {name}, 1 more than the {need - 1:,} "
    ):
        check_smallest(product(), memory_of(role, need - 1))


def test_a_movement_in_place_needs_nothing_that_others_do_not() -> None:
    net = Net("copy", "float32")
    net.elementwise("op", "copy", net.input("x", 8, 8))
    check_smallest(net.graph(), memory_of("local", 32))
