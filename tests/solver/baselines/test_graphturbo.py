"""The published heuristics: each algorithm on examples worked out by hand, and whole plans that compute the right thing
without the constraint solver, whatever fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from random import Random

import numpy as np
import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.codec import sha256
from girih.ir.errors import InfeasibleError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan, SharedBuffer, Split, Tile
from girih.ir.semantics.cell import Cells, count
from girih.models import build
from girih.solver import plan
from girih.solver.banks.first_fit import Item, first_fit
from girih.solver.baselines.graphturbo import spill as spilling
from girih.solver.baselines.graphturbo.binding import bind
from girih.solver.baselines.graphturbo.group import group
from girih.solver.baselines.graphturbo.level import LEVELS
from girih.solver.baselines.graphturbo.spill import Spilling, _Candidate, spill  # pyright: ignore[reportPrivateUsage]
from girih.solver.baselines.graphturbo.split import SplitInfo, Splitter
from girih.solver.baselines.graphturbo.tile_size import OperatorOverflow, Tiles
from girih.solver.cpsat import backend as cp
from girih.solver.options import Options
from girih.solver.residency.problem import FetchItem, Intermediate, ResidencyProblem, TensorBlock, Use
from girih.solver.subproblem import time_budget as rounds
from tests.support import graphs
from tests.support.numpy_check import check, inputs_of
from tests.support.random_graphs import random_graph
from tests.support.sampled import sampled

DTYPE = {"tiny": "float32", "stcp920": "float16"}
TOLERANCE = {"tiny": 2e-5, "stcp920": 4e-3}
LADDER = ("graphturbo:llb", "graphturbo:l1", "graphturbo:order", "graphturbo")


def with_memory(machine: Machine, **capacities: int) -> Machine:
    memories = tuple(replace(m, capacity=capacities.get(machine.use_of(m.name), m.capacity)) for m in machine.memories)
    return replace(machine, memories=memories)


def planned(graph: Graph, machine: Machine, strategy: str = "graphturbo") -> Plan:
    return plan(graph, machine, Options(timeout=1.0, strategy=strategy)).plan  # type: ignore[arg-type]


# Algorithm 1: splits.


def split(graph: Graph, machine: Machine, first: int, last: int) -> SplitInfo | None:
    return Splitter(graph, machine, Cells(graph)).best(first, last)


@pytest.mark.parametrize(
    ("room", "wanted"),
    [
        # A core has an image of 8x8x16 halves going in, one going out, and 16 halves of bias in their 64 bytes.
        (2 * 2048 + 64, SplitInfo(0, 1, 1, (Split(0, 8),))),
        (2 * 2048, SplitInfo(0, 2, 1, (Split(0, 4), Split(1, 2)))),
        (2 * 1024 + 64, SplitInfo(0, 2, 1, (Split(0, 4), Split(1, 2)))),
        (2 * 1024, SplitInfo(0, 4, 1, (Split(0, 2), Split(1, 4)))),
        (2 * 512, SplitInfo(0, 8, 1, (Split(1, 8),))),
        # An eighth of an eighth is the least that one dimension gives.
        (2 * 256, None),
    ],
)
def test_the_first_factor_that_fits(room: int, wanted: SplitInfo | None) -> None:
    graph = graphs.chain(1, batch=8, size=8, channels=16, kernel=1)
    assert split(graph, with_memory(load_machine("stcp920"), local=room), 0, 0) == wanted


def test_in_place_counts_once() -> None:
    """The sum of a shortcut lies where the shortcut was, if there is no room for both."""
    net = graphs.Net()
    x = net.input("x", 8, 8, 8, 16)
    graph = net.graph(net.elementwise("twice", "add", net.elementwise("abs", "max", x, 0.0), 1.0))
    whole = split(graph, with_memory(load_machine("stcp920"), local=2 * 2048), 0, 1)
    assert whole is not None and whole.factor == 1
    assert Splitter(graph, load_machine("stcp920"), Cells(graph)).best(0, 1) == whole


def test_what_is_computed_again_is_limited() -> None:
    """Eight 3x3 convolutions over 8 rows on 8 cores would compute most rows on most cores; two convolutions of 64 rows
    compute a row more on either side of 8."""
    machine = load_machine("stcp920")
    assert split(graphs.chain(8, size=8), machine, 0, 7) is None
    assert split(graphs.chain(2, size=64), machine, 0, 1) is not None


# Algorithm 2: groups.


def runs(graph: Graph, factors: Mapping[str, int]) -> list[tuple[str, str]]:
    """First and last operators of the sub-graphs, if a run's factor is the largest of its operators'."""

    def find(first: int, last: int, most: int | None) -> SplitInfo | None:
        made = SplitInfo(0, max(factors[op.name] for op in graph.ops[first : last + 1]), 1, ())
        return made if most is None or made.factor <= most else None

    return [(graph.ops[s.first].name, graph.ops[s.last].name) for s in group(graph, find)]


def test_equal_factors_make_one_sub_graph() -> None:
    graph = graphs.residual()
    assert runs(graph, dict.fromkeys(graph.op, 1)) == [("stem", "fc")]


def test_falling_factors_make_stages() -> None:
    graph = graphs.residual()
    factors = {op: 4 if op in ("stem", "a0", "b0", "c0") else 2 for op in graph.op} | {"pool": 1, "fc": 1}
    assert runs(graph, factors) == [("stem", "c0"), ("a1", "c1"), ("pool", "fc")]


def test_a_producer_of_a_smaller_factor_joins() -> None:
    graph = graphs.chain(3)
    assert runs(graph, {"conv0": 1, "conv1": 2, "conv2": 2}) == [("conv0", "conv2")]
    assert runs(graph, {"conv0": 2, "conv1": 1, "conv2": 1}) == [("conv0", "conv0"), ("conv1", "conv2")]


def test_paths_of_a_diamond_join_under_their_largest_factor() -> None:
    """The first operator of the block has the largest factor; going straight, it could not join those behind it."""
    graph = graphs.residual(1)
    factors = dict.fromkeys(graph.op, 1) | {"stem": 4, "a0": 4}
    assert runs(graph, factors) == [("stem", "fc")]

    def find(first: int, last: int, most: int | None) -> SplitInfo | None:
        made = SplitInfo(0, 5 if last > first else factors[graph.ops[first].name], 1, ())
        return made if most is None or made.factor <= most else None

    assert len(group(graph, find)) == len(graph.ops)


def test_producers_of_one_consumer_join() -> None:
    net = graphs.Net()
    x, y = (net.conv(name, net.input(f"in-{name}", 1, 8, 8, 8), 8) for name in ("x", "y"))
    graph = net.graph(net.elementwise("sum", "add", x, y))
    assert runs(graph, dict.fromkeys(graph.op, 1)) == [("x", "sum")]
    assert runs(graph, {"x": 2, "y": 1, "sum": 1}) == [("x", "x"), ("y", "y"), ("sum", "sum")]


def test_what_others_read_stays_apart() -> None:
    net = graphs.Net()
    x = net.conv("x", net.input("in", 1, 8, 8, 8), 8)
    graph = net.graph(x, net.conv("y", x, 8))
    assert runs(graph, {"x": 1, "y": 1}) == [("x", "x"), ("y", "y")]


# Binding, tiles, addresses.


@pytest.mark.parametrize(
    ("extents", "cores", "parts"),
    [
        ((8, 56, 56, 64), 8, {0: 8}),
        ((2, 56, 56, 64), 8, {0: 2, 1: 4}),
        ((1, 7, 7, 512), 8, {3: 8}),
        ((6, 6), 4, {0: 2, 1: 2}),
        ((3, 5), 4, {}),
        ((), 8, {}),
    ],
)
def test_cores_go_to_the_outermost_dimensions_that_they_divide(
    extents: tuple[int, ...], cores: int, parts: Mapping[int, int]
) -> None:
    assert bind(extents, cores) == tuple(Split(d, p) for d, p in parts.items())


@pytest.mark.parametrize(
    ("weights", "accumulator", "sizes", "reduce"),
    [
        # Two versions of 64 x columns halves of weights; of 64 x columns floats, twice: the product, and with its bias.
        (2 * 64 * 96 * 2, 2 * 64 * 96 * 4, (64, 96), 64),
        (2 * 64 * 96 * 2 - 1, 2 * 64 * 96 * 4, (64, 32), 64),
        (2 * 64 * 32 * 2 - 1, 2 * 64 * 96 * 4, (64, 32), 32),
        (2 * 64 * 96 * 2, 2 * 64 * 32 * 4, (64, 32), 64),
        (2 * 64 * 96 * 2, 2 * 64 * 32 * 4 - 1, (32, 32), 64),
    ],
)
def test_tiles_are_the_largest_divisors_that_fit(
    weights: int, accumulator: int, sizes: tuple[int, int], reduce: int
) -> None:
    graph = graphs.matmul(m=64, k=64, n=96)
    machine = with_memory(load_machine("stcp920"), weights=weights, accumulator=accumulator)
    cells = Cells(graph)
    bare = Splitter(graph, machine, cells).segment(graph.ops, (), ())
    tiled = Tiles(graph, machine, cells).segment(bare, {})
    assert not isinstance(tiled, OperatorOverflow)
    tile = tiled.tiles[0]
    assert (tile.sizes, tile.reduce, tile.depth, tile.weight_depth) == (sizes, (reduce,), 2, 2)


def whole_tile(m: int, k: int, n: int) -> Tile:
    """The tile of a product on ``tiny`` that is one cell."""
    graph, machine = graphs.matmul(m=m, k=k, n=n, dtype="float32"), load_machine("tiny")
    cells = Cells(graph)
    tiled = Tiles(graph, machine, cells).segment(Splitter(graph, machine, cells).segment(graph.ops, (), ()), {})
    assert not isinstance(tiled, OperatorOverflow)
    return tiled.tiles[0]


@pytest.mark.parametrize(("m", "k", "n"), [(1009, 13, 7919), (7919, 1009, 13), (1009, 1009, 1009), (13, 7919, 1009)])
def test_large_primes_are_cut_into_nearly_equal_parts(m: int, k: int, n: int) -> None:
    """Of which there are at most a few times as many as if every byte of the memories were used."""
    tile, tiny = whole_tile(m, k, n), load_machine("tiny")
    sizes = (*tile.sizes, *tile.reduce)
    tiles = prod(-(-extent // size) for extent, size in zip((m, n, k), sizes, strict=True))
    weights = k * n * 4 / (tiny.levels.weights.capacity / tile.weight_depth)
    results = m * n * 4 / (tiny.levels.sums.capacity / tile.depth)
    assert tiles <= 16 * (weights + 1) * (results + 1)
    assert tile.sizes[1] % 8 == 0 or tile.sizes[1] == n


def test_the_rule_of_the_paper_holds_where_it_comes_to_few_tiles() -> None:
    """Also for a prime, such as the 197 tokens of ViT."""
    tile = whole_tile(197, 64, 197)
    assert all(extent % size == 0 for extent, size in zip((197, 197, 64), (*tile.sizes, *tile.reduce), strict=True))


# Spilling.


def residency_problem(
    *lives: tuple[int, int, int], constants: tuple[tuple[int, int], ...] = (), slots: int = 4
) -> ResidencyProblem:
    """Results of (bytes, slot that writes it, slot that reads it) and constants of (bytes, slot that reads it)."""
    intermediates: list[Intermediate] = []
    items: list[FetchItem] = []
    for n, (size, write, read) in enumerate(lives):
        block = TensorBlock(f"conv{n}", (), size, size)
        intermediates.append(Intermediate(block, (write, read + 1), ((write, block),), False, True))
        items.append(FetchItem((block,), (Use(read, 1),), write + 1, intermediate=n))
    for n, (size, read) in enumerate(constants):
        items.append(FetchItem((TensorBlock(f"conv{n}.w", (), size, size),), (Use(read, 1),)))
    return ResidencyProblem((1,) * slots, 0, tuple(items), tuple(intermediates), {}, 1.0, ())


def spilled(problem: ResidencyProblem, room: int, ahead: int = 0) -> list[SharedBuffer]:
    graph, machine = graphs.chain(40), with_memory(load_machine("stcp920"), shared=room)
    answer = spill(graph, machine, problem, ahead)
    assert isinstance(answer, Spilling)
    here = [b for b in answer.buffers if b.memory == machine.levels.exchange.name]
    for i, a in enumerate(here):
        assert a.address + a.bytes <= room
        for b in here[i + 1 :]:
            together = a.live[0] < b.live[1] and b.live[0] < a.live[1]
            assert not together or a.address + a.bytes <= b.address or b.address + b.bytes <= a.address
    return here


def test_what_is_read_again_stays_where_there_is_room() -> None:
    """A constant of slots 0, 1 and 3 beside one of slot 2: one fetch of each, or in less room one for each use."""
    again = FetchItem((TensorBlock("conv0.w", (), 64, 64),), (Use(0, 1), Use(1, 1), Use(3, 1)))
    once = FetchItem((TensorBlock("conv1.w", (), 128, 128),), (Use(2, 1),))
    problem = ResidencyProblem((1,) * 4, 0, (again, once), (), {}, 1.0, ())

    def lives(room: int) -> list[tuple[str, tuple[int, int]]]:
        return sorted((b.tensor, b.live) for b in spilled(problem, room) if b.memory == "LLB")

    assert lives(192) == [("conv0.w", (0, 4)), ("conv1.w", (2, 3))]
    assert lives(128) == [("conv0.w", (0, 1)), ("conv0.w", (1, 2)), ("conv0.w", (3, 4)), ("conv1.w", (2, 3))]


@pytest.mark.parametrize(
    ("resident", "slots", "expected"),
    [
        (((0, 4, 64),), (1, 2), True),
        (((0, 2, 64),), (2, 3), False),
        (((2, 4, 64),), (0, 2), False),
        (((1, 2, 64),), (1, 2), False),
        (((0, 1, 64), (2, 5, 64)), (3, 4), True),
        (((0, 3, 64), (4, 5, 64)), (3, 5), False),
    ],
)
def test_what_lives_for_single_slots_blocks_nothing(
    resident: tuple[tuple[int, int, int], ...], slots: tuple[int, int], expected: bool
) -> None:
    """One of its spans is longer than a slot and overlaps these."""
    assert _Candidate(0, None, resident, ()).blocks(*slots) == expected


def test_what_fits_stays() -> None:
    here = spilled(residency_problem((64, 0, 3), (128, 1, 2), (128, 2, 3)), 320)
    assert [(b.tensor, b.live, b.store, b.fetch) for b in here] == [
        ("conv0", (0, 4), False, False), ("conv1", (1, 3), False, False), ("conv2", (2, 4), False, False),
    ]  # fmt: skip


def test_the_longest_life_is_spilled_not_the_largest() -> None:
    here = spilled(residency_problem((64, 0, 3), (128, 1, 2), (128, 2, 3)), 256)
    assert [(b.tensor, b.live, b.store, b.fetch) for b in here] == [
        ("conv0", (0, 1), True, False), ("conv1", (1, 3), False, False), ("conv2", (2, 4), False, False),
        ("conv0", (3, 4), False, True),
    ]  # fmt: skip


def test_many_are_spilled_at_once_where_one_at_a_time_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits by bytes has no address now and then; in fewer rounds of addresses, there is one for everything."""
    rounds = 0

    def counted(items: Sequence[Item], near: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
        nonlocal rounds
        rounds += 1
        return first_fit(items, near, order)

    monkeypatch.setattr(spilling, "first_fit", counted)
    taken: list[int] = []
    for addressed in (spilling.ADDRESSED_SINGLY, 0):
        monkeypatch.setattr(spilling, "ADDRESSED_SINGLY", addressed)
        rounds = 0
        for seed in range(20):
            random = Random(seed)
            slots = [slot for first in range(0, 80, 20) for slot in random.sample(range(first, first + 20), 20)]
            pairs = zip(slots[::2], slots[1::2], strict=True)
            lives = [(64 * random.randint(1, 9), min(pair), max(pair)) for pair in pairs]
            spilled(residency_problem(*lives, slots=80), 64 * 20)
        taken.append(rounds)
    assert 20 < taken[1] < taken[0]


def test_constants_move_ahead_where_there_is_room() -> None:
    problem = residency_problem((128, 0, 3), constants=((128, 3), (64, 3)))
    assert [b.live for b in spilled(problem, 320) if b.fetch] == [(3, 4), (3, 4)]
    assert [b.live for b in spilled(problem, 320, ahead=2) if b.fetch] == [(1, 4), (1, 4)]
    busy = residency_problem((128, 0, 3), (128, 1, 2), constants=((128, 3), (64, 3)))
    assert [b.live for b in spilled(busy, 320, ahead=2) if b.fetch] == [(1, 4), (3, 4)]


# Whole plans.


@pytest.fixture
def no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise AssertionError("the constraint solver was asked")

    monkeypatch.setattr(cp, "_run", refuse)


@pytest.mark.usefixtures("no_solver")
@pytest.mark.parametrize("target", DTYPE)
@pytest.mark.parametrize("name", ["matmul", "residual", "attention"])
@pytest.mark.parametrize("strategy", LADDER)
def test_plans_are_right_and_no_solver_decides(target: str, name: str, strategy: str) -> None:
    machine = load_machine(target)
    graph: Graph = getattr(graphs, name)(dtype=DTYPE[target])
    found = planned(graph, machine, strategy)
    check_plan(found, graph, machine)
    assert found.strategy == strategy and found.barrier == (strategy != "graphturbo")
    assert found.cycles_predicted >= found.lower_bound_cycles > 0
    assert all(s.status == "fixed" for s in found.solved)
    check(graph, machine, found, inputs_of(graph), TOLERANCE[target])


@pytest.mark.usefixtures("no_solver")
@pytest.mark.parametrize("seed", sampled(range(24)))
def test_whatever_fits_layer_by_layer_fits(seed: int) -> None:
    """Graphs grown at random, on machines that lack memory here or there."""
    rng = Random(seed)
    target = rng.choice(sorted(DTYPE))
    graph, machine = random_graph(seed, DTYPE[target], rng.randint(2, 6)), load_machine(target)
    small = {
        machine.use_of(m.name): m.capacity // rng.choice((4, 16))
        for m in machine.memories
        if m != machine.levels.home.memory and rng.random() < 0.5
    }
    machine = with_memory(machine, **small)
    try:
        found = planned(graph, machine, rng.choice(LADDER))
    except InfeasibleError:
        with pytest.raises(InfeasibleError):
            planned(graph, machine, "layerwise")
    else:
        check(graph, machine, found, inputs_of(graph, seed), TOLERANCE[target])


@pytest.fixture(scope="module")
def ladder() -> dict[str, Plan]:
    """Plans of all levels for images of which local memory holds a few, and the shared memory not all."""
    graph = graphs.residual(3, batch=16, size=32, channels=64)
    machine = with_memory(load_machine("stcp920"), local=1 << 17, shared=1 << 20)
    return {strategy: planned(graph, machine, strategy) for strategy in ("layerwise", *LADDER)}


def test_each_level_is_better(ladder: dict[str, Plan]) -> None:
    cycles = [p.cycles_predicted for p in ladder.values()]
    assert all(after <= before for before, after in pairwise(cycles)), cycles
    assert cycles[-1] < cycles[0] / 2


def test_levels_are_what_their_names_say(ladder: dict[str, Plan]) -> None:
    assert tuple(LEVELS) == LADDER
    assert all(len(s.ops) == 1 for s in ladder["graphturbo:llb"].segments)
    for segment in ladder["graphturbo:l1"].segments:
        assert len(segment.ops) == 1 or count(segment.instances) == 1
    assert any(len(s.ops) > 1 and count(s.instances) > 1 for s in ladder["graphturbo:order"].segments)
    used = {b.tensor: b.live[0] for b in ladder["graphturbo:order"].shared if b.fetch}
    ahead = {b.tensor: b.live[0] for b in ladder["graphturbo"].shared if b.fetch}
    assert any(ahead[name] < at for name, at in used.items())


def test_the_same_inputs_give_the_same_plan() -> None:
    machine = load_machine("tiny")
    assert len({sha256(planned(graphs.attention(dtype="float32"), machine)) for _ in range(2)}) == 1


def test_an_operator_that_fits_nowhere_is_named() -> None:
    graph, machine = graphs.matmul(), with_memory(load_machine("stcp920"), local=64)
    with pytest.raises(InfeasibleError, match="operator matmul"):
        planned(graph, machine)


def test_columns_are_cut_below_those_of_the_array_where_nothing_else_fits() -> None:
    """Four weights fit, and the array has eight columns."""
    tiny = load_machine("tiny")
    memories = tuple(
        replace(m, capacity=16, alignment=4) if tiny.use_of(m.name) == "weights" else m for m in tiny.memories
    )
    graph = graphs.matmul(m=4, k=6, n=16, dtype="float32")
    found = planned(graph, replace(tiny, memories=memories))
    assert all(t.sizes[-1] * prod(t.reduce) <= 4 for s in found.segments for t in s.tiles)


# As a hint.


def test_the_search_begins_with_a_plan_of_these_segments() -> None:
    graph, machine = graphs.residual(), load_machine("stcp920")
    searched = plan(graph, machine, Options(timeout=5.0))
    plans = [run.objective for run in searched.log.runs if run.model == "plan"]
    opponent = planned(graph, machine).cycles_predicted
    assert plans[0] == opponent and len(plans) > 2
    assert searched.plan.strategy == "solver" and searched.plan.cycles_predicted == min(
        p for p in plans if p is not None
    )


def test_without_time_the_heuristics_are_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "FREE_KINDS", 0)
    graph, machine = graphs.residual(), load_machine("stcp920")
    found = plan(graph, machine, Options(timeout=0.0)).plan
    assert found.strategy == "solver" and found.cycles_predicted == planned(graph, machine).cycles_predicted


# ResNet-50, for which the paper prints what comes out.


def resnet50(batch: int) -> Graph:
    from girih.frontend import import_onnx

    network = build("resnet50").SerializeToString()
    return import_onnx(network, batch=batch, precision="fp16", clusters=load_machine("stcp920").clusters)


@pytest.mark.slow
def test_stages_of_resnet50_and_their_order() -> None:
    """With 16 images in a cluster: stages in 8, 4, 2 and 1, of which each runs as soon as it can (algorithm 3)."""
    found = planned(resnet50(64), load_machine("stcp920"))
    assert [count(s.instances) for s in found.segments] == [8, 4, 2, 1]
    assert "".join("abcd"[s.segment] for s in found.steps) == "aabaabc" * 2 + "d"


@pytest.mark.slow
def test_the_ladder_on_resnet50() -> None:
    graph, machine = resnet50(32), load_machine("stcp920")
    cycles = np.array([planned(graph, machine, strategy).cycles_predicted for strategy in LADDER])
    assert (np.diff(cycles) <= 0).all(), cycles
    # Splitting and ordering is the largest step of the published ablation, too.
    assert np.argmax(cycles[:-1] / cycles[1:]) == 1
