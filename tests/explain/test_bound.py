"""No plan does less work than the lower bound counts: of any graph, by any strategy, on any engine and link."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import get_args

import pytest

from girih.explain.cycles.account import cycle_breakdown
from girih.explain.cycles.costed_run import CostedRun
from girih.ir.bounds.lower_bound import lower_bound, on_matrix_alone_bound
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.options import Options, Strategy
from tests.support import graphs
from tests.support.odd_graphs import odd_graph
from tests.support.plans.random_plans import random_plan
from tests.support.random_graphs import random_graph
from tests.support.sampled import sampled

DTYPES = {"tiny": "float32", "stcp920": "float16"}


def subject(seed: int) -> tuple[Graph, Machine]:
    """Products and pools with padding, strides and dilation, and whatever else a graph may hold."""
    rng = Random(seed)
    target = rng.choice(list(DTYPES))
    graph = random_graph(seed, DTYPES[target], rng.randint(1, 5))
    return graph, filling(load_machine(target), rng.choice([0, 7, 94]))


def filling(machine: Machine, cycles: int) -> Machine:
    """The machine with an array that takes so many cycles to fill and drain for each block."""
    engines = (replace(e, fill=cycles) if "matrix" in e.classes else e for e in machine.engines)
    return replace(machine, engines=tuple(engines))


def assert_no_less(graph: Graph, found: Plan, machine: Machine) -> None:
    program = lower(graph, found, machine)
    trace = simulate(program, machine, {}, {}, data=False)
    assert lower_bound(graph, machine)[0] <= trace.cycles
    # The work of the matrix engine is that of plans that leave to it what it can run.
    given = [
        t for s in found.segments for t in s.tiles if t.engine == "vector" and graph.op[t.op].contraction is not None
    ]
    rate = machine.engine_for("matrix").rate or {}
    on_vector = given and all(rate.get(t.dtype) for t in graph.tensors)
    assert on_vector or on_matrix_alone_bound(graph, machine)[0] <= trace.cycles
    accounted = cycle_breakdown(graph, found, CostedRun(program, machine, trace))
    for row in (*accounted.totals, *accounted.operators):
        if row.extra is not None and not (on_vector and row.resource == machine.engine_for("matrix").name):
            assert min(row.extra, row.rounding, row.fill) >= -1e-6, (
                f"{row.resource} {row.op}: {row.work} counted, {row.peak} done\n{graph}\n{found}"
            )


@pytest.mark.parametrize("seed", sampled(range(120)))
def test_no_drawn_plan_does_less(seed: int) -> None:
    graph, machine = subject(seed)
    assert_no_less(graph, random_plan(graph, machine, seed, longest=4), machine)


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("seed", sampled(range(30)))
def test_no_drawn_plan_fills_more_of_an_array(seed: int, target: str) -> None:
    graph, machine = odd_graph(seed, DTYPES[target]), load_machine(target)
    assert_no_less(graph, random_plan(graph, machine, 500 + seed, longest=2), machine)


def late_weights(seed: int) -> tuple[Graph, Machine]:
    """A convolution that computes much, then products with more weights than there is room for."""
    rng = Random(f"late {seed}")
    net = graphs.Net("late", "float32")
    width = rng.choice([64, 72])
    x = net.input("x", rng.randint(2, 3), rng.randint(10, 14), 8, rng.choice([12, 16]))
    x = net.flatten("pool", net.conv("front", x, width, kernel=3))
    for n in range(rng.randint(7, 9)):
        x = net.matmul(f"fc{n}", x, width)
    machine = load_machine("tiny")
    sizes = {"shared": rng.choice([49_152, 65_536]), "weights": 1024}
    small = (replace(m, capacity=sizes.get(machine.use_of(m.name), m.capacity)) for m in machine.memories)
    links = (replace(link, bytes_per_cycle=2 * link.bytes_per_cycle) for link in machine.links)
    return net.graph(), replace(machine, memories=tuple(small), links=tuple(links))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strategy", ["graphturbo", "solver"])
def test_no_strategy_fetches_more_weights_while_it_computes(strategy: Strategy, seed: int) -> None:
    graph, machine = late_weights(seed)
    found = plan(graph, machine, Options(timeout=1.0, strategy=strategy)).plan
    assert_no_less(graph, found, machine)
    assert (found.lower_bound_cycles, found.lower_bound_reason) == lower_bound(graph, machine)
    # The vector engine could take some products, and have their weights in local memory.
    cycles, reason = on_matrix_alone_bound(graph, machine)
    assert reason.startswith("MME, then ddr: ") and cycles >= found.lower_bound_cycles


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_no_strategy_does_less(strategy: Strategy, seed: int) -> None:
    graph, machine = subject(1000 + seed)
    found = plan(graph, machine, Options(timeout=1.0, strategy=strategy)).plan
    assert_no_less(graph, found, machine)
    rate = machine.engine_for("matrix").rate or {}
    for segment in found.segments:
        for tile in segment.tiles:
            op = graph.op[tile.op]
            if op.contraction is not None:
                dtypes = {graph.tensor[r.tensor].dtype for r in op.stages[op.contraction].reads}
                usual = "matrix" if all(map(rate.get, dtypes)) else "vector"
                # Only the models put on the vector engine what the matrix engine can run.
                assert tile.engine == usual or (strategy == "solver" and tile.engine == "vector")
