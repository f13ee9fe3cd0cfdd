"""Costs: who runs a contraction, how the work adds up, and how durations overlap."""

from __future__ import annotations

import numpy as np
import pytest

from girih.ir.box import Box, Span, full
from girih.ir.equivalence import EquivalenceClasses, signature
from girih.ir.graph import Graph
from girih.ir.isa.timing import matrix_body
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.semantics.contraction_engines import contraction_engine
from girih.ir.semantics.region import OpBoxes, op_boxes
from girih.solver.cost.operator import EngineWork, OpCost, Rates, Weights, estimate, overlapped
from girih.solver.segmentation.engine_overlap import OperatorTiming, makespan
from tests.support import graphs
from tests.support.machines import without_fill


@pytest.fixture(scope="module")
def machine() -> Machine:
    return without_fill(load_machine("stcp920"))


def whole(graph: Graph, index: int = 0) -> OpBoxes:
    op = graph.ops[index]
    return op_boxes(op, graph.tensor, full(graph.tensor[op.output].shape))


@pytest.mark.parametrize(("dtype", "engine"), [("float16", "matrix"), ("float32", "vector"), ("int8", "matrix")])
def test_the_dtype_decides_the_engine(machine: Machine, dtype: str, engine: str) -> None:
    graph = graphs.matmul(dtype=dtype)
    assert contraction_engine(graph.ops[0], graph, machine) == engine


def test_a_depthwise_convolution_has_no_columns(machine: Machine) -> None:
    net = graphs.Net()
    net.depthwise("depthwise", net.input("x", 1, 8, 8, 16))
    graph = net.graph()
    cost = OpCost(graph.ops[0], graph, machine)
    assert cost.engine == "vector"
    assert cost.stationary is None


def test_matrix_work_is_rounded_to_the_array(machine: Machine) -> None:
    graph = graphs.matmul(m=65, k=100, n=33)
    cost = OpCost(graph.ops[0], graph, machine)
    work = cost.work(whole(graph), whole(graph).tensors)
    engine = machine.engine_for("matrix")
    assert work.matrix == engine.issue + matrix_body(engine, 65, 33, 100, "float16") == 16 + 2 * 2 * 100
    assert work.matrix_instructions == 1


def test_work_of_parts_adds_up_to_more_than_the_whole(machine: Machine) -> None:
    graph = graphs.conv(size=16, kernel=3)
    op = graph.ops[0]
    cost = OpCost(op, graph, machine)
    all_of_it = whole(graph)

    def part(rows: Span) -> EngineWork:
        box: Box = (Span(0, 1), rows, Span(0, 16), Span(0, 16))
        return cost.work(op_boxes(op, graph.tensor, box), all_of_it.tensors)

    halves = part(Span(0, 8)).plus(part(Span(8, 16)))
    one = cost.work(all_of_it, all_of_it.tensors)
    assert one.matrix <= halves.matrix
    assert one.vector <= halves.vector


def test_broadcast_takes_turns_and_shares_the_link(machine: Machine) -> None:
    rates = Rates.from_machine(machine)
    alone, alone_full = Weights(8, 1).load(64000, rates)
    shared, shared_full = Weights(8, 8).load(64000, rates)
    assert alone == 8 * shared == 64000 * 8 / rates.read
    assert alone_full > shared_full >= 64000 / rates.into.bytes_per_cycle


def test_versions_overlap(machine: Machine) -> None:
    graph = graphs.matmul()
    cost = OpCost(graph.ops[0], graph, machine)
    work = EngineWork(matrix=1000, vector=800)
    serial, double = (overlapped(cost, work, 4, depth) for depth in (1, 2))
    assert serial == 1800 + 4 * cost.latency
    assert double == max(1000, serial // 2)


def test_an_estimate_covers_each_engine(machine: Machine) -> None:
    graph = graphs.conv(batch=1, size=28, channels=128, out=128)
    cost = OpCost(graph.ops[0], graph, machine)
    part = whole(graph)
    work = cost.work(part, part.tensors)
    cycles = estimate(cost, work, part, Weights(8, 8), Rates.from_machine(machine))
    assert max(work.matrix, work.vector) <= cycles <= work.matrix + work.vector + cost.latency


def link(alone: int, matrix: int, vector: int, streams: bool, *sources: int) -> OperatorTiming:
    one = np.array([1])
    return OperatorTiming(one * alone, one * matrix, one * vector, one == int(streams), sources)


def test_a_chain_waits_for_what_does_not_stream() -> None:
    first, second = link(100, 100, 10, True), link(100, 100, 10, False, 0)
    assert makespan([first, second])[0] == 200


def test_a_chain_overlaps_vector_and_matrix_work() -> None:
    softmax, product = link(100, 0, 100, True), link(100, 100, 0, True, 0)
    assert makespan([softmax, product])[0] == 125


def test_a_chain_is_never_shorter_than_an_engine() -> None:
    links = [link(50, 40, 30, True), link(60, 60, 10, True, 0), link(70, 0, 70, True, 1)]
    assert makespan(links)[0] >= max(sum(int(x.matrix[0]) for x in links), sum(int(x.vector[0]) for x in links))


def test_structures_ignore_names() -> None:
    graph = graphs.chain(3, channels=16)
    assert len(set(EquivalenceClasses(graph).class_of.values())) == 1
    other = graphs.residual(2)
    of = EquivalenceClasses(other).class_of
    assert of["a0"] == of["a1"]
    assert of["c0"] == of["c1"] != of["a0"]


def test_an_activation_is_not_a_constant() -> None:
    net = graphs.Net()
    a, b = net.input("a", 4, 16, 16), net.input("b", 4, 16, 16)
    net.product("p", a, b)
    net.product("q", a, net.constant("c", 4, 16, 16))
    graph = net.graph("p", "q")
    assert signature(graph, graph.ops[0]) != signature(graph, graph.ops[1])
