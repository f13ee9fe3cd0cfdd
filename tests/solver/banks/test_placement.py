"""Where local buffers lie, beyond that they do not overlap while they live."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Memory
from girih.ir.plan import LocalBuffer, Segment, Solved, Split
from girih.ir.semantics.cell import Cells
from girih.solver.banks.placement import LocalOverflow, LocalPlaces, Placing, total_answer
from girih.solver.banks.problem import BufferRequest
from girih.solver.banks.solve import Placement, PlacementOverflow
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.cpsat.backend import Budget
from girih.solver.effort import Effort
from girih.solver.tiling.solve import TileOverflow, Tiler
from tests.support import graphs

MACHINE = load_machine("stcp920")


def placed(graph: Graph, instances: tuple[Split, ...] = (), capacity: int = 1 << 20) -> list[LocalBuffer]:
    """Of a graph as one segment, in local memories of so many bytes."""
    cells = Cells(graph)
    memories = tuple(
        replace(m, capacity=capacity) if MACHINE.use_of(m.name) == "local" else m for m in MACHINE.memories
    )
    machine = replace(MACHINE, memories=memories)
    tiled = Tiler(graph, machine).segment(Segment(tuple(op.name for op in graph.ops), instances, (), ()), cells)
    assert not isinstance(tiled, TileOverflow)
    found = Placing(graph, cells, machine, TileWalks(graph, machine), 0).local(0, tiled[0], Budget(1.0, 0.1))
    assert isinstance(found, LocalPlaces)
    return list(found.buffers)


def requests(*names: str) -> tuple[BufferRequest, ...]:
    return tuple(BufferRequest(name, 60, (0, 1)) for name in names)


def test_an_overflow_names_the_tensors_of_the_segment_that_has_it() -> None:
    """Though equal requests of another one were refused before, and nothing is searched a second time."""
    graph = graphs.chain(1)
    placing = Placing(graph, Cells(graph), MACHINE, TileWalks(graph, MACHINE), 0)
    memory = Memory("L1", "core", 100, 1, 1, 0)
    refused = [placing.place(requests(*names), memory, (), Budget(1.0, 0.1)) for names in ("ab", "xy")]
    for answer, names in zip(refused, ("ab", "xy"), strict=True):
        assert isinstance(answer, PlacementOverflow) and answer.names == tuple(names)


def test_an_overflow_took_the_effort_for_the_memories_before_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """One search for each of them; in the last memory no arrangement is placed."""
    last = MACHINE.levels.of_core[-1].memory
    searched: list[bool] = []

    def place(requests: tuple[BufferRequest, ...], memory: Memory, **_: object) -> Placement | PlacementOverflow:
        searched.append(memory == last)
        solved, effort = Solved("banks", "unknown", None, None, "bytes"), Effort(searches=1)
        if memory == last:
            return PlacementOverflow(9, 8, (requests[0].name,), requests[0].live, True, solved, effort)
        return Placement((0,) * len(requests), 0, 0, solved, effort)

    monkeypatch.setattr("girih.solver.banks.placement.place", place)
    graph = graphs.chain(2)
    cells = Cells(graph)
    tiled = Tiler(graph, MACHINE).segment(Segment(tuple(op.name for op in graph.ops), (), (), ()), cells)
    assert not isinstance(tiled, TileOverflow)
    refused = Placing(graph, cells, MACHINE, TileWalks(graph, MACHINE), 0).local(0, tiled[0], Budget(1.0, 0.1))
    assert isinstance(refused, LocalOverflow) and refused.level.memory == last
    assert searched.count(False) >= 2 and searched.count(True) >= 1
    assert refused.overflow.effort.searches == len(searched)


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


def test_constants_lie_apart_from_one_another_where_all_have_room() -> None:
    """So that they are loaded one behind the other, and none waits until the operator of another is over."""
    graph = graphs.chain(4)
    for capacity, all_apart in ((1 << 20, True), (16512, False)):
        data = [b for b in placed(graph, capacity=capacity) if b.use == "data" and b.name in graph.constant_names]
        pairs = [(a, b) for a in data for b in data if a.live[1] < b.live[0]]
        assert pairs and all(apart(a, b) for a, b in pairs) == all_apart


def test_inputs_have_room_while_the_operator_before_works() -> None:
    """The values, which the last product reads beside the softmax."""
    data = {b.name: b for b in placed(graphs.attention()) if b.use == "data"}
    assert data["v"].live[0] == data["scores"].live[1] and apart(data["v"], data["scores"])


def test_the_next_instance_is_loaded_during_the_last_operator() -> None:
    """Its queries and keys, even where its scores would find no room beside them."""
    net = graphs.Net()
    q, k, v = (net.input(name, 2, 256, 32) for name in "qkv")
    net.product("mixed", net.softmax("softmax", net.product("scores", q, k, transposed=True)), v)
    for capacity, scores in ((1 << 20, True), (19 << 14, False)):
        data = {b.name: b for b in placed(net.graph(), (Split(0, 2),), capacity) if b.use == "data"}
        there = [data[name] for name in ("softmax", "v", "mixed")]
        assert all(apart(data[name], b) for name in "qk" for b in there)
        assert scores == all(apart(data["scores"], b) for b in there)


def test_a_result_that_leaves_has_time_to_be_stored() -> None:
    """Nothing is made in its place by the next operator, unless there is no room elsewhere."""
    net = graphs.Net()
    x = net.elementwise("out", "exp", net.input("x", 2, 64, 64))
    y = net.elementwise("y", "exp", x)
    z = net.elementwise("z", "exp", y)
    net.elementwise("last", "exp", z)
    graph = net.graph("out", "last")
    size = graph.tensor["x"].bytes
    for capacity, free in ((4 * size, True), (3 * size, True), (2 * size, False)):
        data = {b.name: b for b in placed(graph, capacity=capacity)}
        assert data["out"].live == (0, 2)
        assert apart(data["out"], data["z"]) == free


def test_the_next_instance_is_loaded_as_early_as_there_is_room() -> None:
    """During the last three operators, or fewer of them."""
    net = graphs.Net()
    x = net.input("x", 2, 64, 64)
    for i in range(6):
        x = net.elementwise(f"e{i}", "exp", x)
    graph = net.graph()
    size = graph.tensor["x"].bytes // 2
    found: list[int] = []
    for capacity in (4 * size, 3 * size, 2 * size):
        data = {b.name: b for b in placed(graph, (Split(0, 2),), capacity)}
        free = [p for p in range(1, 6) if all(apart(data["x"], b) for b in data.values() if b.live[0] <= p < b.live[1])]
        assert free == list(range(6 - len(free), 6))
        found.append(len(free))
    assert found[0] >= 3 and found[1] >= 3 and found[2] == 0
    assert all(b.live[1] <= 6 for b in data.values())


def test_independent_answers_are_as_good_as_the_worst_and_cost_their_sum() -> None:
    """A figure that one of them does not have is not that of the others."""
    optimal, feasible = (
        Solved("banks:L1", "optimal", 3.0, 3.0, "conflicts"),
        Solved("banks:L1", "feasible", 8.0, 5.0, "conflicts"),
    )
    assert total_answer("banks", []) is None
    assert total_answer("banks", [optimal]) == replace(optimal, model="banks")
    for pair in ([optimal, feasible], [feasible, optimal]):
        assert total_answer("banks", pair) == Solved("banks", "feasible", 11.0, 8.0, "conflicts")
    unbounded = replace(feasible, bound=None)
    assert total_answer("banks", [optimal, unbounded]) == Solved("banks", "feasible", 11.0, None, "conflicts")
    unknown = Solved("banks:L1", "unknown", None, 2.0, "conflicts")
    assert total_answer("banks", [optimal, unknown, feasible]) == Solved("banks", "unknown", None, 10.0, "conflicts")
