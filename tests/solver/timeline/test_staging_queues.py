"""Copies that stage operands in the predicted timeline, against the simulator and by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Link, Machine
from girih.ir.semantics.cell import Cells
from girih.ir.semantics.staging.staging_rooms import StagingRooms
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver.cost.copy_time import CopyTime, Stopover
from girih.solver.cost.staged_run import StagedCopy, StagedRun
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.timeline.predict import predict
from girih.solver.timeline.staging_queues import FOLLOWED, StagingQueues, StagingTimes
from tests.support import graphs
from tests.support.machines import with_engines
from tests.support.plans.plain_plans import plain_plan
from tests.support.staged_machines import staged_kinds

TINY = load_machine("tiny")
GRAPHS = {"matmul": graphs.matmul, "conv": graphs.conv, "residual": graphs.residual, "attention": graphs.attention}


def error(graph: Graph, machine: Machine, depth: int) -> float:
    """Of the prediction: 0.1 if it is a tenth too high."""
    plan = plain_plan(graph, machine, depth=depth, barrier=depth == 1)
    predicted = predict(graph, Cells(graph), machine, plan, TileWalks(graph, machine)).cycles
    simulated = simulate(lower(graph, plan, machine), machine, graph.data, {}, data=False).summary.cycles
    return predicted / simulated - 1.0


@pytest.mark.parametrize("kind", staged_kinds(TINY))
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("depth", [1, 2])
def test_what_is_staged_is_predicted(kind: str, name: str, depth: int) -> None:
    # Where sums go there and back, a stage is taken to wait for all that the one before has written.
    most = 0.06 if kind == "vectors and sums" else 0.03
    assert abs(error(GRAPHS[name](dtype="float32"), staged_kinds(TINY)[kind], depth)) <= most


@pytest.mark.parametrize("kind", ["activations", "weights", "vectors"])
@pytest.mark.parametrize("name", GRAPHS)
def test_links_of_staging_memories_are_predicted(kind: str, name: str) -> None:
    # Slower than the engines that copy, and shared by those of both cores.
    plain = staged_kinds(TINY)[kind]
    machine = replace(plain, links=(*plain.links, Link("stage", plain.staging_memories, "both", 8.0, 20)))
    assert abs(error(GRAPHS[name](dtype="float32"), machine, 1)) <= 0.05


@pytest.mark.parametrize(("kind", "name"), [("activations", "matmul"), ("weights", "matmul"), ("weights", "conv")])
def test_many_blocks_of_one_instruction_are_predicted(kind: str, name: str) -> None:
    # Cut 16 times and more in its reduction, where each block adds to what is there.
    assert abs(error(GRAPHS[name](dtype="float32"), staged_kinds(TINY, 512)[kind], 1)) <= 0.01


def queues() -> StagingQueues:
    return StagingQueues({"IN": 0.0, "OUT": 0.0}, {name: StagingTimes(StagingRooms(100, 1)) for name in ("UB", "L0B")})


def run_of(blocks: int, *, into: float, work: float, back: float = 0.0, room: int = 50) -> StagedRun:
    """Blocks that take so many cycles each to copy, to compute and to copy back, and ``room`` of 100 bytes."""
    copies = [StagedCopy(0, "UB", "IN", blocks, into * blocks, 2, back=False)]
    if back:
        copies.append(StagedCopy(1, "UB", "OUT", blocks, back * blocks, 3, back=True))
    return StagedRun(blocks, work * blocks, tuple(copies), (("UB", room, 1),))


def test_the_first_copy_is_waited_for_and_the_last_one_back_is() -> None:
    span = queues().run([run_of(1, into=10, work=20, back=5)], 0.0, 0.0, {0: 100.0}, 0.0, 4, 0.0)
    assert (span.begun, span.ended) == (112.0, 132.0)
    assert span.last_copies == {0: (112.0, "IN"), 1: (132.0 + 4 + 5 + 3, "OUT")}
    # What comes back waits for its place.
    late = queues().run([run_of(1, into=10, work=20, back=5)], 0.0, 0.0, {}, 500.0, 4, 0.0)
    assert late.ended == 32.0 and late.last_copies[1] == (508.0, "OUT")


def test_while_a_block_is_computed_the_next_one_is_copied() -> None:
    span = queues().run([run_of(4, into=10, work=20)], 0.0, 0.0, {}, 0.0, 4, 0.0)
    assert (span.begun, span.ended) == (12.0, 12.0 + 4 * 20)
    # The slower one decides.
    assert queues().run([run_of(4, into=20, work=10)], 0.0, 0.0, {}, 0.0, 4, 0.0).ended == 4 * 20 + 2 + 10


def test_blocks_that_take_all_of_a_memory_wait_for_one_another() -> None:
    whole = run_of(3, into=10, work=20, room=60)
    # Each copy waits until the block before is computed, and that is visible.
    assert queues().run([whole], 0.0, 0.0, {}, 0.0, 4, 0.0).ended == 3 * (10 + 2 + 20) + 2 * 4


def test_small_rooms_let_copies_run_ahead() -> None:
    """Of two stages that take turns, the second's room does not keep the first's next one away."""
    stages = [run_of(1, into=10, work=50, room=40), run_of(1, into=1, work=20, room=10)]
    ahead, behind = queues(), queues()
    behind.rooms["UB"] = StagingTimes(StagingRooms(45, 1))
    assert ahead.run(stages * 3, 0.0, 0.0, {}, 0.0, 4, 0.0).ended == 12 + 3 * 70
    assert behind.run(stages * 3, 0.0, 0.0, {}, 0.0, 4, 0.0).ended > 12 + 3 * 70


def test_what_the_block_before_has_staged_is_not_copied_again() -> None:
    kept = StagedRun(8, 80.0, (StagedCopy(0, "L0B", "IN", 2, 100.0, 0, back=False),), (("L0B", 50, 1),))
    # Four blocks of 10 cycles for each copy of 50: the second copy begins with the first block.
    assert queues().run([kept], 0.0, 0.0, {}, 0.0, 0, 0.0).ended == 50 + 50 + 40


def by_room(parts: int = 1) -> CopyTime:
    """80 bytes in so many parts, of which IN takes 10 cycles each, visible after 2, and OUT 20 bytes a cycle."""
    stopover = Stopover("UB", "IN", parts, 80 // parts, 10.0, 2, 12)
    return CopyTime(1, 1, 80, 20.0, (), 3 + 12, stopover=stopover)


OUT = replace(TINY.engine_for("copy"), name="OUT", issue=1, latency=3, bytes_per_cycle=20)


def test_a_copy_by_a_staging_memory_takes_both_engines() -> None:
    free = queues()
    assert free.copy_by_room(by_room(), OUT, 100.0, 0.0) == 100 + 10 + 2 + 1 + 4 + 3
    assert free.queues == {"IN": 110.0, "OUT": 117.0}
    # The place that it goes to is awaited by the second one alone.
    late = queues()
    assert late.copy_by_room(by_room(), OUT, 0.0, 500.0) == 500 + 1 + 4 + 3 and late.queues["IN"] == 10.0


def test_a_copy_by_a_staging_memory_comes_after_what_these_engines_have_staged() -> None:
    """The operator before copies back until 39: the second half of what is copied meanwhile waits for that."""
    after = queues()
    after.run([run_of(1, into=10, work=20, back=5, room=40)], 0.0, 0.0, {}, 0.0, 2, 0.0)
    assert after.queues == {"IN": 10.0, "OUT": 39.0}
    assert after.copy_by_room(by_room(), OUT, 0.0, 0.0) == pytest.approx(
        42 + 10 + 2 + 1 + 4 + 3
    )  # for its room, until 42
    other = queues()
    other.queues["OUT"] = 39.0
    assert other.copy_by_room(by_room(), OUT, 0.0, 0.0) == 39 + 1 + 4 + 3


def test_parts_of_a_copy_by_a_staging_memory_overlap() -> None:
    # 40 bytes each: the second is copied in while the first leaves.
    assert queues().copy_by_room(by_room(2), OUT, 0.0, 0.0) == 2 * 10 + 2 + 1 + 2 + 3


def test_a_part_of_a_copy_waits_for_the_room_of_the_one_before_the_last() -> None:
    """Two parts of 40 bytes have room in 100: the third is copied in when the first has left, and that is visible."""
    used = queues()
    four = Stopover("UB", "IN", 4, 40, 10.0, 2, 12)
    first = used.copy_into_room(four, 0.0)
    assert first == 12.0
    left = 12 + 20  # of the first; the third is there when the second leaves, until 52
    assert used.copy_from_rooms(four, 0.0, first, 0.0, 20.0, 30) == (left + 30 + 12) + 2 * 20
    assert used.queues["IN"] == left + 20 + 30 + 10  # the fourth, when the second has left
    # Both rooms are in use until what was in them has left.
    assert used.copy_into_room(four, 0.0) == (left + 30 + 12) + 20 + 30 + 12


@pytest.mark.parametrize("name", ["conv", "residual"])
@pytest.mark.parametrize("latency", [16, 200])
def test_results_larger_than_the_staging_memory_on_their_way_out_are_predicted(name: str, latency: int) -> None:
    """Many parts of a copy that share two rooms: each waits until the one before the last has left its room."""
    machine = load_machine("ascend310")
    slow = with_engines(machine, lambda e: replace(e, latency=latency) if e.name == "MTE3" else e)
    small = tuple(replace(m, capacity=2048) if m.name == "UB" else m for m in machine.memories)
    assert abs(error(GRAPHS[name](dtype="float16"), replace(slow, memories=small), 1)) <= 0.02


@pytest.mark.parametrize("heads", [2, 4])
def test_keys_of_several_heads_that_go_by_a_staging_memory_are_predicted(heads: int) -> None:
    """What is copied back of one head's scores keeps the next head's keys waiting, on the engine of both."""
    machine = load_machine("ascend310")
    graph = graphs.attention(dtype="float16", heads=heads)
    assert abs(error(graph, machine, 2)) <= 0.03


def test_copies_of_other_operators_hold_a_queue() -> None:
    busy = queues()
    busy.take({"IN": [30.0, 70.0], "OUT": [0.0, 0.0]})
    assert busy.run([run_of(1, into=10, work=20)], 0.0, 0.0, {}, 0.0, 4, 0.0).begun == 82.0
    times = {"IN": [0.0, 0.0], "OUT": [500.0, 0.0], "DMA": [1.0]}
    busy.give(times)
    assert times == {"IN": [80.0, 80.0], "OUT": [500.0, 0.0], "DMA": [1.0]}


@pytest.mark.parametrize(("into", "work"), [(10, 20), (20, 10)])
def test_blocks_that_are_not_followed_go_at_the_pace_of_the_others(into: int, work: int) -> None:
    many = 50 * FOLLOWED
    used = queues()
    span = used.run([run_of(many, into=into, work=work)], 0.0, 0.0, {}, 0.0, 4, 0.0)
    assert span.ended == pytest.approx(max(into, work) * many + 2 + min(into, work))
    assert used.queues["IN"] <= span.ended <= used.queues["IN"] + 2 * into + work + 6
