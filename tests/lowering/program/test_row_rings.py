"""Constants that come tile by tile: versions take turns, the plan decides how many, and the results are numpy's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest

from girih.frontend.for_machine.swap_operands import swappable, swapped
from girih.ir.box import volume
from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import CheckError
from girih.ir.graph import DTYPES, Graph, Op
from girih.ir.isa.footprint import footprint
from girih.ir.isa.table import Instruction, field
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import LocalBuffer, Plan, Segment
from girih.ir.program import Program
from girih.ir.semantics.cell import Cells, count, tile_boxes
from girih.ir.semantics.region import op_boxes
from girih.ir.semantics.row_stream import is_ring, row_stream
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.options import Options
from girih.solver.timeline.predict import predict
from tests.support import graphs
from tests.support.numpy_check import check, inputs_of
from tests.support.plans.random_plans import random_plan
from tests.support.plans.rough_plans import rough_plan
from tests.support.plans.sequential_plans import sequential_plan
from tests.support.sampled import sampled

pytestmark = pytest.mark.usefixtures("unhurried_solver")

TINY = load_machine("tiny")
TARGETS = {"stcp920": ("float16", 4e-3), "tiny": ("float32", 2e-5)}
ROWS_FIRST, TOKENS_FIRST = (1, 0), (0, 1)
"""Of the dimensions of a result, from the outermost to the innermost; its columns are the rows of the weights."""


def layers(target: str, shape: tuple[int, ...], columns: tuple[int, ...], seed: int = 0) -> Graph:
    """Dense layers one after the other, swapped."""
    net = graphs.Net("layers", TARGETS[target][0], seed)
    x = net.input("x", *shape)
    for number, width in enumerate(columns):
        x = net.matmul(f"l{number}", x, width, relu=number == 0)
    graph = net.graph()
    names = swappable(graph)
    assert len(names) == len(columns)
    return swapped(graph, names)


def rings(plan: Plan) -> list[LocalBuffer]:
    return [b for b in plan.local if is_ring(b)]


def streams(graph: Graph, segment: Segment) -> Iterator[tuple[Op, str]]:
    """The operators of a segment whose constant may come tile by tile."""
    for name in segment.ops:
        op = graph.op[name]
        if name in segment.tile and segment.tile[name].engine == "matrix" and (rows := row_stream(graph, op)):
            yield op, rows


def tiles(graph: Graph, machine: Machine, segment: Segment, op: Op, name: str) -> set[tuple[object, ...]]:
    """All boxes of the constant ``name`` that tiles of an operator read: counted here one by one."""
    cells, tile = Cells(graph), segment.tile[op.name]
    boxes: set[tuple[object, ...]] = set()
    for instance in range(count(segment.instances)):
        for core in range(machine.cores):
            cell = cells.cell(segment, instance, core)
            if op.name in cell.ops:
                parts = tile_boxes(cell.ops[op.name].tensors[op.output], tile.sizes, tile.order)
                boxes |= {op_boxes(op, graph.tensor, part).tensors[name] for part in parts}
    return boxes


def ring_of(graph: Graph, machine: Machine, plan: Plan, name: str, depth: int) -> Plan:
    """The plan, whose buffer of a constant becomes ``depth`` versions of its largest tile, for as long as it is read."""

    def change(buffer: LocalBuffer) -> LocalBuffer:
        if buffer.name != name or buffer.use != "data":
            return buffer
        segment = plan.segments[buffer.segment]
        (op,) = (op for op, rows in streams(graph, segment) if rows == name)
        largest = max(map(volume, tiles(graph, machine, segment, op, name)))  # type: ignore[arg-type]
        size, unit = largest * DTYPES[graph.tensor[name].dtype], machine.levels.activations.alignment
        position = segment.ops.index(op.name)
        return replace(buffer, bytes=depth * -(-size // unit) * unit, depth=depth, live=(position, position + 1))

    return replace(plan, local=tuple(map(change, plan.local)))


# Drawn at random.


@pytest.mark.parametrize("seed", sampled(range(200)))
def test_any_plan_may_have_rings(seed: int) -> None:
    """Partial tiles, any orders, instances, cores in any order, weights in pieces; with rings wherever they fit."""
    rng = Random(seed)
    target = rng.choice(list(TARGETS))
    shape = (rng.randint(1, 20), rng.randint(8, 40))
    if rng.random() < 0.4:
        shape = (rng.randint(1, 3), *shape)
    columns = tuple(rng.randint(20, 90) for _ in range(rng.randint(1, 3)))
    graph, machine = layers(target, shape, columns, seed), load_machine(target)
    ring_plan = random_plan(graph, machine, seed, longest=3)
    for buffer in ring_plan.local:
        if buffer.use == "data" and any(
            n == buffer.name for _, n in streams(graph, ring_plan.segments[buffer.segment])
        ):
            ring_plan = with_room(
                graph, machine, ring_plan, ring_of(graph, machine, ring_plan, buffer.name, rng.choice((2, 2, 3)))
            )
    check(graph, machine, ring_plan, inputs_of(graph, seed), TARGETS[target][1])


def with_room(graph: Graph, machine: Machine, before: Plan, changed: Plan) -> Plan:
    """The changed plan if it is valid, or with its new ring behind all other buffers; else the one of before.

    Where a tile is most of a constant, versions of it take more than that did; and weights that come later may have
    left the shared memory by then.
    """
    level = machine.levels.activations
    end = max(b.address + b.bytes for b in before.local if b.memory == level.name)
    end += -end % level.alignment
    new = {b for b in changed.local if b not in before.local}
    behind = replace(changed, local=tuple(replace(b, address=end) if b in new else b for b in changed.local))
    for tried in (changed, behind):
        try:
            check_plan(tried, graph, machine)
        except CheckError as error:
            assert any(reason in str(error) for reason in ("share", "beyond", "hold it then")), error
        else:
            return tried
    return before


def test_rings_of_plans_that_are_drawn_have_more_tiles_than_versions() -> None:
    """So that the test above means something."""
    longer = 0
    for seed in range(0, 200, 15):
        graph = layers("tiny", (9, 16), (83,), seed)
        ring_plan = random_plan(graph, TINY, seed)
        ring_plan = with_room(graph, TINY, ring_plan, ring_of(graph, TINY, ring_plan, "l0.w", 2))
        for b in rings(ring_plan):
            (op,) = graph.ops
            longer += len(tiles(graph, TINY, ring_plan.segments[b.segment], op, b.name)) > 2 * TINY.cores
    assert longer >= 3


@pytest.mark.parametrize("seed", sampled(range(25)))
def test_constants_that_were_on_the_left_before(seed: int) -> None:
    """A product of weights and activations as a network has it: nothing was swapped."""
    rng = Random(seed)
    target = rng.choice(list(TARGETS))
    net, machine = graphs.Net("left", TARGETS[target][0], seed), load_machine(target)
    n, k, m = rng.randint(20, 90), rng.randint(8, 40), rng.randint(1, 30)
    net.product("y", net.constant("w", n, k), net.input("x", k, m))
    graph = net.graph()
    ring_plan = random_plan(graph, machine, seed, on_vector=0.0)
    ring_plan = with_room(graph, machine, ring_plan, ring_of(graph, machine, ring_plan, "w", 2))
    assert rings(ring_plan)
    check(graph, machine, ring_plan, inputs_of(graph, seed), TARGETS[target][1])


# Plans of the solver.

CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "one layer": ("tiny", (7, 64), (521,)),
    "two layers": ("tiny", (13, 61), (509, 127)),
    "two layers in one segment": ("tiny", (31, 97), (211, 89)),
    "images of tokens": ("tiny", (2, 11, 53), (317, 59)),
    "two layers of primes": ("stcp920", (331, 509), (1021, 251)),
    "few tokens": ("stcp920", (97, 521), (2039,)),
    "many tokens": ("stcp920", (749, 257), (1031, 257)),
}


@cache
def solved(case: str, seed: int = 0) -> tuple[Graph, Plan]:
    target, shape, columns = CASES[case]
    graph = layers(target, shape, columns, seed)
    return graph, plan(graph, load_machine(target), Options(timeout=2.0)).plan


@pytest.mark.parametrize("case", CASES)
def test_weights_that_do_not_fit_come_tile_by_tile(case: str) -> None:
    target, _, _ = CASES[case]
    graph, ring_plan = solved(case)
    machine = load_machine(target)
    check_plan(ring_plan, graph, machine)
    buffers = rings(ring_plan)
    assert buffers
    for ring in buffers:
        # The constant of a core would not fit beside the rest: its versions take less, and take turns.
        assert ring.bytes < graph.tensor[ring.name].bytes
        segment = ring_plan.segments[ring.segment]
        (op,) = (op for op, rows in streams(graph, segment) if rows == ring.name)
        assert len(tiles(graph, machine, segment, op, ring.name)) > ring.depth
    check(graph, machine, ring_plan, inputs_of(graph), TARGETS[target][1])


@pytest.mark.parametrize(("case", "seed"), [("two layers", 1), ("two layers of primes", 2)])
def test_other_weights_are_as_right(case: str, seed: int) -> None:
    target, _, _ = CASES[case]
    graph, ring_plan = solved(case, seed)
    assert rings(ring_plan)
    check(graph, load_machine(target), ring_plan, inputs_of(graph, seed), TARGETS[target][1])


def cycles(graph: Graph, machine: Machine, ring_plan: Plan) -> tuple[int, int]:
    """Predicted and simulated."""
    predicted = predict(graph, Cells(graph), machine, ring_plan, TileWalks(graph, machine)).cycles
    return predicted, simulate(lower(graph, ring_plan, machine), machine, graph.data, {}, data=False).summary.cycles


@pytest.mark.parametrize("case", CASES)
def test_the_prediction_knows_rings(case: str) -> None:
    graph, ring_plan = solved(case)
    predicted, simulated = cycles(graph, load_machine(CASES[case][0]), ring_plan)
    assert abs(predicted - simulated) <= 0.05 * simulated, (predicted, simulated)


# Plans written by hand.

GRAPH = layers("tiny", (8, 16), (40,))
"""On each of two cores 4 tokens, and all of 40 rows of weights, of 64 bytes each."""


def by_hand(
    depth: int, *, rows: int = 10, tokens: int = 4, order: tuple[int, ...] = ROWS_FIRST, core_dim: int = 0, room: int = 0,
    graph: Graph = GRAPH,
) -> Plan:  # fmt: skip
    """Tiles of so many rows of the weights; ``room``: bytes more for each version."""
    ring_plan = sequential_plan(graph, TINY, parts=1, reduce_parts=1, depth=1, core_dim=core_dim)
    (segment,), (tile,) = ring_plan.segments, ring_plan.segments[0].tiles
    tile = replace(tile, sizes=(tokens, rows), order=order)
    ring_plan = replace(ring_plan, segments=(replace(segment, tiles=(tile,)),))
    if depth > 1:
        ring_plan = ring_of(graph, TINY, ring_plan, "l0.w", depth)
        ring_plan = with_ring(ring_plan, bytes=ring(ring_plan).bytes + depth * room)
    return replace(ring_plan, local=tuple(packed(ring_plan.local)))


def packed(local: tuple[LocalBuffer, ...]) -> Iterator[LocalBuffer]:
    """One behind the other, as a ring may take more than all of its constant did."""
    top: dict[str, int] = {}
    for buffer in local:
        yield replace(buffer, address=top.get(buffer.memory, 0))
        top[buffer.memory] = top.get(buffer.memory, 0) + buffer.bytes


def ring(ring_plan: Plan) -> LocalBuffer:
    (buffer,) = (b for b in ring_plan.local if b.name == "l0.w" and b.use == "data")
    return buffer


def with_ring(ring_plan: Plan, **changes: object) -> Plan:
    return replace(
        ring_plan, local=tuple(replace(b, **changes) if b == ring(ring_plan) else b for b in ring_plan.local)
    )  # type: ignore[arg-type]


def loads(ring_plan: Plan, program: Program) -> list[Instruction]:
    """What brings rows of the weights, in the order of the rows: each core broadcasts in its turn."""
    here, number = ring(ring_plan), [m.name for m in TINY.memories].index("L1")
    fetches = [
        i
        for stream in program.streams
        for i in stream
        if {"dst", "src"} <= {o.name for o in i.row.operands}
        if field(i, "dst.mem") == number and field(i, "src.mem") != number
        if here.address <= int(field(i, "dst.base")) < here.address + here.bytes
    ]
    return sorted(fetches, key=lambda i: int(field(i, "src.base")))


def places(ring_plan: Plan, program: Program) -> list[int]:
    """Where in the ring they put them."""
    return [int(field(i, "dst.base")) - ring(ring_plan).address for i in loads(ring_plan, program)]


def results(program: Program, graph: Graph = GRAPH) -> np.ndarray:
    """Of whole numbers, of which sums are exact."""
    data, inputs = ({name: np.rint(4 * array) for name, array in of.items()} for of in (graph.data, inputs_of(graph)))
    trace = simulate(program, TINY, data, inputs)
    assert trace.violations == ()
    (result,) = trace.outputs.values()
    return np.asarray(result)


TILE = 10 * 16 * 4


@pytest.mark.parametrize("depth", [2, 3, 4, 5])
def test_versions_take_turns(depth: int) -> None:
    ring_plan = by_hand(depth)
    program = lower(GRAPH, ring_plan, TINY)
    assert places(ring_plan, program) == [TILE * (tile % depth) for tile in range(4)]
    np.testing.assert_array_equal(results(program), results(lower(GRAPH, by_hand(1), TINY)))


def test_a_constant_in_one_version_comes_as_a_whole() -> None:
    ring_plan = by_hand(1)
    assert places(ring_plan, lower(GRAPH, ring_plan, TINY)) == [0]


@pytest.mark.parametrize(("depth", "number"), [(2, 8), (3, 8), (4, 4)])
def test_what_a_version_holds_is_not_brought_again(depth: int, number: int) -> None:
    """Four tiles of rows, needed for two tiles of tokens in turn: with all four in their versions, they come once."""
    ring_plan = by_hand(depth, tokens=2, order=TOKENS_FIRST)
    program = lower(GRAPH, ring_plan, TINY)
    assert len(places(ring_plan, program)) == number
    np.testing.assert_array_equal(results(program), results(lower(GRAPH, by_hand(1), TINY)))
    once = by_hand(2, tokens=2, order=ROWS_FIRST)
    assert len(places(once, lower(GRAPH, once, TINY))) == 4


@pytest.mark.parametrize("rows", [1, 3, 7, 8, 13, 39, 40])
def test_tiles_of_any_number_of_rows(rows: int) -> None:
    ring_plan = by_hand(2, rows=rows)
    program = lower(GRAPH, ring_plan, TINY)
    assert len(places(ring_plan, program)) == -(-40 // rows)
    np.testing.assert_array_equal(results(program), results(lower(GRAPH, by_hand(1), TINY)))


def test_what_all_cores_read_is_broadcast() -> None:
    """Tokens on two cores want the same rows; rows on two cores are of each core alone."""
    bytes_, kinds = [], []
    for core_dim in (0, 1):
        ring_plan = by_hand(2, rows=5, tokens=8 if core_dim else 4, core_dim=core_dim)
        program = lower(GRAPH, ring_plan, TINY)
        brought = loads(ring_plan, program)
        bytes_.append(sum(footprint(i)[1].bytes for i in brought))
        kinds.append({i.mnemonic for i in brought})
        np.testing.assert_array_equal(results(program), results(lower(GRAPH, by_hand(1), TINY)))
    assert bytes_ == [40 * 16 * 4] * 2
    assert "mbcast" in kinds[0] and "mbcast" not in kinds[1]


def test_more_versions_and_more_room_show_in_the_program() -> None:
    two, three, roomy = by_hand(2), by_hand(3), by_hand(2, room=64)
    programs = [lower(GRAPH, ring_plan, TINY) for ring_plan in (two, three, roomy)]
    assert [places(m, p) for m, p in zip((two, three, roomy), programs, strict=True)] == [
        [0, TILE, 0, TILE], [0, TILE, 2 * TILE, 0], [0, TILE + 64, 0, TILE + 64],
    ]  # fmt: skip
    for program in programs[1:]:
        assert program.streams != programs[0].streams
        np.testing.assert_array_equal(results(program), results(programs[0]))


def test_a_ring_moves_with_its_address() -> None:
    ring_plan = by_hand(2)
    end = max(b.address + b.bytes for b in ring_plan.local if b.memory == "L1")
    moved = with_ring(ring_plan, address=end)
    before, after = (lower(GRAPH, p, TINY) for p in (ring_plan, moved))
    assert places(ring_plan, before) == places(moved, after)
    assert before.streams != after.streams
    np.testing.assert_array_equal(results(before), results(after))


def refused(ring_plan: Plan, match: str, graph: Graph = GRAPH) -> None:
    with pytest.raises(CheckError, match=match):
        check_plan(ring_plan, graph, TINY)


NAMED = r"the data buffer of l0\.w in segment 0"


def test_a_ring_has_room_for_its_largest_tile() -> None:
    ring_plan = by_hand(2)
    check_plan(ring_plan, GRAPH, TINY)
    refused(
        with_ring(ring_plan, bytes=2 * (TILE - 32)),
        rf"{NAMED} has {TILE - 32} bytes a version, and a tile needs {TILE}",
    )
    # The last tile may be smaller than the others: the ring is for the largest one.
    uneven = by_hand(2, rows=39)
    refused(with_ring(uneven, bytes=2 * 64), f"{NAMED} has 64 bytes a version")
    # What is enough for tiles is not enough for the whole.
    refused(
        with_ring(ring_plan, bytes=2 * TILE, depth=1),
        rf"{NAMED} has {2 * TILE} bytes a version, and a tile needs {4 * TILE}",
    )
    # And what is enough for two versions is not for three.
    refused(with_ring(ring_plan, bytes=3 * 416, depth=3), f"{NAMED} has 416 bytes a version")


def test_a_ring_consists_of_whole_aligned_versions() -> None:
    ring_plan = by_hand(2)
    refused(with_ring(ring_plan, bytes=2 * TILE + 32), rf"{NAMED} has \d+ bytes, not 2 versions of whole 32 bytes")
    refused(with_ring(ring_plan, address=ring(ring_plan).address + 4), f"{NAMED} is at address")
    refused(with_ring(ring_plan, depth=0), NAMED)


def test_a_ring_is_alone_where_it_is() -> None:
    ring_plan = by_hand(2)
    check_plan(ring_plan, GRAPH, TINY)
    others = [b for b in ring_plan.local if b.memory == "L1" and b != ring(ring_plan)]
    assert len(others) >= 3
    for other in others:
        # The second version lies on the other buffer, not the first one.
        refused(with_ring(ring_plan, address=max(0, other.address - TILE)), "share")
    capacity = TINY.levels.activations.capacity
    refused(with_ring(ring_plan, address=capacity - TILE), f"{NAMED} ends {TILE} bytes beyond")


def test_a_ring_lives_while_it_is_read() -> None:
    refused(with_ring(by_hand(2), live=(0, 0)), NAMED)
    refused(with_ring(by_hand(2), live=(0, 2)), NAMED)


@pytest.mark.parametrize(("live", "weights", "right"), [
    ((1, 2), (1, 2), True), ((1, 2), (0, 2), True), ((1, 2), (0, 1), False), ((0, 2), (0, 1), False),
])  # fmt: skip
def test_rows_come_while_the_shared_memory_has_them(
    live: tuple[int, int], weights: tuple[int, int], right: bool
) -> None:
    """Of two operators in one segment, the second one reads rows when it runs, however early its ring begins: a constant
    as a whole would have come by then."""
    graph = layers("tiny", (8, 16), (24, 40))
    ring_plan = rough_plan(graph, TINY, group=2)
    assert len(ring_plan.segments) == 1
    end = max(b.address + b.bytes for b in ring_plan.local if b.memory == "L1")
    whole = replace(ring_plan, local=tuple(
        replace(b, address=end + -end % 32, live=live) if (b.name, b.use) == ("l1.w", "data") else b for b in ring_plan.local
    ))  # fmt: skip
    ringed = ring_of(graph, TINY, whole, "l1.w", 2)
    ringed = replace(
        ringed,
        local=tuple(replace(b, live=live) if is_ring(b) else b for b in ringed.local),
        shared=tuple(replace(b, live=weights) if (b.tensor, b.memory) == ("l1.w", "LLB") else b for b in ringed.shared),
    )
    assert len(rings(ringed)) == 1
    if right:
        check(graph, TINY, ringed, inputs_of(graph), 2e-5)
    else:
        refused(ringed, r"l1\.w", graph)


def test_no_other_data_comes_in_versions() -> None:
    """Activations, and the bias: one version each; all memory is free behind them."""
    ring_plan = by_hand(2)
    end = max(b.address + b.bytes for b in ring_plan.local if b.memory == "L1")
    for name in ("x", "l0", "l0.b"):
        local = tuple(
            replace(b, address=end, bytes=2 * b.bytes, depth=2) if (b.name, b.use) == (name, "data") else b
            for b in ring_plan.local
        )
        refused(replace(ring_plan, local=local), rf"the data buffer of {name} in segment 0 has 2 versions")


def test_the_vector_engine_reads_no_ring() -> None:
    ring_plan = sequential_plan(GRAPH, TINY, parts=1, depth=1, core_dim=0, matrix=False)
    ring_plan = replace(ring_plan, local=tuple(packed(tuple(
        replace(b, bytes=2 * b.bytes, depth=2) if b.name == "l0.w" else b for b in ring_plan.local
    ))))  # fmt: skip
    refused(ring_plan, rf"{NAMED} has 2 versions, and its tile wants 1")


def test_what_stays_in_the_array_has_no_ring() -> None:
    """Of the graph as it was, the same weights are no data at all."""
    graph = graphs.matmul(m=8, k=16, n=40, dtype="float32")
    ring_plan = sequential_plan(graph, TINY, parts=1, depth=1)
    check_plan(ring_plan, graph, TINY)
    end = max(b.address + b.bytes for b in ring_plan.local if b.memory == "L1")
    extra = LocalBuffer(0, "", "matmul.w", "data", "L1", end, 2 * TILE, 2, (0, 1))
    refused(replace(ring_plan, local=(*ring_plan.local, extra)), "the data buffer|a data buffer of matmul.w", graph)


def test_all_elements_of_a_swapped_product_are_numpy_s() -> None:
    """Whole numbers, of which sums are exact in any order; with a ring and without."""
    data, inputs = ({n: np.rint(4 * a) for n, a in of.items()} for of in (GRAPH.data, inputs_of(GRAPH)))
    expected = np.maximum(inputs["x"] @ data["l0.w"].T + data["l0.b"], 0)
    for depth in (1, 2, 3):
        np.testing.assert_array_equal(results(lower(GRAPH, by_hand(depth), TINY)), expected)
