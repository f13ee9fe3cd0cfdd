"""Chains of latencies: known totals on small machines, and no plan of any kind that is sooner."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import get_args

import pytest

from girih.ir.bounds.demanded_elements import demanded_points
from girih.ir.bounds.head_and_tail import BusyBetween, busy_between
from girih.ir.bounds.latency_chains import Around, Chains
from girih.ir.bounds.lower_bound import lower_bound, on_matrix_alone_bound
from girih.ir.bounds.unavoidable_work import on_matrix, operand_dtypes
from girih.ir.bounds.value_paths import value_ways
from girih.ir.errors import GirihError
from girih.ir.graph import Graph, Op
from girih.ir.load_machine import load_machine, machine_names
from girih.ir.machine import Machine
from girih.ir.machines.as_planned import as_planned
from girih.ir.plan import Plan
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.options import Options, Strategy
from tests.support import graphs
from tests.support.plans.random_plans import NoPlanFitsError, random_plan
from tests.support.random_graphs import random_graph
from tests.support.random_machines import random_machine
from tests.support.sampled import sampled

TINY = load_machine("tiny")
# Of tiny: a transfer takes its issue, a cycle, its latency and those of its links.
FETCHED = (8 + 1 + 8 + 50 + 20) + (4 + 1 + 4 + 20)
"""From main to local memory: by DMA, and by a copy."""
STORED = (4 + 1 + 4 + 20) + (8 + 1 + 8 + 20 + 50)
"""And back."""


def longest(graph: Graph, machine: Machine) -> float:
    """The cycles of the longest chain, contractions on the matrix engine."""

    def kinds(op: Op, position: int) -> dict[str, float]:
        return {"matrix" if on_matrix(op, position, operand_dtypes(graph, op), machine) else "vector": 0.0}

    return Chains(graph, machine, demanded_points(graph)).paths(kinds).cycles


def test_ways_with_long_latencies_are_found() -> None:
    """Copies of one engine to and fro, while the value is not visible yet, lead nowhere: there are a million of them."""
    links = tuple(replace(link, latency=1_000_000) if link.name == "llb-read" else link for link in TINY.links)
    ways, slow = value_ways(TINY), value_ways(replace(TINY, links=links))
    more = 1_000_000 - next(link.latency for link in TINY.links if link.name == "llb-read")
    for way in (("main", "left"), ("matrix", "home")):
        assert slow[way] == ways[way] + more


# Known totals ---------------------------------------------------------------------------------------------------------


def chain_of(*funcs: str) -> Graph:
    net = graphs.Net("chain", "float32")
    x = net.input("x", 4, 8)
    for n, func in enumerate(funcs):
        x = net.elementwise(f"e{n}", func, x)
    return net.graph()


def test_a_vector_operator_waits_for_its_input_and_its_result_has_to_get_home() -> None:
    # Issue and body of the instruction, and its latency before the copy engine takes the result.
    assert longest(chain_of("neg"), TINY) == FETCHED + (4 + 1 + 4) + STORED


def test_instructions_of_one_queue_do_not_wait_for_the_latency() -> None:
    assert longest(chain_of("neg", "abs", "neg"), TINY) == FETCHED + 3 * (4 + 1) + 4 + STORED


def test_special_functions_and_movements() -> None:
    assert longest(chain_of("exp"), TINY) == longest(chain_of("neg"), TINY) + 3
    assert longest(chain_of("neg", "copy", "copy"), TINY) == longest(chain_of("neg"), TINY)


def test_a_sum_is_there_when_all_of_its_products_are_added() -> None:
    short, long = (longest(graphs.matmul(m=1, k=k, n=8, dtype="float32"), TINY) for k in (8, 200))
    assert long - short == 192


def test_a_broken_way_counts_nothing() -> None:
    """The longest of two branches counts, not their sum; of a concatenation, the shorter branch."""
    net = graphs.Net("branches", "float32")
    x = net.input("x", 4, 8)
    y = net.elementwise("a", "neg", x)
    for n in range(3):
        x = net.elementwise(f"b{n}", "neg", x)
    net.elementwise("sum", "add", x, y)
    assert longest(net.graph(), TINY) == FETCHED + 4 * (4 + 1) + 4 + STORED


def test_ways_through_other_memories_are_those_of_the_engines_that_go_there() -> None:
    ways = value_ways(TINY)
    # The copy engine from local to weight memory: issue, a cycle, latency; then the issue of the matrix engine.
    assert ways["vector", "right"] == 4 + (4 + 1 + 4) + 4
    assert ways["vector", "left"] == 4 + 4
    assert ways["matrix", "left"] == 4
    # What a matrix engine makes in IM has to be in L1 before another operator reads it: by the vector engine.
    apart = value_ways(TINY, "L1")
    assert apart["matrix", "left"] == 8 + (4 + 1 + 4) + 4


def test_a_staging_memory_is_on_the_way() -> None:
    machine = as_planned(load_machine("ascend310"))
    ways = value_ways(machine, "L1")
    # From UB to L1 and back: MTE3 and MTE1U.
    assert ways["vector", "vector"] == 16 + (16 + 1 + 16) + (8 + 1 + 16) + 8


def test_the_element_that_comes_last_is_in_the_last_instruction_of_a_sum() -> None:
    """Weights that come at the pace of a link are added up meanwhile: the sum is not in the tail of the link."""
    machine = replace(
        TINY,
        cores=1,
        memories=tuple(replace(m, bytes_per_cycle=1 << 16, banks=1) for m in TINY.memories),
        engines=tuple(
            replace(e, lanes=e.lanes and dict.fromkeys(e.lanes, 1), bytes_per_cycle=e.bytes_per_cycle and 1 << 16)
            for e in TINY.engines
        ),
        links=tuple(replace(x, bytes_per_cycle=32.0 if x.name == "llb-read" else 1e4) for x in TINY.links),
    )
    graph = graphs.matmul(m=1, k=4096, n=8, dtype="float32")
    bound, reason = lower_bound(graph, machine)
    assert reason.startswith("llb-read: 4,608 cycles of work")
    found = plan(graph, machine, Options(timeout=0, strategy="layerwise")).plan
    assert_not_beaten(graph, found, machine)
    assert bound < 4608 + 4096


def test_an_element_of_an_output_may_be_read_by_nobody() -> None:
    """Whatever reads a part of it: another part may be the last of the run."""
    net = graphs.Net("part", "float32")
    x = net.elementwise("whole", "neg", net.input("x", 4, 8))
    y = net.elementwise("part", "neg", x)
    half = replace(net.ops[-1].stages[0].axes[0], extent=2)
    net.ops[-1] = replace(
        net.ops[-1], stages=(replace(net.ops[-1].stages[0], axes=(half, net.ops[-1].stages[0].axes[1])),)
    )
    net.tensors[y] = replace(net.tensors[y], shape=(2, 8))
    net.elementwise("after", "exp", y)
    around = {
        outputs: Chains(g, TINY, demanded_points(g)).paths(lambda *_: {"vector": 0.0}).by_class["whole", "vector"]
        for outputs in (("after",), (x, "after"))
        for g in (net.graph(*outputs),)
    }
    assert around[x, "after"].tail == 4 + STORED
    assert around["after",].tail == (4 + 1) + (4 + 4) + 4 + STORED


def test_what_only_padding_is_written_for_is_there_at_once() -> None:
    """Of a tensor that two stages write, one of them nothing but padding: its readers may need that alone."""
    net = graphs.Net("padded", "float32")
    slow = net.elementwise("slow", "exp", net.input("x", 4, 8))
    both = net.concat("both", slow, slow, dim=0)
    op = net.ops[-1]
    first = op.stages[0]
    (read,) = first.reads
    far = replace(read.index[0], const=read.index[0].const + 100)
    padding = replace(first, operands=(replace(read, index=(far, *read.index[1:]), fill=0.0),))
    net.ops[-1] = replace(op, stages=(padding, *op.stages[1:]))
    net.elementwise("last", "neg", both)
    graph = net.graph()
    paths = Chains(graph, TINY, demanded_points(graph)).paths(lambda op, position: {"vector": 0.0})
    assert paths.by_class["slow", "vector"].head > 0
    assert paths.by_class["last", "vector"].head == 0


def test_an_engine_of_both_classes_has_the_heads_of_each() -> None:
    """What comes before the vector operations of an operator is not before its products."""
    fast = replace(TINY, links=tuple(replace(x, bytes_per_cycle=1e4) for x in TINY.links))
    matrix, vector = fast.engine["MME"], fast.engine["VME"]
    both = replace(matrix, classes=("matrix", "vector"), reads=vector.reads, lanes=vector.lanes, special=vector.special)
    both = replace(both, writes=vector.writes, rate={"float32": 0.01})
    slow = replace(fast, engines=tuple(replace(e, rate=both.rate) if e is matrix else e for e in fast.engines))
    one = replace(fast, engines=tuple(both if e is matrix else e for e in fast.engines if e is not vector))
    net = graphs.Net("product", "float32")
    net.matmul("product", net.input("x", 64, 256), 64, relu=True)
    bound, reason = on_matrix_alone_bound(net.graph(), one)
    assert reason.startswith("MME: ")
    assert bound <= on_matrix_alone_bound(net.graph(), slow)[0]


def test_heads_and_tails_are_those_of_the_best_part_of_the_work() -> None:
    works = [(10.0, Around(0, 50)), (10.0, Around(5, 45)), (100.0, Around(60, 0))]
    assert busy_between(works) == BusyBetween(60, 100, 0)
    assert busy_between(works[:2]) == BusyBetween(0, 20, 45)
    assert busy_between([]).cycles == 0


# No plan is sooner ----------------------------------------------------------------------------------------------------


def assert_not_beaten(graph: Graph, found: Plan, machine: Machine) -> None:
    cycles = simulate(lower(graph, found, machine), machine, {}, {}, data=False).summary.cycles
    bound, reason = lower_bound(graph, machine)
    assert bound <= cycles, reason
    given = (t for s in found.segments for t in s.tiles if t.engine == "vector")
    if all(graph.op[t.op].contraction is None for t in given):
        bound, reason = on_matrix_alone_bound(graph, machine)
        assert bound <= cycles, reason


def any_plan(graph: Graph, machine: Machine, seed: int) -> Plan | None:
    """Drawn, or of a strategy; ``None`` if it is refused."""
    random = Random(f"plan {seed}")
    try:
        if random.random() < 0.6:
            return random_plan(graph, machine, seed, longest=random.choice((1, 4)), tiles=random.choice((1, 4)))
        return plan(graph, machine, Options(timeout=0.2, strategy=random.choice(get_args(Strategy)))).plan
    except (GirihError, NoPlanFitsError):
        return None


def dtype_of(machine: Machine) -> str:
    rates = machine.engine_for("matrix").rate or {}
    return next((dtype for dtype in ("float16", "float32") if dtype in rates), "float32")


@pytest.mark.parametrize("name", machine_names())
def test_no_plan_for_a_built_in_machine_is_sooner(name: str) -> None:
    machine = as_planned(load_machine(name))
    for seed in range(6):
        graph = random_graph(seed, dtype_of(machine), 1 + seed % 5)
        found = any_plan(graph, machine, seed)
        if found is not None:
            assert_not_beaten(graph, found, machine)


@pytest.mark.parametrize("seed", sampled(range(60)))
def test_no_plan_for_a_machine_without_bandwidth_limits_is_sooner(seed: int) -> None:
    """Where only latencies are left, chains are most of a run."""
    random = Random(f"latencies {seed}")
    machine = as_planned(load_machine(random.choice(("tiny", "stcp920", "ascend310", "gaudi"))))
    machine = replace(
        machine,
        memories=tuple(replace(m, bytes_per_cycle=1 << 20) for m in machine.memories),
        engines=tuple(
            replace(
                e,
                issue=random.choice((0, 1, 16)),
                latency=random.choice((0, 3, 200)),
                bytes_per_cycle=e.bytes_per_cycle and 1 << 20,
                lanes=e.lanes and dict.fromkeys(e.lanes, 1 << 12),
            )
            for e in machine.engines
        ),
        links=tuple(replace(x, bytes_per_cycle=1e6, latency=random.choice((0, 5, 300))) for x in machine.links),
    )
    graph = random_graph(2000 + seed, dtype_of(machine), random.randint(1, 5))
    found = any_plan(graph, machine, seed)
    if found is not None:
        assert_not_beaten(graph, found, machine)


@pytest.mark.parametrize("seed", sampled(range(60)))
def test_no_plan_for_a_drawn_machine_is_sooner(seed: int) -> None:
    try:
        machine = as_planned(random_machine(seed))
        machine.engine_for("matrix"), machine.engine_for("vector"), machine.levels.activations
        graph = random_graph(3000 + seed, dtype_of(machine), 1 + seed % 4)
        found = any_plan(graph, machine, seed)
    except (GirihError, KeyError):
        return
    if found is not None:
        assert_not_beaten(graph, found, machine)
