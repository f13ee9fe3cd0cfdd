"""Constants with homes of their own that DMA brings to the shared memory: costs, bounds, programs and reports.

The machine of the tests has a link, bursts and an engine for constants that differ from those for all else, whose main
memory lies behind one port with the shared memory.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import ceil
from typing import Literal

import pytest

import girih
from girih.explain.cycles.fetched_tensors import fetched_tensors
from girih.frontend.for_machine.reduction_innermost import _longest_burst  # pyright: ignore[reportPrivateUsage]
from girih.ir.bounds.demanded_elements import demanded_points
from girih.ir.bounds.link_crossings import link_crossings
from girih.ir.bounds.two_phase import on_chip_capacities
from girih.ir.box import full
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Link
from girih.ir.machines.as_planned import as_planned
from girih.ir.semantics.cell import Cells
from girih.models import build
from girih.solver.cost.operator import Rates
from girih.solver.residency.problem import residency_problem
from girih.solver.switches import checked
from girih.solver.timeline.link_sharing import _crossing  # pyright: ignore[reportPrivateUsage]
from tests.support import graphs
from tests.support.machines import kinds_of

TINY = load_machine("tiny")
ROM = kinds_of(TINY)["main memory with constants"]


@cache
def compiled() -> girih.Compiled:
    data = build("tiny-cnn").SerializeToString(deterministic=True)
    return girih.compile(data, target=ROM, batch=2, strategy="graphturbo", solver_timeout=0, cache=False)


def product() -> tuple[Graph, int, int]:
    """A product of 8 x 64 by 64 x 48 in float32, the bytes of its weights, and those of its input and output."""
    graph = graphs.matmul(m=8, dtype="float32")
    weights = sum(graph.tensor[name].bytes for name in graph.constant_names)
    return graph, weights, sum(tensor.bytes for tensor in graph.tensors) - weights


def test_each_home_has_its_own_rate_and_bursts() -> None:
    rates = Rates.from_machine(ROM)
    # What is copied from one side of the port to the other crosses it twice.
    assert (rates.main, rates.main_burst) == (4.0, 1)
    assert (rates.fetched_constants, rates.fetched_burst) == (2.0, 64)
    assert rates.slowest_home == 2.0
    assert (
        Rates.from_machine(TINY).slowest_home
        == Rates.from_machine(TINY).main
        == Rates.from_machine(TINY).fetched_constants
    )


def test_residency_knows_what_a_fetch_takes() -> None:
    compilation = compiled()
    plan, graph = compilation.plan, compilation.graph
    problem = residency_problem(
        graph, Cells(graph), ROM, plan.segments, plan.steps, (1,) * len(plan.slots), checked([])
    )
    assert problem.rate == 2.0
    kinds = {True: (7, 2.0, 64), False: (ROM.engine["DMR"].issue, 4.0, 1)}
    seen: set[bool] = set()
    for block in (block for item in problem.items for block in item.blocks):
        tensor, constant = graph.tensor[block.tensor], block.tensor in graph.constant_names
        if block.box == full(tensor.shape):
            issue, rate, burst = kinds[constant]
            assert block.cycles == issue + ceil(-(-tensor.bytes // burst) * burst / rate)
            seen.add(constant)
    assert seen == {True, False}


def test_bounds_count_bytes_at_every_port() -> None:
    graph, weights, ports = product()
    crossed = {link.name: sum(counts.values()) for link, counts in link_crossings(graph, ROM, demanded_points(graph))}
    # To and from RAM, to and from LLB; weights come to LLB and leave it.
    assert crossed["ddr"] == weights
    assert crossed["port"] == 3 * ports + 2 * weights
    assert {crossed[link.name] for link in ROM.links if link.memory == "LLB"} == {weights + ports}
    apart = {link.name: room for link, room in on_chip_capacities(ROM, on_vector=False)}
    inside = ROM.memory["L1W"].capacity * ROM.cores
    assert apart["ddr"] == ROM.memory["LLB"].capacity + inside and apart["port"] == inside
    everything = {link.name: room for link, room in on_chip_capacities(ROM, on_vector=True)}
    cores = sum(m.capacity for m in ROM.memories if m.scope == "core") * ROM.cores
    assert everything["ddr"] == ROM.memory["LLB"].capacity + cores


@pytest.mark.parametrize(
    ("memory", "direction", "queues"),
    [
        ("DDR", "read", {"dma in"}),
        ("RAM", "write", {"dma out"}),
        ("LLB", "write", {"dma in"}),
        (("DDR", "LLB"), "read", {"dma in", "dma out"}),
        (("DDR", "RAM"), "read", {"dma in"}),
        (("RAM", "LLB"), "both", {"dma in", "dma out"}),
    ],
)
def test_dma_crosses_links_on_both_of_its_sides(
    memory: str | tuple[str, ...], direction: Literal["read", "write", "both"], queues: set[str]
) -> None:
    assert set(_crossing(Link("x", memory, direction, 1.0, 0), ROM.levels.homes)) == queues


def test_programs_fetch_constants_from_their_own_memory_and_are_predicted() -> None:
    compilation = compiled()
    homes = {b.tensor: b.memory for b in compilation.plan.shared if b.memory != "LLB"}
    assert {
        name for name, memory in homes.items() if memory == "DDR"
    } == homes.keys() & compilation.graph.constant_names
    assert {memory for name, memory in homes.items() if name not in compilation.graph.constant_names} == {"RAM"}
    fetches = {
        q.engine: stream for q, stream in zip(compilation.program.queues, compilation.program.streams, strict=True)
    }
    tensor_of = fetched_tensors(compilation.graph, compilation.plan, compilation.program, ROM)
    assert {tensor_of(i)[1] for i in fetches["DMC"] if i.row.kind == "dma"} == {
        b.tensor for b in compilation.plan.shared if b.fetch and b.tensor in compilation.graph.constant_names
    }
    result = compilation.run(check="exact")
    assert compilation.plan.cycles_predicted == pytest.approx(result.cycles, rel=0.03)
    assert "DDR" in {stay.memory for stay in compilation.details(tensors=["conv1.weight"]).tensors[0].stays}


def test_bytes_that_cross_a_port_twice_are_its_work_and_no_bursts_that_are_not_full() -> None:
    (port,) = (row for row in compiled().explain().breakdown.totals if row.resource == "port")
    assert port.rounding == pytest.approx(0.0, abs=1.0) and port.extra >= -1.0


def test_a_list_of_one_memory_is_that_memory() -> None:
    machine = as_planned(load_machine("ethos-u55-128"))
    listed = replace(machine, links=tuple(replace(x, memory=x.memories) for x in machine.links))
    assert Rates.from_machine(listed) == Rates.from_machine(machine)
    assert _longest_burst(listed) == _longest_burst(machine) == 128
