"""The predicted timeline against the simulator, and what it must not depend on."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from girih.ir.box import Span, full, overlap, shape_of
from girih.ir.checks.check_plan import check_plan
from girih.ir.graph import Graph, Op
from girih.ir.load_machine import load_machine
from girih.ir.machine import Engine, Machine
from girih.ir.plan import Plan, Segment, SharedBuffer, Split, Tile
from girih.ir.semantics.cell import Cells, tile_boxes
from girih.ir.semantics.portions import portions
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver.cost.copy_time import Transfers
from girih.solver.cost.tile_walk import TileWalk, TileWalks, last_tile, last_tiles
from girih.solver.cost.transfers import Copies
from girih.solver.subproblem.operand_movement import portion_extents, with_movement
from girih.solver.timeline.predict import PredictedTimeline, predict
from girih.solver.timeline.streams.weight_buffer import conflict_cycles
from tests.support import graphs
from tests.support.machines import with_engines
from tests.support.plans.plain_plans import plain_plan

DTYPE = {"tiny": "float32", "stcp920": "float16"}
GRAPHS = {"matmul": graphs.matmul, "conv": graphs.conv, "residual": graphs.residual, "attention": graphs.attention}


def timeline(graph: Graph, machine: Machine, plan: Plan) -> PredictedTimeline:
    return predict(graph, Cells(graph), machine, plan, TileWalks(graph, machine))


def assert_near(graph: Graph, machine: Machine, plan: Plan, *, within: float) -> None:
    """The prediction is off by no more than this part of the simulated cycles."""
    predicted = timeline(graph, machine, plan).cycles
    simulated = simulate(lower(graph, plan, machine), machine, graph.data, {}, data=False).summary.cycles
    assert abs(predicted - simulated) <= within * simulated, (predicted, simulated)


@pytest.mark.parametrize("target", DTYPE)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("barrier", [True, False])
def test_predicted_cycles_are_near_the_simulated_ones(target: str, name: str, barrier: bool) -> None:
    machine = load_machine(target)
    graph = GRAPHS[name](dtype=DTYPE[target])
    plan = plain_plan(graph, machine, depth=1 if barrier else 2, barrier=barrier)
    assert_near(graph, machine, plan, within=0.1)


def one_queue_for_both_directions(machine: Machine) -> Machine:
    """A core loads and stores with one engine, and DMA does both with one."""
    other = {"MTI": "MTO", "DMR": "DMW"}

    def change(engine: Engine) -> Engine | None:
        if engine.name not in other:
            return None if engine.name in other.values() else engine
        back = machine.engine[other[engine.name]]
        both = (tuple(dict.fromkeys((*a, *b))) for a, b in ((engine.reads, back.reads), (engine.writes, back.writes)))
        reads, writes = both
        return replace(engine, reads=reads, writes=writes)

    return with_engines(machine, change)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("barrier", [True, False])
def test_directions_that_share_an_engine_take_turns_and_see_their_own_results_at_once(name: str, barrier: bool) -> None:
    # Links of the main memory take as long as ten small transfers: whether they are waited for is what counts.
    tiny = load_machine("tiny")
    machine = one_queue_for_both_directions(
        replace(tiny, links=tuple(replace(li, latency=500) if li.memory == "DDR" else li for li in tiny.links))
    )
    graph = GRAPHS[name](dtype="float32")
    plan = plain_plan(graph, machine, depth=1 if barrier else 2, barrier=barrier)
    assert_near(graph, machine, plan, within=0.03)


@pytest.mark.parametrize("role", ["weights", "accumulator", "local"])
@pytest.mark.parametrize("part", [0.25, 0.5, 1, 2])
@pytest.mark.parametrize("layer", ["matmul", "conv"])
def test_memories_that_serve_less_than_the_array_wants_slow_it(layer: str, role: str, part: float) -> None:
    # A cycle of the array takes 64 halves of the left operand and 32 of the right one; a block of 64 x 32 sums in single
    # precision is written in 64 cycles at 128 bytes in each.
    machine = load_machine("stcp920")
    wanted = {"weights": 64, "accumulator": 128, "local": 128}[role]
    memories = (
        replace(m, bytes_per_cycle=int(part * wanted)) if machine.use_of(m.name) == role else m
        for m in machine.memories
    )
    machine = replace(machine, memories=tuple(memories))
    graph = {
        "matmul": lambda: graphs.matmul(m=512, k=512, n=1024, dtype="float16"),
        "conv": lambda: graphs.conv(size=28, channels=128, out=128, kernel=3, dtype="float16"),
    }[layer]()
    plan = plain_plan(graph, machine, depth=2, barrier=False)
    assert_near(graph, machine, plan, within=0.05)


def test_loads_into_the_bank_that_the_matrix_engine_reads_cost_it_cycles() -> None:
    # The array takes 32 halves a cycle, loads bring 64 bytes: of 128 for both, a bank of 64 lacks one byte for each
    # that is loaded, and one of 96 half a byte; where the array gets less than it wants, each byte comes on top.
    machine = load_machine("stcp920")

    def cost(served: int, interleave: int = 0) -> float:
        memories = (
            replace(m, bytes_per_cycle=served, interleave=interleave, banks=4)
            if machine.use_of(m.name) == "weights"
            else m
            for m in machine.memories
        )
        return conflict_cycles(replace(machine, memories=tuple(memories)), 16384)

    assert cost(256) == cost(128) == 0.0
    # Two banks that take turns have half of both; four have enough.
    assert (cost(32, 8192), cost(32, 4096)) == (pytest.approx(cost(64)), 0.0)
    assert cost(96) == pytest.approx(32 / (64 * 96))
    assert (cost(64), cost(32)) == (pytest.approx(1 / 64), pytest.approx(1 / 32))


@pytest.mark.parametrize("name", ["matmul", "attention"])
def test_loads_cost_the_matrix_engine_nothing_while_it_does_nothing(name: str) -> None:
    # All banks have a part of each version; a load is mostly over before products begin.
    machine = load_machine("tiny")
    memories = (
        replace(m, bytes_per_cycle=4, interleave=m.alignment) if machine.use_of(m.name) == "weights" else m
        for m in machine.memories
    )
    machine = replace(machine, memories=tuple(memories))
    graph = GRAPHS[name](dtype="float32")
    plan = plain_plan(graph, machine, depth=2, barrier=False)
    assert_near(graph, machine, plan, within=0.03)


def test_cores_with_fewer_tiles_fetch_weights_apart() -> None:
    # Of 97 rows, one core has two tiles for each tile of weights and the other has one: all but the first come twice.
    machine = load_machine("tiny")
    links = (replace(x, bytes_per_cycle=x.bytes_per_cycle / (16 if x.name == "llb-read" else 1)) for x in machine.links)
    slow = replace(machine, links=tuple(links))
    graph = graphs.matmul(m=97, k=32, n=64, dtype="float32")
    plan = plain_plan(graph, slow, depth=2, barrier=False)
    (segment,) = plan.segments
    (tile,) = segment.tiles
    assert tile.sizes[0] >= 48 and tile.reduce == (32,)
    tile = replace(tile, sizes=(48, 8), order=(1, 0))
    plan = replace(plan, segments=(replace(segment, tiles=(tile,)),))
    plan = with_movement(plan, graph, Cells(graph), slow)
    assert_near(graph, slow, plan, within=0.03)


def test_slots_follow_one_another_behind_barriers() -> None:
    machine = load_machine("tiny")
    graph = graphs.residual(dtype="float32")
    found = timeline(graph, machine, plain_plan(graph, machine))
    assert [p.op for p in found.predictions][:1] == ["stem"]
    for before, after in zip(found.predictions, found.predictions[1:], strict=False):
        assert before.start <= before.stop <= after.start
    assert found.predictions[-1].stop <= found.cycles


def test_without_barriers_it_is_never_slower() -> None:
    machine = load_machine("tiny")
    graph = graphs.chain(dtype="float32")
    plan = plain_plan(graph, machine)
    with_barriers, without = timeline(graph, machine, plan), timeline(graph, machine, replace(plan, barrier=False))
    assert without.cycles <= with_barriers.cycles


def test_more_versions_are_never_slower() -> None:
    machine = load_machine("tiny")
    graph = graphs.conv(size=32, channels=16, out=32, dtype="float32")
    one, two = (plain_plan(graph, machine, depth=d, barrier=False) for d in (1, 2))
    sizes = two.segments[0].tiles[0].sizes
    tile = replace(one.segments[0].tiles[0], sizes=sizes)
    assert timeline(graph, machine, two).cycles <= timeline(graph, machine, one).cycles * 1.05, tile


@pytest.mark.parametrize("name", GRAPHS)
def test_what_other_predictions_found_out_changes_nothing(name: str) -> None:
    machine = load_machine("stcp920")
    graph = GRAPHS[name](dtype="float16")
    shared = TileWalks(graph, machine)
    cells = Cells(graph)
    told: set[int] = set()
    plan = plain_plan(graph, machine, depth=2, barrier=False)
    for parts, back in ((1, False), (2, True), (3, False), (2, False), (1, False)):
        other = replace(plan, segments=tuple(_cut(segment, parts, back) for segment in plan.segments))
        alone = timeline(graph, machine, other)
        assert predict(graph, cells, machine, other, shared) == alone
        told.add(alone.cycles)
    assert len(told) > 1


def _cut(segment: Segment, parts: int, back: bool) -> Segment:
    """With each tile in so many parts in each dimension, the loops the other way round if ``back``."""
    tiles = tuple(
        replace(t, sizes=tuple(-(-s // parts) for s in t.sizes), order=t.order[::-1] if back else t.order)
        for t in segment.tiles
    )
    return replace(segment, tiles=tiles)


def test_loads_are_grouped_by_box_and_cut_into_portions() -> None:
    machine = load_machine("stcp920")
    copies = Copies(Transfers(machine))
    random = Random(0)
    for _ in range(100):
        shapes = [(random.randint(1, 64), random.randint(1, 2048)) for _ in range(3)]
        # The same box may lie in rooms of different sizes: those are copies of their own.
        rooms = [(full(shape), full((shape[0], shape[1] + more))) for shape in shapes for more in (0, 64)]
        boxes = tuple(random.choice([None, *rooms]) for _ in range(8))
        load = copies.load(boxes, (16, 500), machine.levels.exchange)
        assert [(g.box, g.room) for g in load.groups] == [b for b in dict.fromkeys(boxes) if b is not None]
        for group in load.groups:
            assert list(group.cores) == [c for c, box in enumerate(boxes) if box == (group.box, group.room)]
            assert list(group.portions) == portions(group.box, (16, 500))
        assert load.turns == max((len(g.portions) for g in load.groups), default=0)
        exchange = machine.levels.exchange
        again = Copies(Transfers(machine)).load(boxes, (64, 100), exchange)
        assert copies.load(boxes, (64, 100), exchange) == again


def test_the_last_tile_of_one_box_is_that_of_many() -> None:
    random = Random(0)
    for _ in range(200):
        box = full(tuple(random.randint(1, 9) for _ in range(3)))
        sizes = tuple(random.randint(1, span.size) for span in box)
        order = tuple(random.sample(range(3), 3))
        read = tuple(Span(lo, random.randint(lo + 1, s.hi)) for s in box for lo in [random.randrange(s.hi)])
        tiles = tile_boxes(box, sizes, order)
        # Tiles come in rows: what reaches the farthest in each dimension decides.
        wanted = max(number for number, tile in enumerate(tiles) if overlap(tile, read))
        assert last_tile(read, box, sizes, order) == wanted
        assert last_tiles(np.array([read]), box, sizes, order).tolist() == [wanted]


def test_what_tiles_read_is_remembered_for_each_producer_and_each_load() -> None:
    graph, machine = graphs.attention(length=12), load_machine("stcp920")
    walks = TileWalks(graph, machine)
    cell = Cells(graph).cell(Segment(tuple(op.name for op in graph.ops), (), (), ()), 0, 0)
    softmax = next(op for op in graph.ops if op.name == "softmax")
    reader = next(op for op in graph.ops if softmax.output in op.inputs)

    def tiled(op: Op, parts: int) -> TileWalk:
        shape = graph.tensor[op.output].shape
        sizes = tuple(-(-extent // parts) for extent in shape)
        return walks.walk(op, Tile(op.name, sizes, tuple(range(len(shape)))), cell)

    told: set[tuple[int, ...]] = set()
    for parts in (1, 2, 3, 2):
        walk = tiled(reader, parts)
        boxes = walk.reads[softmax.output]
        for producer in (tiled(softmax, 1), tiled(softmax, 2), tiled(softmax, 3)):
            assert walks.last_tiles_read(walk, softmax.output, producer) == walk.last_tiles_read(
                softmax.output, producer
            )
            told.add(tuple(walk.last_tiles_read(softmax.output, producer)))
        for box in (cell.tensors[softmax.output], full((64, *shape_of(cell.tensors[softmax.output])[1:]))):
            for extents in (portion_extents(box, 2), tuple(-(-s.size // 3) for s in box)):
                parted = portions(full(shape_of(box)), extents)
                for number, last in enumerate(walks.last_portions_read(walk, softmax.output, box, extents).tolist()):
                    read = boxes.box(number)
                    assert last == max(i for i, portion in enumerate(parted) if overlap(portion, read))
    assert len(told) > 3


@pytest.mark.parametrize(
    ("target", "shape"), [("tiny", (21, 20, 20)), ("stcp920", (44, 43, 32)), ("stcp920", (65, 64, 32))]
)
def test_all_portions_are_stored_where_cores_have_unequally_many(target: str, shape: tuple[int, ...]) -> None:
    machine = load_machine(target)
    net = graphs.Net("uneven", DTYPE[target])
    net.elementwise("y", "max", net.input("x", *shape), 0.0)
    graph = net.graph()
    plan = plain_plan(graph, machine)
    cells = Cells(graph)
    owned = [cells.cell(plan.segments[0], 0, core).owned["y"] for core in range(machine.cores)]
    extents = (min(box[0].size for box in owned), *shape[1:])
    moves = tuple(replace(t, portion=extents) if t.tensor == "y" else t for t in plan.transfers)
    plan = replace(plan, transfers=moves)
    assert len({len(portions(box, extents)) for box in owned}) == 2
    predicted = timeline(graph, machine, plan).cycles
    simulated = simulate(lower(graph, plan, machine), machine, graph.data, {}, data=False).summary.cycles
    assert abs(predicted - simulated) <= 0.02 * simulated


@pytest.mark.parametrize("latest", [0, 1])
def test_weights_that_come_core_by_core_end_with_those_of_the_last_core(latest: int) -> None:
    # Each core multiplies with its own half of the columns, and the halves are fetched one after the other.
    machine = load_machine("tiny")
    graph = graphs.matmul(m=8, k=64, n=512, dtype="float32")
    plan = plain_plan(graph, machine, depth=2, barrier=False)
    assert plan.segments[0].cores == (Split(1, machine.cores),)
    assert not plan.segments[0].instances
    whole = next(b for b in plan.shared if b.tensor == "matmul.w" and b.fetch)
    size = whole.bytes // machine.cores
    halves = [
        replace(
            whole,
            box=(whole.box[0], Span(256 * half, 256 * (half + 1))),
            address=whole.address + half * size,
            bytes=size,
        )
        for half in (1 - latest, latest)
    ]
    plan = replace(plan, shared=(*(b for b in plan.shared if b != whole), *halves))
    check_plan(replace(plan, graph_sha256=graph.digest), graph, machine)
    assert_near(graph, machine, plan, within=0.02)


def test_a_fetch_in_flight_is_slowed_by_the_stores_of_all_cores() -> None:
    # The weights of the product are fetched from the beginning on, beside the stores of all that comes before it.
    machine = load_machine("stcp920")
    net = graphs.Net("stores", "float16")
    x = net.input("x", 512, 512)
    for name in "abcd":
        x = net.elementwise(name, "max", x, 0.0)
    net.matmul("product", x, 2048)
    graph = net.graph()
    plan = plain_plan(graph, machine, depth=2, barrier=False)
    homes = [b for b in plan.shared if b.memory == machine.levels.home.name]
    address, shared = 0, list[SharedBuffer]()
    for b in plan.shared:
        if b in homes or (b.fetch and b.tensor in "abcd"):
            continue
        # Weights come at once, and what one operator makes for the next stays where it is.
        first, last = (0 if b.tensor == "product.w" else b.live[0]), b.live[1] + (b.tensor in "abcd")
        shared.append(replace(b, address=address, live=(first, last), store=b.tensor == "product"))
        address += b.bytes
    plan = replace(plan, shared=(*homes, *shared))
    check_plan(plan, graph, machine)
    assert_near(graph, machine, plan, within=0.01)


@pytest.mark.parametrize("interleave", [0, 1024])
@pytest.mark.parametrize("name", ["attention", "conv", "residual"])
def test_banks_of_the_shared_memory_that_do_not_take_turns_serve_where_they_are_reached(
    name: str, interleave: int
) -> None:
    # Eight banks of 8 bytes a cycle each: what a small network needs lies in the first, unless they take turns.
    tiny = load_machine("tiny")
    memories = (
        replace(m, capacity=1 << 23, banks=8, interleave=interleave, bytes_per_cycle=8) if m.name == "LLB" else m
        for m in tiny.memories
    )
    machine = replace(tiny, memories=tuple(memories))
    graph = GRAPHS[name](dtype="float32")
    plan = plain_plan(graph, machine, depth=2, barrier=False)
    assert_near(graph, machine, plan, within=0.05)


def test_cores_that_load_one_small_tensor_meet_on_its_banks() -> None:
    # Sixteen banks of 8 bytes a cycle each, on fast links: a tensor of a few kB lies in one or two of them.
    tiny = load_machine("tiny")
    memories = (
        replace(m, banks=16, interleave=4096, bytes_per_cycle=8) if m.name == "LLB" else m for m in tiny.memories
    )
    links = (replace(li, bytes_per_cycle=256.0) if li.memory == "LLB" else li for li in tiny.links)
    machine = replace(tiny, memories=tuple(memories), links=tuple(links))
    graph = graphs.attention(dtype="float32")
    plan = plain_plan(graph, machine, depth=2, barrier=False)
    assert_near(graph, machine, plan, within=0.05)
