"""Plans made by hand, lowered and simulated, against the graph's own meaning in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.lowering import lower
from girih.simulator import simulate
from tests.support import graphs
from tests.support.plans.sequential_plans import sequential_plan

CASES = {
    "conv": lambda dtype: graphs.conv(dtype=dtype),
    "strided prime conv": lambda dtype: graphs.conv(size=13, channels=7, out=11, stride=2, dtype=dtype),
    "batched conv": lambda dtype: graphs.conv(batch=3, size=6, channels=5, out=9, dtype=dtype),
    "matmul": lambda dtype: graphs.matmul(dtype=dtype),
    "prime matmul": lambda dtype: graphs.matmul(m=37, k=101, n=53, dtype=dtype),
    "attention": lambda dtype: graphs.attention(dtype=dtype),
}


def check(graph: Graph, target: str, tolerance: float, **cuts: int | bool) -> None:
    machine = load_machine(target)
    program = lower(graph, sequential_plan(graph, machine, **cuts), machine)
    random = np.random.default_rng(0)
    inputs = {p.name: random.standard_normal(p.shape).astype(p.dtype) for p in graph.inputs}
    trace = simulate(program, machine, graph.data, inputs)
    assert trace.violations == ()
    for name, expected in evaluate_graph(graph, inputs).items():
        got = np.asarray(trace.outputs[name], np.float64)
        error = np.linalg.norm(got - expected) / np.linalg.norm(np.asarray(expected, np.float64))
        assert error <= tolerance, (name, error)


@pytest.mark.parametrize("parts,reduce_parts,depth", [(1, 1, 1), (2, 2, 2), (3, 3, 2)])
@pytest.mark.parametrize("case", CASES)
def test_any_tiling_computes_the_same(case: str, parts: int, reduce_parts: int, depth: int) -> None:
    check(CASES[case]("float16"), "stcp920", 5e-5, parts=parts, reduce_parts=reduce_parts, depth=depth)


@pytest.mark.parametrize("case", ["conv", "strided prime conv", "attention"])
def test_float32_is_exact_to_rounding(case: str) -> None:
    check(CASES[case]("float32"), "tiny", 1e-6, parts=2, reduce_parts=2)


@pytest.mark.parametrize("case", ["conv", "prime matmul"])
def test_the_vector_engine_can_do_it_alone(case: str) -> None:
    check(CASES[case]("float32"), "tiny", 1e-6, parts=2, matrix=False)


def test_a_network_with_shortcuts() -> None:
    check(graphs.residual(), "stcp920", 1e-4, parts=2, reduce_parts=1)


def test_barriers_change_time_only() -> None:
    graph, machine = graphs.attention(), load_machine("stcp920")
    free, strict = (lower(graph, sequential_plan(graph, machine, barrier=b), machine) for b in (False, True))
    random = np.random.default_rng(0)
    inputs = {p.name: random.standard_normal(p.shape).astype(p.dtype) for p in graph.inputs}
    first, second = (simulate(p, machine, graph.data, inputs) for p in (free, strict))
    assert first.cycles < second.cycles
    for name in first.outputs:
        np.testing.assert_array_equal(first.outputs[name], second.outputs[name])


def test_the_same_plan_gives_the_same_bytes() -> None:
    graph, machine = graphs.conv(), load_machine("stcp920")
    plan = sequential_plan(graph, machine)
    assert lower(graph, plan, machine).to_bytes() == lower(graph, plan, machine).to_bytes()
