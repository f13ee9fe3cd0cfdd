"""What a column waits for its weights, by the recurrence of the docstring, split by split and operator by operator; and
what it takes to store the outputs of the network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.solver.baselines.layerwise import layerwise_segments
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.column_cost import SplitCosts
from girih.solver.segmentation.split_cost import OperatorCosts
from tests.support import graphs


def work_before_weights() -> Graph:
    """Convolutions with few weights, and then products with many: these wait beyond the end of those."""
    net = graphs.Net("late weights", "float32")
    x = net.conv("a", net.input("x", 2, 16, 16, 8), 16, kernel=3)
    x = net.conv("b", x, 16, kernel=3)
    x = net.matmul("c", net.flatten("pool", x), 256)
    net.matmul("d", x, 96)
    return net.graph()


GRAPHS = {"equal weights": graphs.chain(5, batch=2, size=2, channels=48), "late weights": work_before_weights()}


def with_shared(machine: Machine, capacity: int) -> Machine:
    memories = tuple(
        replace(m, capacity=capacity) if machine.use_of(m.name) == "shared" else m for m in machine.memories
    )
    return replace(machine, memories=memories)


def waited(costs: SplitCosts, machine: Machine, rate: float, split: int, period: float) -> float:
    """Of the operators k of an instance: the end E_k, from its cycles and from E_j + W_k - W_j - b of all before it."""
    run, graph = costs.run, costs.graph
    ops = graph.ops[run.first : run.last + 1]
    room = (machine.levels.exchange.capacity - int(run.shared_bytes[split])) / rate
    stretch = period / max(1, sum(int(of_op[split]) for of_op in run.op_cycles))
    ends, weights = [0.0], [0.0]
    for op, of_op in zip(ops, run.op_cycles, strict=True):
        constants = [n for n in dict.fromkeys(op.inputs) if n in graph.constant_names]
        total = weights[-1] + sum(int(run.entering[n].footprint_bytes[split]) for n in constants) / rate
        fetched = [e + total - w - room for e, w in zip(ends, weights, strict=True)]
        ends.append(max(ends[-1] + int(of_op[split]) * stretch, *fetched))
        weights.append(total)
    return max(0.0, ends[-1] - period)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("capacity", [24 << 10, 48 << 10, 1 << 20])
def test_weights_that_have_no_room_are_waited_for(name: str, capacity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = with_shared(load_machine("tiny"), capacity)
    stalls: list[tuple[float, float]] = []
    compute = SplitCosts._weight_stall  # pyright: ignore[reportPrivateUsage]

    def checked(costs: SplitCosts, period: NDArray[np.float64], operators: OperatorCosts) -> NDArray[np.float64]:
        found = compute(costs, period, operators)
        for split in range(len(period)):
            expected = waited(costs, machine, operators.rates.main, split, float(period[split]))
            stalls.append((float(found[split]), expected))
        return found

    monkeypatch.setattr(SplitCosts, "_weight_stall", checked)
    columns = Candidates(GRAPHS[name], machine).columns()
    found, expected = zip(*stalls, strict=True)
    assert found == pytest.approx(expected, abs=1e-6)
    assert any(stall > 1 for stall in found) == (capacity < 1 << 20) and len(columns) > 5


def test_the_wait_is_part_of_the_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = with_shared(load_machine("tiny"), 48 << 10)
    late = {(c.first, c.last, c.split): c.cycles for c in Candidates(GRAPHS["equal weights"], machine).columns()}
    monkeypatch.setattr(SplitCosts, "_weight_stall", lambda *_: 0.0)
    early = {(c.first, c.last, c.split): c.cycles for c in Candidates(GRAPHS["equal weights"], machine).columns()}
    both = late.keys() & early.keys()
    assert all(late[key] >= early[key] for key in both) and any(late[key] > early[key] for key in both)


def test_outputs_are_stored_after_the_instances_that_compute_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # Equal operators: those in the middle share prices, of which the last one has its own.
    machine, graph = load_machine("tiny"), GRAPHS["equal weights"]

    def prices() -> dict[object, int]:
        candidates = Candidates(graph, machine, longest=1)
        columns = {(c.first, c.last, c.split): c.cycles for c in candidates.columns()}
        assert candidates.priced_roots < len(graph.ops)
        return columns

    whole = prices()
    monkeypatch.setattr(SplitCosts, "_outputs", lambda *_: 0.0)
    without = prices()
    last = len(graph.ops) - 1
    link = min(link.bytes_per_cycle for link in machine.links if machine.levels.home.name in link.memories)
    stored = sum(graph.tensor[name].bytes for name in graph.output_tensors) / link
    columns = Candidates(graph, machine, longest=1).columns()
    for column in columns:
        key = column.first, column.last, column.split
        more = whole[key] - without[key]
        if column.last < last:
            assert not more
        elif column.instances == 1:
            assert more == pytest.approx(stored, abs=1)
        else:
            assert stored / column.instances - 1 <= more < stored
    assert {c.instances > 1 for c in columns if c.last == last} == {True, False}


def test_outputs_that_take_longest_follow_one_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Main memory stores all of them at once, as soon as the first one is there."""
    machine, graph, outputs = load_machine("tiny"), GRAPHS["equal weights"], 10**9
    last = len(graph.ops) - 1
    monkeypatch.setattr(SplitCosts, "_outputs", lambda *_: 0.0)
    without = {(c.first, c.last, c.split): c.cycles for c in Candidates(graph, machine, longest=1).columns()}
    monkeypatch.setattr(SplitCosts, "_outputs", lambda *_: float(outputs))
    columns = [c for c in Candidates(graph, machine, longest=1).columns() if c.last == last]
    assert any(c.instances > 1 for c in columns)
    for column in columns:
        alone = without[column.first, column.last, column.split]
        assert alone / column.instances - 1 <= column.cycles - outputs <= alone + 1


def test_an_operator_alone_waits_for_its_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its buffers are in use until then: with a result much larger than its operands, that is what it waits for."""
    machine = load_machine("tiny")
    net = graphs.Net("wide", "float32")
    net.matmul("wide", net.input("x", 256, 4), 512)
    periods: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []

    def noted(costs: SplitCosts, period: NDArray[np.float64], operators: OperatorCosts) -> float:
        rates = operators.rates
        store = costs.run.leaving["wide"].core_bytes / rates.out.bytes_per_cycle + rates.store_latency
        periods.append((period, costs.run.cycles + store))
        return 0.0

    monkeypatch.setattr(SplitCosts, "_weight_stall", noted)
    Candidates(net.graph(), machine).columns()
    assert periods and all((period >= least).all() for period, least in periods)


def test_the_layerwise_baseline_counts_outputs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # It adds all traffic with main memory to the cycles of a column, outputs among it.
    machine, graph = load_machine("tiny"), GRAPHS["late weights"]
    before = layerwise_segments(graph, machine)

    def most_for_one_instance(costs: SplitCosts, _: float) -> NDArray[np.float64]:
        return 1e9 / costs.run.instances

    monkeypatch.setattr(SplitCosts, "_outputs", most_for_one_instance)
    assert layerwise_segments(graph, machine) == before
