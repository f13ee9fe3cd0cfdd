"""Contractions split between matrix and vector engine: no split, and no simulated plan, is faster than the bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from girih.ir.bounds.engine_split import Contraction, least_split
from girih.ir.bounds.lower_bound import lower_bound
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.lowering import lower
from girih.simulator import simulate
from tests.support import graphs
from tests.support.plans.random_plans import random_plan
from tests.support.random_graphs import random_graph
from tests.support.sampled import sampled


def drawn_contractions(rng: Random) -> list[Contraction]:
    return [Contraction(float(rng.randint(1, 40)), float(rng.randint(0, 200))) for _ in range(rng.randint(1, 5))]


def fewest_cycles(contractions: list[Contraction], matrix: float, vector: float) -> float:
    """Of all splits that move at least one."""
    return min(
        max(
            matrix + sum(c.matrix * (1 - f) for c, f in zip(contractions, moved, strict=True)),
            vector + sum(c.vector * f for c, f in zip(contractions, moved, strict=True)),
        )
        for moved in product((0, 1), repeat=len(contractions))
        if any(moved)
    )


@pytest.mark.parametrize("seed", sampled(range(200)))
def test_no_split_takes_fewer_cycles(seed: int) -> None:
    rng = Random(seed)
    contractions = drawn_contractions(rng)
    matrix, vector = float(rng.randint(0, 50)), float(rng.randint(0, 50))
    split = least_split(contractions, matrix, vector)
    assert split.cycles <= fewest_cycles(contractions, matrix, vector) + 1e-6
    # On some operators alone, both engines take at least their weighted cycles.
    named = {f"c{n}": c for n, c in enumerate(contractions)}
    some = rng.sample(list(named), rng.randint(1, len(named)))
    weighted = split.weighted(named, {"other": vector})
    for moved in product((0, 1), repeat=len(some)):
        on_matrix = sum(named[name].matrix for name, there in zip(some, moved, strict=True) if not there)
        on_vector = vector + sum(named[name].vector for name, there in zip(some, moved, strict=True) if there)
        assert weighted["other"] + sum(weighted[name] for name in some) <= max(on_matrix, on_vector) + 1e-6


def test_one_contraction_moves_as_a_whole() -> None:
    assert least_split([Contraction(10.0, 300.0)], 0.0, 5.0).cycles == 305.0


def test_of_equal_contractions_one_moves_as_a_whole() -> None:
    assert least_split([Contraction(10.0, 20.0)] * 3, 0.0, 0.0).cycles == 20.0
    assert least_split([Contraction(10.0, 11.0)] * 3, 0.0, 0.0).cycles == pytest.approx(20.0 - 10.0 * 9.0 / 21.0)


def uneven(rng: Random) -> Machine:
    """A machine with a fast vector engine and a slow matrix engine, and fast links."""
    machine = load_machine("tiny")
    lanes = dict.fromkeys(machine.engine_for("vector").lanes or {}, rng.choice([8, 64, 1024]))
    rate = dict.fromkeys(machine.engine_for("matrix").rate or {}, rng.choice([1 / 1024, 1 / 64, 1 / 8, 1.0]))
    engines = tuple(
        replace(e, lanes=lanes, issue=0)
        if "vector" in e.classes
        else replace(e, rate=rate, issue=0)
        if "matrix" in e.classes
        else e
        for e in machine.engines
    )
    links = tuple(replace(link, bytes_per_cycle=64 * link.bytes_per_cycle) for link in machine.links)
    return replace(machine, engines=engines, links=links)


def matrix_work_on_vector(graph: Graph, machine: Machine, seed: int) -> tuple[int, int, int]:
    """(contractions on the vector engine, cycles of a drawn plan, bound)."""
    plan = random_plan(graph, machine, seed, longest=3, on_vector=0.6)
    trace = simulate(lower(graph, plan, machine), machine, {}, {}, data=False)
    assert not trace.violations
    tiles = [t for s in plan.segments for t in s.tiles if graph.op[t.op].contraction is not None]
    return sum(t.engine == "vector" for t in tiles), trace.cycles, lower_bound(graph, machine)[0]


@pytest.mark.parametrize("seed", sampled(range(60)))
def test_no_plan_with_a_fast_vector_engine_beats_the_bound(seed: int) -> None:
    rng = Random(f"uneven {seed}")
    graph = random_graph(seed, "float32", rng.randint(1, 5))
    _, cycles, bound = matrix_work_on_vector(graph, uneven(rng), seed)
    assert bound <= cycles


@pytest.mark.parametrize("seed", range(20))
def test_no_chain_of_products_beats_the_bound(seed: int) -> None:
    rng = Random(f"chain {seed}")
    net = graphs.Net("chain", "float32")
    x = net.input("x", rng.randint(4, 12), 16)
    for n in range(rng.randint(2, 4)):
        x = net.matmul(f"fc{n}", x, rng.choice([8, 12, 16]))
    moved, cycles, bound = matrix_work_on_vector(net.graph(), uneven(rng), seed)
    assert bound <= cycles
    if seed == 0:
        assert moved
