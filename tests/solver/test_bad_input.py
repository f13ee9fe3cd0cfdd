"""Timeouts, machines and graphs at the edges: each gives a valid plan, or says what cannot be and what to change.

A plan counts as valid if the checker accepts it, and its program runs in the simulator without a violation.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest

from girih.ir.checks.check_machine import check_machine
from girih.ir.checks.check_plan import check_plan
from girih.ir.codec import sha256
from girih.ir.errors import InfeasibleError, UsageError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.baselines.graphturbo.group import LONGEST
from girih.solver.options import Options, Strategy
from girih.solver.subproblem.time_budget import FREE_OPS, SEARCHES, SHORT, rounds
from tests.support import graphs
from tests.support.sampled import sampled, sampled_pairs

TINY = load_machine("tiny")
STRATEGIES: tuple[Strategy, ...] = ("solver", "graphturbo", "layerwise")
YEARS = 1e9
"""Seconds: about thirty."""


def valid(graph: Graph, machine: Machine = TINY, timeout: float = 1.0, strategy: Strategy = "solver") -> Plan:
    """A plan that was checked and followed."""
    planned = plan(graph, machine, Options(timeout, strategy))
    found = planned.plan
    check_plan(found, graph, machine)
    trace = simulate(lower(graph, found, machine), machine, graph.data, {}, data=False)
    assert trace.summary.violation_count == 0
    assert trace.summary.cycles >= found.lower_bound_cycles
    return found


def refusal(graph: Graph, machine: Machine, strategy: Strategy = "solver") -> str:
    """The message of the infeasibility, which must make sense to whoever reads it."""
    with pytest.raises(InfeasibleError) as error:
        plan(graph, machine, Options(1.0, strategy))
    message = str(error.value)
    assert re.search(r"\d bytes", message), message
    assert re.search("use a (smaller batch|machine with more )", message), message
    # Nothing is "-4,032 bytes more" than something.
    assert not re.search(r"\s-\d", message), message
    return message


def network() -> Graph:
    return graphs.residual(dtype="float32")


def one_bank(machine: Machine = TINY) -> Machine:
    return replace(machine, memories=tuple(replace(m, banks=1, interleave=0) for m in machine.memories))


def with_capacity(role: str, capacity: int) -> Machine:
    """The machine with one bank in each memory, and so many bytes in that of ``role``."""
    machine = one_bank()
    memories = tuple(replace(m, capacity=capacity) if machine.use_of(m.name) == role else m for m in machine.memories)
    return replace(machine, memories=memories)


# Timeouts.


def two_convolutions() -> Graph:
    return graphs.chain(2, size=4, channels=8, dtype="float32")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("timeout", [0.0, 1e-9])
def test_no_time_at_all_is_enough_for_a_plan(strategy: Strategy, timeout: float) -> None:
    assert valid(network(), timeout=timeout, strategy=strategy).cycles_predicted > 0


def test_timeouts_of_years_end_by_themselves_with_the_same_plan() -> None:
    began = time.monotonic()
    longest = [plan(two_convolutions(), TINY, Options(timeout)) for timeout in (YEARS, 1e308)]
    # Some seven times what it takes on an idle machine: the point is that it ends.
    assert time.monotonic() - began < 300
    assert all(p.log.status in ("optimal", "exhausted") and not p.log.more_time_helps for p in longest)
    assert sha256(longest[0].plan) == sha256(longest[1].plan)


def test_no_search_of_a_model_is_longer_than_the_last_round_says() -> None:
    assert list(SEARCHES) == sorted(SEARCHES)
    assert [r.seconds for r in rounds(YEARS)] == [r.seconds for r in rounds(SHORT)] == [0.0, *SEARCHES]
    assert [r.seconds for r in rounds(1.0)] == [0.02], "a short timeout is divided"
    last = rounds(YEARS)[-1].iteration(1)
    assert max(last.segmentation, last.tiling, last.residency, last.banks) <= SEARCHES[-1] <= 60


# Machines.


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cores", [1, 3, 7])
def test_any_number_of_cores_will_do(strategy: Strategy, cores: int) -> None:
    machine = replace(TINY, cores=cores)
    check_machine(machine)
    made = valid(network(), machine, strategy=strategy)
    assert all(split.parts <= cores for segment in made.segments for split in segment.cores)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_memories_of_one_bank_will_do(strategy: Strategy) -> None:
    machine = one_bank()
    check_machine(machine)
    valid(network(), machine, strategy=strategy)


@pytest.mark.parametrize(("memory", "strategy"), sampled_pairs([
    ("shared", 262143), ("shared", 65537), ("shared", 20011), ("local", 65535), ("local", 10007),
    ("accumulator", 16381), ("accumulator", 3001), ("weights", 16381), ("weights", 1023), ("main", 300007),
], STRATEGIES))  # fmt: skip
def test_memories_of_odd_sizes_will_do(memory: tuple[str, int], strategy: Strategy) -> None:
    role, capacity = memory
    machine = with_capacity(role, capacity)
    check_machine(machine)
    made = valid(network(), machine, strategy=strategy)
    name = next(m.name for m in machine.memories if role in machine.roles_of(m.name))
    for buffer in (*made.local, *made.shared):
        if buffer.memory == name:
            assert buffer.address + buffer.bytes <= capacity


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("role", "name"), [("main", "DDR"), ("shared", "LLB"), ("local", "L1"), ("weights", "L1W"), ("accumulator", "IM")]
)
@pytest.mark.parametrize("capacity", [1, 31])
def test_a_memory_that_holds_nothing_is_named(strategy: Strategy, role: str, name: str, capacity: int) -> None:
    """By planning as well, although no machine file with it passes its checks."""
    machine = with_capacity(role, capacity)
    with pytest.raises(UsageError, match=rf"alignment of {name} \(32\) must be at most its capacity \({capacity}\)"):
        check_machine(machine)
    message = refusal(network(), machine, strategy)
    assert f"of {name}," in message
    assert f"the {capacity} " in message


@pytest.mark.parametrize("strategy", ["layerwise", "graphturbo"])
def test_a_shared_memory_that_holds_a_few_elements_will_do(strategy: Strategy) -> None:
    """Cells of more need more at one time: an operator is cut until they fit."""
    assert valid(network(), with_capacity("shared", 7001), timeout=30.0, strategy=strategy).segments


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_shared_memory_that_does_not_hold_one_element_is_refused(strategy: Strategy) -> None:
    """Nine positions of the image, with eight channels of four bytes."""
    message = refusal(network(), with_capacity("shared", 256), strategy)
    assert (
        message.startswith("operator stem: what one element of its result takes of x ")
        and "288 bytes of LLB, 32 more than the 256" in message
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_where_nothing_is_proven_the_message_says_so(strategy: Strategy) -> None:
    """More than the image of an operator, but not all that it needs beside that."""
    message = refusal(network(), with_capacity("shared", 1024), strategy)
    assert message.startswith("no plan of residual for tiny was found, which is no proof that there is none; ")
    assert "operator pool" in message and "of LLB" in message
    assert ("use the strategy solver" in message) == (strategy != "solver")


def test_banks_that_do_not_divide_their_memory_are_refused() -> None:
    memories = tuple(replace(m, capacity=65537) if m == TINY.levels.activations.memory else m for m in TINY.memories)
    with pytest.raises(UsageError, match=r"the 4 banks of L1 must divide its capacity, 65,537 bytes"):
        check_machine(replace(TINY, memories=memories))


def test_a_machine_of_cores_that_nothing_reaches_is_refused() -> None:
    memories = tuple(m for m in TINY.memories if m.name not in ("DDR", "LLB"))
    engines = tuple(
        replace(
            e,
            reads=tuple(dict.fromkeys("L1" if r == "LLB" else r for r in e.reads)),
            writes=tuple(w for w in e.writes if w != "LLB") or ("L1",),
        )
        for e in TINY.engines
        if e.scope == "core"
    )
    machine = replace(TINY, memories=memories, engines=engines, links=())
    with pytest.raises(
        UsageError,
        match=r"nothing comes to L1: .*, a circle without a source; add a memory of the cluster or the chip",
    ):
        check_machine(machine)


# Graphs.


def single(kind: str) -> Graph:
    net = graphs.Net(kind, "float32")
    match kind:
        case "conv":
            net.conv("op", net.input("x", 1, 5, 5, 3), 7, kernel=3)
        case "depthwise":
            net.depthwise("op", net.input("x", 1, 5, 5, 3))
        case "matmul":
            net.matmul("op", net.input("x", 13, 11), 17)
        case "softmax":
            net.softmax("op", net.input("x", 3, 11))
        case "flatten":
            net.flatten("op", net.input("x", 1, 3, 3, 5))
        case "element":
            net.elementwise("op", "exp", net.input("x", 1))
        case "one by one":
            net.matmul("op", net.input("x", 1, 1), 1)
        case _:
            raise AssertionError(kind)
    return net.graph()


@pytest.mark.parametrize(
    ("kind", "strategy"),
    sampled_pairs(["conv", "depthwise", "matmul", "softmax", "flatten", "element", "one by one"], STRATEGIES),
)
def test_a_graph_of_one_operator_will_do(strategy: Strategy, kind: str) -> None:
    made = valid(single(kind), strategy=strategy)
    assert [segment.ops for segment in made.segments] == [("op",)]


def long_chain(length: int) -> Graph:
    return graphs.chain(length, size=4, channels=8, kernel=1, dtype="float32")


def fan(width: int, *, joined: bool) -> Graph:
    """Branches from one input; ``joined``: added up by a tree, else each is an output."""
    net = graphs.Net("fan", "float32")
    x = net.input("x", 1, 4, 4, 8)
    ends = [net.conv(f"branch{i}", x, 8) for i in range(width)]
    if not joined:
        return net.graph(*ends)
    number = 0
    while len(ends) > 1:
        left = [ends[-1]] if len(ends) % 2 else []
        pairs = list(zip(ends[::2], ends[1::2], strict=False))
        ends = []
        for a, b in pairs:
            ends.append(net.elementwise(f"sum{number}", "add", a, b))
            number += 1
        ends += left
    return net.graph()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_chain_will_do(strategy: Strategy) -> None:
    valid(long_chain(30), strategy=strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("joined", [False, True])
def test_a_wide_fan_out_will_do(strategy: Strategy, joined: bool) -> None:
    valid(fan(24, joined=joined), strategy=strategy)


def test_sub_graphs_do_not_grow_without_end() -> None:
    made = plan(long_chain(3 * LONGEST), TINY, Options(0.0, "graphturbo")).plan
    assert LONGEST // 2 < max(len(segment.ops) for segment in made.segments) <= LONGEST


def test_a_graph_of_too_many_operators_for_its_timeout_gets_the_first_plan() -> None:
    graph = long_chain(FREE_OPS + 100)
    planned = plan(graph, TINY, Options(1.0))
    assert planned.log.status == "budget"
    assert "from 5 s on" in planned.log.reason
    assert "segmentation" not in {run.model for run in planned.log.runs if run.status != "fixed"}
    assert planned.plan.strategy == "solver"


@pytest.mark.slow
@pytest.mark.parametrize("kind", sampled(["chain", "fan", "joined fan"], 3))
def test_thousands_of_operators_are_planned_and_lowered(kind: str) -> None:
    """Seconds of this process, so that a busy machine is no failure; it takes about a minute for the chain."""
    graph = long_chain(5000) if kind == "chain" else fan(1000, joined=kind == "joined fan")
    began = time.process_time()
    valid(graph)
    assert time.process_time() - began < 300


def test_equal_plans_without_time() -> None:
    assert len({sha256(plan(network(), TINY, Options(0.0)).plan) for _ in range(2)}) == 1
