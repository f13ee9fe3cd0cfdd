"""Every cycle of every engine is accounted for, once, and under the right name."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from math import ceil
from random import Random

import numpy as np
import pytest

from girih.explain.cycles.account import cycle_breakdown
from girih.explain.cycles.breakdown import CAUSES, CycleBreakdown
from girih.explain.cycles.costed_run import CostedRun
from girih.explain.cycles.losses import losses
from girih.ir.bounds.lower_bound import lower_bound, on_matrix_alone_bound
from girih.ir.bounds.unavoidable_work import unavoidable
from girih.ir.graph import Graph, Host
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan
from girih.ir.semantics.cell import count
from girih.ir.trace import Trace
from girih.lowering import lower
from girih.simulator import simulate
from tests.support import graphs
from tests.support.machines import without_fill
from tests.support.plans.plain_plans import plain_plan
from tests.support.plans.random_plans import random_plan
from tests.support.plans.sequential_plans import sequential_plan
from tests.support.random_graphs import random_graph

DTYPES = {"tiny": "float32", "stcp920": "float16"}
NETWORKS = {
    "chain": graphs.chain,
    "residual": partial(graphs.residual, size=8, channels=16),
    "attention": graphs.attention,
    "matmul": graphs.matmul,
    "conv": graphs.conv,
}


def accounted(graph: Graph, plan: Plan, machine: Machine) -> tuple[CycleBreakdown, Trace]:
    program = lower(graph, plan, machine)
    trace = simulate(program, machine, {}, {}, data=False)
    return cycle_breakdown(graph, plan, CostedRun(program, machine, trace)), trace


@lru_cache
def example(network: str, target: str, barrier: bool) -> tuple[CycleBreakdown, Trace, Graph, Machine]:
    graph, machine = NETWORKS[network](dtype=DTYPES[target]), load_machine(target)
    plan = plain_plan(graph, machine) if barrier else sequential_plan(graph, machine)
    return *accounted(graph, plan, machine), graph, machine


EXAMPLES = [(network, target, barrier) for network in NETWORKS for target in DTYPES for barrier in (False, True)]


def assert_adds_up(found: CycleBreakdown, trace: Trace, graph: Graph, machine: Machine) -> None:
    for row in (*found.totals, *found.segments, *found.operators):
        inside = row.peak + row.rounding + row.fill + row.issue + row.slowed
        assert inside == pytest.approx(row.busy, abs=1e-6)
        assert row.busy + sum(row.waits.values()) == pytest.approx(row.cycles, abs=1e-6)
        assert row.busiest >= row.busy - 1e-6
        assert -1e-6 <= row.boundary <= sum(row.waits.values()) + 1e-6
        assert min(row.rounding, row.fill, row.issue, *row.waits.values()) >= -1e-6
        if row.work is not None:
            assert row.extra is not None and row.work + row.extra == pytest.approx(row.peak, abs=1e-6)
    for total in found.totals:
        assert total.cycles == pytest.approx(trace.cycles, abs=1e-6)
        parts = found.segments_of(total.resource)
        for name in ("cycles", "peak", "rounding", "fill", "issue", "slowed", "busy", "boundary"):
            assert sum(getattr(p, name) for p in parts) == pytest.approx(getattr(total, name), abs=1e-6)
        for cause in CAUSES:
            assert sum(p.waits[cause] for p in parts) == pytest.approx(total.waits[cause], abs=1e-6)
    # A core that has nothing to do while others compute waits for what they compute.
    assert all(r.op == row.op for row in found.operators for r in row.reasons if r.cause == "cores")
    # The identity: work of the busiest resource, extra, loss inside of instructions, and idle by cause.
    bounding = found.total(found.bounding)
    cycles, _ = on_matrix_alone_bound(graph, machine)
    assert lower_bound(graph, machine)[0] <= cycles
    most = max(unavoidable(graph, machine), key=lambda work: work.cycles)
    assert most.resource == found.bounding
    assert (
        bounding.work is not None and bounding.work == pytest.approx(most.cycles) and ceil(most.cycles - 1e-6) <= cycles
    )
    lost = (bounding.extra, bounding.rounding, bounding.fill, bounding.issue, bounding.slowed, *bounding.waits.values())
    assert bounding.work + sum(part or 0.0 for part in lost) == pytest.approx(trace.cycles, abs=1e-6)
    assert sum(row.cycles for row in found.operators) == pytest.approx(trace.cycles, abs=1e-6)


@pytest.mark.parametrize(("network", "target", "barrier"), EXAMPLES)
def test_cycles_add_up(network: str, target: str, barrier: bool) -> None:
    assert_adds_up(*example(network, target, barrier))


def test_columns_that_no_plan_fills_are_work() -> None:
    graph = graphs.conv(batch=8, size=8, channels=32, out=24, kernel=1)
    machine = without_fill(load_machine("stcp920"))
    found, _ = accounted(graph, sequential_plan(graph, machine, parts=1, reduce_parts=1, core_dim=0), machine)
    row = found.total("MME")
    # One block of 64 rows, and of 24 of 32 columns, on each core.
    assert (row.work, row.extra, row.rounding) == (32.0, pytest.approx(0.0), pytest.approx(0.0))
    cut, _ = accounted(graph, sequential_plan(graph, machine, parts=2, reduce_parts=1, core_dim=0), machine)
    row = cut.total("MME")
    assert row.work == 32.0 and row.rounding > 0.0 and row.extra == pytest.approx(0.0)


@pytest.mark.parametrize("seed", range(12))
def test_cycles_of_any_plan_add_up(seed: int) -> None:
    rng = Random(seed)
    target = rng.choice(list(DTYPES))
    graph, machine = random_graph(seed, DTYPES[target], rng.randint(1, 5)), load_machine(target)
    found, trace = accounted(graph, random_plan(graph, machine, seed, longest=4), machine)
    assert_adds_up(found, trace, graph, machine)


@pytest.mark.parametrize(("network", "target", "barrier"), EXAMPLES)
def test_engines_are_as_busy_as_the_simulator_says(network: str, target: str, barrier: bool) -> None:
    found, trace, _, machine = example(network, target, barrier)
    for row in found.totals:
        if row.resource in machine.engine:
            assert row.busy * row.units == pytest.approx(trace.summary.busy[row.resource])
    assert {row.resource for row in found.totals} >= {name for name, busy in trace.summary.busy.items() if busy}


ENGINES = {
    "fetch_weights": {"DMR"}, "fetch_data": {"DMR"}, "load_weights": {"MTI"}, "load_data": {"MTI"}, "store": {"MTO"},
    "spill": {"DMW"}, "engine": {"MME", "VME"}, "cores": {"MME", "VME"}, "host": {"HOST"},
}  # fmt: skip


@pytest.mark.parametrize(("network", "target", "barrier"), EXAMPLES)
def test_each_cause_is_on_its_engine(network: str, target: str, barrier: bool) -> None:
    found, *_ = example(network, target, barrier)
    reasons = [reason for row in found.segments for reason in row.reasons]
    for reason in reasons:
        assert reason.engine in ENGINES[reason.cause], reason
        if network == "attention" and reason.cause == "fetch_weights":
            # The only operator with constants.
            assert reason.op == "project"
    told = {"fetch_data", "load_data", "store", "spill"} | ({"fetch_weights"} if network != "attention" else set())
    assert {reason.cause for reason in reasons} >= told


def test_copies_to_a_staging_memory_are_work_of_the_core() -> None:
    graph, machine = graphs.residual(size=8, channels=16), load_machine("ascend310")
    found, _ = accounted(graph, random_plan(graph, machine, 1, longest=2), machine)
    causes: dict[str, set[str]] = defaultdict(set)
    for row in found.segments:
        for reason in row.reasons:
            causes[reason.engine].add(reason.cause)
    # MTE1A, B and U copy from L1; MTE3 copies from UB, to L1 and to the memory that the cores share.
    for engine in ("MTE1A", "MTE1B", "MTE1U"):
        assert causes[engine] and causes[engine] <= {"engine", "cores"}
    assert {"cores", "store"} <= causes["MTE3"] <= {"engine", "cores", "store"}
    assert causes["MTE2"] == {"load_data"}


@pytest.mark.parametrize("network", NETWORKS)
def test_a_core_that_computes_does_not_wait_for_other_cores(network: str) -> None:
    graph, machine = NETWORKS[network](dtype="float16"), load_machine("stcp920")
    vector = machine.engine_for("vector")
    slow = replace(vector, issue=40 * vector.issue)
    machine = replace(machine, engines=tuple(slow if e == vector else e for e in machine.engines))
    program = lower(graph, sequential_plan(graph, machine), machine)
    trace = simulate(program, machine, {}, {}, data=False)
    breakdown = cycle_breakdown(graph, sequential_plan(graph, machine), CostedRun(program, machine, trace))
    nothing_to_do = 0
    for core in range(machine.cores):
        busy = np.zeros(trace.cycles, np.bool_)
        for number, queue in enumerate(program.queues):
            if queue.core == core and queue.engine in ("MME", "VME"):
                spans = zip(program.streams[number], trace.start[number], trace.end[number], strict=True)
                for instruction, begin, end in spans:
                    busy[begin:end] |= instruction.row.kind != "sync"
        nothing_to_do += int((~busy).sum())
    for name in ("MME", "VME", "MTI", "MTO"):
        assert breakdown.total(name).waits["cores"] <= nothing_to_do / machine.cores + 1e-6


def test_a_wait_counts_for_what_waits() -> None:
    found, *_ = example("chain", "stcp920", True)
    rows = {row.op: row for row in found.operators}
    # Kernels that do not overlap: what comes next waits for the results of the one before.
    for before, op in (("conv0", "conv1"), ("conv1", "conv2")):
        assert any(reason.op == before and reason.cause in ("store", "spill") for reason in rows[op].reasons)


def test_nothing_is_computed_twice_where_no_cells_overlap() -> None:
    found, *_ = example("matmul", "stcp920", False)
    matrix = found.total("MME")
    assert matrix.extra == pytest.approx(0)
    assert matrix.rounding > 0  # 32 x 48 sums on an array of 64 x 32


def test_bursts_that_are_not_full_are_rounding_of_their_link() -> None:
    graph, machine = graphs.conv(batch=1, size=5, channels=3, out=5, kernel=1, dtype="float32"), load_machine("tiny")
    program = lower(graph, plan := sequential_plan(graph, machine), machine)
    run = CostedRun(program, machine, simulate(program, machine, {}, {}, data=False))
    row = cycle_breakdown(graph, plan, run).total("ddr")
    moved = [cost.cost for costs in run.costs for cost in costs if 0 in dict(cost.cost.links)]
    payload, crossed = sum(cost.payload for cost in moved), sum(dict(cost.links)[0] for cost in moved)
    assert payload < crossed == run.trace.counters["ddr_link_byte"]
    rate = machine.links[0].bytes_per_cycle
    assert (row.peak, row.rounding) == (pytest.approx(payload / rate), pytest.approx((crossed - payload) / rate))


def test_halos_are_extra() -> None:
    graph, machine = graphs.chain(2, size=16), load_machine("stcp920")
    apart, _ = accounted(graph, sequential_plan(graph, machine), machine)
    # One operator a segment: nothing twice, but products with padding that tiles of border rows have in them.
    padding = apart.total("MME").extra or 0.0
    assert 0 <= padding <= 0.1 * (apart.total("MME").work or 0.0)
    # In one segment, cells overlap by the rows that the second kernel reaches over.
    together = [
        accounted(graph, random_plan(graph, machine, seed, longest=2), machine)[0].total("MME") for seed in range(8)
    ]
    assert max(row.extra or 0.0 for row in together) > padding + 0.05 * (together[0].work or 0.0)


def slower(machine: Machine, memory: str, factor: float) -> Machine:
    links = (replace(x, bytes_per_cycle=x.bytes_per_cycle / factor) if x.memory == memory else x for x in machine.links)
    return replace(machine, links=tuple(links))


def waits(found: CycleBreakdown, *causes: str) -> float:
    return sum(found.total("MME").waits[cause] for cause in causes)


def test_what_gets_slower_is_what_is_waited_for() -> None:
    graph, machine = graphs.residual(), load_machine("stcp920")
    plan = sequential_plan(graph, machine)
    usual, before = accounted(graph, plan, machine)
    far, after = accounted(graph, plan, slower(machine, machine.levels.home.name, 8))
    grown_by = after.cycles - before.cycles
    fetched = ("fetch_weights", "fetch_data", "spill")
    assert grown_by > 0
    assert waits(far, *fetched) - waits(usual, *fetched) == pytest.approx(grown_by, rel=0.2)
    near, after = accounted(graph, plan, slower(machine, machine.levels.exchange.name, 8))
    grown_by = after.cycles - before.cycles
    loaded = ("load_weights", "load_data", "store", *fetched)
    assert waits(near, *loaded) - waits(usual, *loaded) == pytest.approx(grown_by, rel=0.2)
    vector = machine.engine_for("vector")
    slow = replace(vector, issue=40 * vector.issue)
    engines = tuple(slow if e == vector else e for e in machine.engines)
    held, after = accounted(graph, plan, replace(machine, engines=engines))
    grown_by = after.cycles - before.cycles
    assert waits(held, "engine", "cores") - waits(usual, "engine", "cores") == pytest.approx(grown_by, rel=0.2)


def test_one_core_waits_for_no_other() -> None:
    graph, machine = graphs.residual(), replace(load_machine("stcp920"), cores=1)
    found, _ = accounted(graph, sequential_plan(graph, machine), machine)
    for row in found.totals:
        if row.resource in ("MME", "VME", "MTI", "MTO"):
            assert row.waits["cores"] == 0


def test_cores_without_work_wait_for_those_that_have_it() -> None:
    graph, machine = graphs.chain(3, size=32), without_fill(load_machine("stcp920"))
    plan = sequential_plan(graph, machine, cores=2)
    found, trace = accounted(graph, plan, machine)
    busy = found.total("MME")
    # Six of eight cores do nothing at all while the two others compute.
    assert busy.busiest == pytest.approx(busy.busy * 4, rel=0.01)
    assert busy.waits["cores"] >= 0.99 * busy.busiest * 6 / 8
    assert trace.violations == ()


def test_a_segment_for_each_operator_fills_and_drains_at_each() -> None:
    found, *_ = example("chain", "stcp920", True)
    # Kernels that do not overlap wait at their edges alone, but for tiles that wait for one another.
    matrix = found.total("MME")
    assert matrix.boundary > 0.8 * sum(matrix.waits.values())
    assert sum(row.boundary > 0 for row in found.segments_of("MME")) == len(found.segments_of("MME"))


def test_instances_have_edges_too() -> None:
    graph, machine = graphs.chain(2, size=16), load_machine("stcp920")
    plans = (random_plan(graph, machine, seed, longest=2) for seed in range(40))
    plan = next(p for p in plans if any(len(s.ops) > 1 and count(s.instances) > 1 for s in p.segments))
    segment = [next(n for n, s in enumerate(plan.segments) if op.name in s.ops) for op in graph.ops]
    program = lower(graph, plan, machine)
    trace = simulate(program, machine, {}, {}, data=False)
    matrix = cycle_breakdown(graph, plan, CostedRun(program, machine, trace)).total("MME")
    ends = edges = instances = 0
    for number, queue in enumerate(program.queues):
        if queue.engine == "MME":
            spans = [
                (int(lo), int(hi), i.op)
                for i, lo, hi in zip(program.streams[number], trace.start[number], trace.end[number], strict=True)
                if i.row.kind != "sync"
            ]
            first, last = (spans[0][0], spans[-1][1]) if spans else (trace.cycles, trace.cycles)
            ends += first + trace.cycles - last
            gaps = [(b[0] - a[1], a[2], b[2]) for a, b in pairwise(spans)]
            instances += sum(gap for gap, a, b in gaps if segment[a] == segment[b] and b < a)
            edges += sum(gap for gap, a, b in gaps if segment[a] != segment[b] or b < a)
    assert instances > 0
    assert matrix.boundary * machine.cores == pytest.approx(ends + edges)


def test_the_host_is_waited_for() -> None:
    graph, machine = graphs.residual(), load_machine("stcp920")
    ops = tuple(replace(op, host=Host("", "a test")) if op.name == "pool" else op for op in graph.ops)
    graph = replace(graph, ops=ops)
    found, trace = accounted(graph, sequential_plan(graph, machine), machine)
    assert_adds_up(found, trace, graph, machine)
    assert found.bounding == "HOST"
    assert found.total("HOST").extra == pytest.approx(0)
    assert found.total("MME").waits["host"] > 0.5 * machine.engine_for("host").issue


def test_losses_name_what_is_waited_for_most() -> None:
    graph, machine = graphs.residual(), slower(load_machine("stcp920"), "DDR", 100)
    found, _ = accounted(graph, sequential_plan(graph, machine), machine)
    row = max(found.segments_of("MME"), key=lambda r: r.waits["fetch_weights"])
    told = losses(row, machine)
    assert "waits for weights of" in told and "from DDR" in told
