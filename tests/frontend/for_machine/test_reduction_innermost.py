"""Weights with the reduction innermost: the same function, in whole bursts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend.for_machine.reduction_innermost import reduction_innermost
from girih.ir.checks.check_graph import check_graph
from girih.ir.graph import Graph, Host, Op, contraction_axes
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.options import Options
from tests.support import graphs

STCP = load_machine("stcp920")
SMALL = replace(
    STCP,
    cores=2,
    memories=tuple(replace(m, capacity=1 << 18) if m.name == STCP.levels.exchange.name else m for m in STCP.memories),
)
"""Weights of 4 MiB pass through it in pieces."""


def with_bursts(machine: Machine, memory: str, burst: int) -> Machine:
    """The machine with such bursts on the links of one memory."""
    links = tuple(replace(x, burst=burst) if x.memory == memory else x for x in machine.links)
    return replace(machine, links=links)


LONG = with_bursts(STCP, STCP.levels.home.name, 4096)
NARROW = replace(
    LONG, memories=tuple(replace(m, capacity=64) if m.name == LONG.levels.weights.name else m for m in LONG.memories)
)
"""No weights have room in a core at once."""
NETWORKS = {
    "product": lambda: graphs.matmul(m=24, k=70, n=48),
    "convolution": lambda: graphs.conv(batch=2, size=9, channels=24, out=40),
    "chain": lambda: graphs.residual(blocks=1),
    "attention": lambda: graphs.attention(),
}


def inputs(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {p.name: random.standard_normal(p.shape).astype(p.dtype) for p in graph.inputs}


def stationary(graph: Graph) -> list[tuple[str, tuple[str, ...]]]:
    """Of each product with weights, these and the roles of their dimensions."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for op in graph.ops:
        if op.contraction is None:
            continue
        stage = op.stages[op.contraction]
        weights, axes = stage.factors[1], contraction_axes(stage)
        if weights.tensor in graph.constant_names:
            roles = ("n" if any(i.coeffs[a] for a in axes.n) else "k" for i in weights.index)
            found.append((weights.tensor, tuple(roles)))
    return found


@pytest.mark.parametrize("network", NETWORKS)
def test_it_is_the_same_function(network: str) -> None:
    graph = NETWORKS[network]()
    transposed = reduction_innermost(graph, NARROW)
    check_graph(transposed)
    assert stationary(transposed) and all(
        roles == tuple(sorted(roles, reverse=True)) for _, roles in stationary(transposed)
    )
    assert {c.tensor for c in transposed.constants} == {c.tensor for c in graph.constants}
    changed = {a.tensor for a, b in zip(graph.constants, transposed.constants, strict=True) if a.sha256 != b.sha256}
    assert changed == {name for name, _ in stationary(graph)}
    given = inputs(graph)
    before, after = (evaluate_graph(g, given, None) for g in (graph, transposed))
    for name, value in before.items():
        np.testing.assert_array_equal(value, after[name])


@pytest.mark.parametrize("network", NETWORKS)
def test_programs_are_right(network: str) -> None:
    graph = reduction_innermost(NETWORKS[network](), NARROW)
    planned = plan(graph, LONG, Options(timeout=0.0)).plan
    given = inputs(graph)
    trace = simulate(lower(graph, planned, LONG), LONG, graph.data, given)
    assert trace.violations == ()
    for name, value in evaluate_graph(graph, given, None).items():
        error = np.abs(trace.outputs[name].astype(np.float64) - value).max()
        assert error <= 1e-2 * np.abs(value).max()


def test_rows_as_long_as_bursts_stay() -> None:
    graph = graphs.matmul()
    columns = STCP.engine_for("matrix").columns
    assert reduction_innermost(graph, STCP) is graph
    assert reduction_innermost(graph, with_bursts(STCP, STCP.levels.home.name, 2 * columns)) is graph
    assert reduction_innermost(graph, with_bursts(STCP, STCP.levels.home.name, 2 * columns + 2)) is not graph


def test_weights_that_are_read_otherwise_stay() -> None:
    net = graphs.Net("tied", "float16")
    graph = net.graph(net.matmul("product", net.input("x", 32, 48), 48))
    product = graph.ops[0]
    left, right = product.stages[0].factors
    # The same weights, but the sum runs over their columns.
    turned = replace(product.stages[0], operands=(left, replace(right, index=tuple(reversed(right.index)))))
    tied = replace(graph, ops=(product, replace(product, name="turned", stages=(turned, *product.stages[1:]))))
    assert reduction_innermost(graph, NARROW) is not graph
    assert reduction_innermost(tied, NARROW) is tied
    weights = right.tensor
    for_host = Op("kernel", (), (weights,), ("product.host",), host=Host("", "of the test"))
    read_by_host = replace(graph, ops=(product, for_host))
    assert reduction_innermost(read_by_host, NARROW) is read_by_host
    given_back = replace(graph, outputs=(*graph.outputs, replace(graph.outputs[0], name="w", tensor=weights)))
    assert reduction_innermost(given_back, NARROW) is given_back


def test_rows_that_tiles_hold_whole_stay() -> None:
    """Weights that a core has room for, with no longer a reduction than there are columns."""
    square, tall = graphs.matmul(k=48, n=48), graphs.matmul(k=64, n=48)
    assert reduction_innermost(square, LONG) is square
    assert reduction_innermost(tall, LONG) is not tall
    assert reduction_innermost(square, NARROW) is not square


def test_links_that_weights_do_not_cross_do_not_count() -> None:
    """Weights are read from main memory, written to shared memory, and read there; results alone go back."""
    graph = graphs.matmul()
    home, exchange = STCP.levels.home.name, STCP.levels.exchange.name
    # The link of main memory, one for each direction.
    (ddr,) = (x for x in STCP.links if x.memory == home)
    others = tuple(x for x in STCP.links if x is not ddr)
    ways = (replace(ddr, name="ddr-read", direction="read"), replace(ddr, name="ddr-write", direction="write"), *others)

    def is_turned(memory: str, direction: str) -> bool:
        links = (replace(x, burst=4096) if (x.memory, x.direction) == (memory, direction) else x for x in ways)
        return reduction_innermost(graph, replace(STCP, links=tuple(links))) is not graph

    assert is_turned(home, "read") and is_turned(exchange, "write") and is_turned(exchange, "read")
    assert not is_turned(home, "write")


def test_it_takes_fewer_cycles() -> None:
    """On links of bursts that are longer than the rows of a chunk of weights."""
    graph = graphs.matmul(m=8, k=1024, n=2048)
    machine = with_bursts(SMALL, SMALL.levels.home.name, 4096)
    cycles: list[int] = []
    for layout in (graph, reduction_innermost(graph, machine)):
        planned = plan(layout, machine, Options(timeout=0.0)).plan
        cycles.append(simulate(lower(layout, planned, machine), machine, layout.data, inputs(layout)).cycles)
    assert cycles[1] < 0.7 * cycles[0]
