"""The lower bound is what every plan must do: known totals on small graphs."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest

from girih.ir.bounds.lower_bound import lower_bound
from girih.ir.bounds.unavoidable_work import bounding, unavoidable
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.lowering import lower
from girih.simulator import simulate
from tests.support import graphs
from tests.support.machines import without_fill
from tests.support.plans.sequential_plans import sequential_plan


@pytest.fixture(scope="module")
def machine() -> Machine:
    return without_fill(load_machine("stcp920"))


def most_work(graph: Graph, machine: Machine) -> tuple[int, str]:
    """Of the busiest resource, which the bound is no less than."""
    most = bounding(unavoidable(graph, machine))
    cycles = ceil(most.cycles - 1e-6)
    assert cycles <= lower_bound(graph, machine)[0]
    return cycles, most.resource


def test_a_large_convolution_is_bound_by_the_matrix_engines(machine: Machine) -> None:
    graph = graphs.conv(size=64, channels=512, out=512)
    cycles, reason = most_work(graph, machine)
    # The windows at both ends see two of three rows, and of three columns: 64 x 64, 64 x 63 or 63 x 63 rows of the array.
    assert cycles == (64 + 4 * 63 + 4 * ceil(63 * 63 / 64)) * 512 * 512 // (32 * machine.cores)
    assert "MME" in reason


def test_thin_product_is_bound_by_main_memory(machine: Machine) -> None:
    graph = graphs.matmul(m=8, k=1024, n=1024)
    moved = sum(t.bytes for t in graph.tensors)
    cycles, reason = most_work(graph, machine)
    assert cycles == ceil(moved / 27)
    assert "ddr" in reason


def test_products_that_no_matrix_engine_runs_take_the_vector_engine(machine: Machine) -> None:
    graph = graphs.matmul(m=512, k=256, n=256, dtype="float32")
    cycles, reason = most_work(graph, machine)
    assert "VME" in reason
    assert cycles == ceil((512 * 256 * 256 + 512 * 256) / (32 * machine.cores))


def test_special_functions_count_their_slowdown(machine: Machine) -> None:
    def only(func: str) -> int:
        net = graphs.Net("one", "float16")
        x = net.input("x", 4, 64)
        for i in range(400):
            x = net.elementwise(f"e{i}", func, x)
        return most_work(net.graph(), machine)[0]

    assert only("exp") == machine.engine_for("vector").special * only("neg")


def test_lanes_are_those_of_what_is_written(machine: Machine) -> None:
    # The bias is added in single precision, of which 32 go side by side; the ReLU writes half precision.
    vector = next(w for w in unavoidable(graphs.conv(batch=2, size=8, out=32), machine) if w.resource == "VME")
    assert vector.cycles == 2 * 8 * 8 * 32 * (1 / 32 + 1 / 64) / machine.cores


def test_movements_are_free(machine: Machine) -> None:
    def chain(copies: int) -> Graph:
        net = graphs.Net("moves", "float16")
        x = net.input("x", 64, 64)
        for i in range(copies):
            x = net.elementwise(f"copy{i}", "copy", x)
        return net.graph()

    assert lower_bound(chain(1), machine) == lower_bound(chain(50), machine)


def test_a_plan_that_multiplies_on_a_fast_vector_engine_does_not_beat_it(machine: Machine) -> None:
    """A machine whose vector engine multiplies sooner than its matrix engine, and a valid plan that uses that."""
    lanes = dict.fromkeys(machine.engine_for("vector").lanes or {}, 4096)
    faster = {"VME": {"lanes": lanes, "issue": 0}, "MME": {"rate": {"float16": 0.001}}}
    engines = tuple(replace(engine, **faster.get(engine.name, {})) for engine in machine.engines)
    uneven = replace(machine, engines=engines)
    graph = graphs.matmul(m=256, k=64, n=128)
    plan = sequential_plan(graph, uneven, matrix=False, parts=1, reduce_parts=1)
    trace = simulate(lower(graph, plan, uneven), uneven, {}, {}, data=False)
    assert not trace.violations
    assert lower_bound(graph, uneven)[0] <= trace.cycles


def test_a_bound_that_is_mostly_before_and_after_some_work_says_so(machine: Machine) -> None:
    _, reason = lower_bound(graphs.host_between(), machine)
    assert reason.startswith("chain around "), reason
    _, reason = lower_bound(graphs.matmul(m=4096, k=512, n=512), machine)
    assert reason.startswith("ddr: 330,145 cycles of work, 32 before them"), reason
