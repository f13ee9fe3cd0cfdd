"""The plan decides: a cut, an address or an order changed by hand shows in the program, and nowhere in the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from girih.ir.graph import Graph
from girih.ir.isa.footprint import footprint
from girih.ir.isa.table import Instruction, field
from girih.ir.load_machine import load_machine
from girih.ir.machine import Level
from girih.ir.plan import LocalBuffer, Plan, SharedBuffer, Tile
from girih.ir.program import Program
from girih.lowering import lower
from girih.simulator import simulate
from tests.support import graphs
from tests.support.numpy_check import inputs_of
from tests.support.plans.sequential_plans import sequential_plan

MACHINE = load_machine("tiny")
GRAPH = graphs.conv(size=8, channels=6, out=8, dtype="float32")


def plain(graph: Graph = GRAPH, **cuts: int) -> Plan:
    return sequential_plan(graph, MACHINE, **{"parts": 1, "reduce_parts": 1, "depth": 1, **cuts})


def mnemonics(program: Program, engine: str) -> Counter[str]:
    return Counter(i.mnemonic for s in streams(program, engine) for i in s)


def streams(program: Program, engine: str) -> list[tuple[Instruction, ...]]:
    """The queues of an engine, core by core."""
    return [s for q, s in zip(program.queues, program.streams, strict=True) if q.engine == engine]


def broadcast(program: Program) -> int:
    """Bytes that leave the shared memory once for several cores."""
    return sum(footprint(i)[1].bytes for s in streams(program, "MTI") for i in s if i.mnemonic == "mbcast")


def bases(program: Program, engine: str, operand: str, memory: str) -> list[int]:
    """Where the instructions of an engine's first queue have an operand, in their order."""
    number = [m.name for m in MACHINE.memories].index(memory)
    return [
        int(field(i, f"{operand}.base"))
        for i in streams(program, engine)[0]
        if any(o.name == operand for o in i.row.operands) and field(i, f"{operand}.mem") == number
    ]


def sums(program: Program) -> int:
    """Convolutions that begin sums: one for each tile."""
    products = (i for s in streams(program, "MME") for i in s if i.mnemonic == "mconv")
    return sum(not field(i, "acc") for i in products)


def with_tile(plan: Plan, change: Callable[[Tile], Tile]) -> Plan:
    segment = plan.segments[0]
    return replace(plan, segments=(replace(segment, tiles=(change(segment.tiles[0]),)),))


def with_local(plan: Plan, change: Callable[[LocalBuffer], LocalBuffer]) -> Plan:
    return replace(plan, local=tuple(map(change, plan.local)))


def results(program: Program, graph: Graph = GRAPH) -> np.ndarray:
    """Of whole numbers, of which sums are exact: how a tile is walked and what begins a sum is not to be seen."""
    data, inputs = ({name: np.rint(4 * array) for name, array in of.items()} for of in (graph.data, inputs_of(graph)))
    trace = simulate(program, MACHINE, data, inputs)
    assert trace.violations == ()
    (result,) = trace.outputs.values()
    return np.asarray(result)


def test_tiles_become_instructions() -> None:
    whole = lower(GRAPH, plain(), MACHINE)
    halved = lower(GRAPH, with_tile(plain(), lambda t: replace(t, sizes=(1, 4, 4, 8))), MACHINE)
    assert sums(whole) == 2
    assert sums(halved) == 4
    np.testing.assert_array_equal(results(whole), results(halved))


@pytest.mark.parametrize("graph", [GRAPH, graphs.matmul(m=1, k=24, n=16, dtype="float32")], ids=["conv", "product"])
def test_the_engine_of_a_tile_runs_its_contraction(graph: Graph) -> None:
    """Turned by hand, the same tile is other instructions, and the weights have a buffer in local memory."""
    plans = (sequential_plan(graph, MACHINE, parts=1, reduce_parts=1, depth=1, matrix=m) for m in (True, False))
    on_matrix, on_vector = (lower(graph, made, MACHINE) for made in plans)
    assert mnemonics(on_matrix, "MME") and not mnemonics(on_vector, "MME")
    assert mnemonics(on_vector, "VME") != mnemonics(on_matrix, "VME")
    np.testing.assert_allclose(results(on_matrix, graph), results(on_vector, graph), rtol=1e-5, atol=1e-5)


def test_reduce_tiles_become_partial_sums() -> None:
    cut = lower(GRAPH, with_tile(plain(), lambda t: replace(t, reduce=(1, 3, 3))), MACHINE)
    # The first row of the kernel sees padding above the first of the results, which another instruction makes zero.
    assert mnemonics(cut, "MME")["mconv"] == 2 * 3 * 2 + 1
    assert mnemonics(cut, "MTI")["mbcast"] >= 3 * 2
    np.testing.assert_allclose(results(lower(GRAPH, plain(), MACHINE)), results(cut), atol=1e-6)


def test_the_order_of_tiles_is_that_of_the_stores() -> None:
    plan = with_tile(plain(), lambda t: replace(t, sizes=(1, 2, 4, 8), order=(0, 3, 1, 2)))
    across = with_tile(plan, lambda t: replace(t, order=(0, 3, 2, 1)))
    first, second = (lower(GRAPH, p, MACHINE) for p in (plan, across))
    last = [bases(p, "VME", "dst", "L1") for p in (first, second)]
    start = last[0][0]
    row, column = 8 * 8 * 4, 8 * 4
    assert [b - start for b in last[0]] == [0, 4 * column, 2 * row, 2 * row + 4 * column]
    assert [b - start for b in last[1]] == [0, 2 * row, 4 * column, 2 * row + 4 * column]
    np.testing.assert_array_equal(results(first), results(second))


def test_versions_take_turns() -> None:
    tiles = {d: with_tile(plain(depth=d), lambda t: replace(t, sizes=(1, 1, 8, 8))) for d in (1, 2)}
    places = {d: bases(lower(GRAPH, p, MACHINE), "MME", "dst", "IM") for d, p in tiles.items()}
    size = next(b.bytes // 2 for b in tiles[2].local if b.use == "scratch")
    assert places[1] == [places[1][0]] * 4
    assert places[2] == [places[2][0], places[2][0] + size] * 2


@pytest.mark.parametrize("use,engine,operand,memory", [
    ("data", "MTI", "dst", "L1"), ("scratch", "MME", "dst", "IM"), ("weights", "MME", "b", "L1W"),
])  # fmt: skip
def test_local_addresses_are_the_plan_s(use: str, engine: str, operand: str, memory: str) -> None:
    moved = with_local(plain(), lambda b: replace(b, address=b.address + 1024) if b.use == use else b)
    here, there = (lower(GRAPH, p, MACHINE) for p in (plain(), moved))
    assert bases(there, engine, operand, memory) == [b + 1024 for b in bases(here, engine, operand, memory)]
    np.testing.assert_array_equal(results(here), results(there))


@pytest.mark.parametrize("level,engine", [(MACHINE.levels.exchange, "DMR"), (MACHINE.levels.home, "DMW")])
def test_shared_addresses_are_the_plan_s(level: Level, engine: str) -> None:
    memory = level.name

    def move(b: SharedBuffer) -> SharedBuffer:
        return replace(b, address=b.address + 4096) if b.memory == memory else b

    moved = replace(plain(), shared=tuple(map(move, plain().shared)))
    here, there = (lower(GRAPH, p, MACHINE) for p in (plain(), moved))
    assert bases(there, engine, "dst", memory) == [b + 4096 for b in bases(here, engine, "dst", memory)]
    np.testing.assert_array_equal(results(here), results(there))


def test_cores_get_what_the_splits_give_them() -> None:
    rows, channels, alone = (
        lower(GRAPH, plain(**cuts), MACHINE) for cuts in ({"core_dim": 1}, {"core_dim": 3}, {"cores": 1})
    )
    # Both cores need all weights if rows are cut, and the whole image if channels are.
    assert broadcast(rows) == GRAPH.tensor["conv.w"].bytes + GRAPH.tensor["conv.b"].bytes
    assert broadcast(channels) == GRAPH.tensor["x"].bytes
    assert broadcast(alone) == 0
    assert [len(s) > 0 for s in streams(rows, "MME")] == [True, True]
    assert [len(s) > 0 for s in streams(alone, "MME")] == [True, False]
    for program in (channels, alone):
        np.testing.assert_array_equal(results(program), results(rows))


def test_engines_are_the_plan_s() -> None:
    vector = lower(GRAPH, sequential_plan(GRAPH, MACHINE, parts=1, matrix=False), MACHINE)
    assert not mnemonics(vector, "MME")
    np.testing.assert_allclose(results(vector), results(lower(GRAPH, plain(), MACHINE)), rtol=1e-4, atol=1e-6)
