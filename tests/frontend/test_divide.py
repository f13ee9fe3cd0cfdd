"""Two products in parts: the same function, where nothing else fits."""

from __future__ import annotations

from dataclasses import replace

import graphs
import numpy as np
import pytest

from girih import models
from girih.api.exact import evaluate
from girih.frontend import import_onnx
from girih.frontend.divide import divide
from girih.ir.graph import Graph
from girih.ir.graph_check import check_graph
from girih.ir.load_machine import load_machine
from girih.ir.lower_bound import lower_bound
from girih.ir.machine import Machine
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.options import Options

STCP = load_machine("stcp920")


def small(local: int, shared: int) -> Machine:
    """The machine with memories of so many bytes."""
    sizes = {"local": local, "shared": shared}
    return replace(STCP, memories=tuple(replace(m, capacity=sizes.get(m.role, m.capacity)) for m in STCP.memories))


def vit(precision: str = "fp16", layers: int = 2) -> Graph:
    """17 tokens of 256, and 2,048 between; of the last block one token is needed."""
    model = models.build("vit-b16", size=64, layers=layers, hidden=256, heads=4, ffn=2048, classes=10)
    return import_onnx(model, batch=8, precision=precision)  # type: ignore[arg-type]


MACHINE = small(1 << 16, 1 << 18)
"""In half precision, h of 8 images is as much as all cores have, and W with V is eight times the shared memory."""


def inputs(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {p.name: random.standard_normal(p.shape).astype(p.dtype) for p in graph.inputs}


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_parts_compute_what_the_whole_did(precision: str) -> None:
    graph = vit(precision)
    made = divide(graph, MACHINE)
    check_graph(made)
    parts = [op.name for op in made.ops if op.name.startswith("encoder.0.mlp.fc2.matmul.part")]
    assert len(parts) >= 2 and len(made.ops) == len(graph.ops) + 2 * (len(parts) - 1)
    assert made.digest != graph.digest and set(made.data) == made.constant_names
    given = inputs(graph)
    whole, other = (next(iter(evaluate(g, given, None).values())).astype(np.float64) for g in (graph, made))
    error = float(np.linalg.norm(whole - other) / np.linalg.norm(whole))
    assert 0 < error < (1e-6 if precision == "as-is" else 2e-3)


def test_every_product_is_done_once() -> None:
    graph = vit()
    made = divide(graph, MACHINE)
    macs = [sum(s.points for op in g.ops for s in op.stages if s.is_contraction) for g in (graph, made)]
    weights = [sum(t.bytes for t in g.tensors if t.name in g.constant_names) for g in (graph, made)]
    assert macs[0] == macs[1] and weights[0] == weights[1]
    assert lower_bound(graph, MACHINE) == lower_bound(made, MACHINE)


def test_a_plan_of_parts_is_shorter_and_right() -> None:
    graph = vit()
    made = divide(graph, MACHINE)
    plans = [plan(g, MACHINE, Options(timeout=5.0)).plan for g in (graph, made)]
    assert plans[1].cycles_predicted < plans[0].cycles_predicted
    given = inputs(graph)
    trace = simulate(lower(made, plans[1], MACHINE), MACHINE, made.data, given)
    expected = next(iter(evaluate(made, given, None).values()))
    got = next(iter(trace.outputs.values()))
    assert trace.violations == ()
    assert np.abs(got.astype(np.float64) - expected).max() < 1e-2 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("local", "shared", "why"),
    [
        (1 << 20, 1 << 18, "the cores have room for h"),
        (1 << 16, 1 << 20, "the shared memory has room for h"),
        (1 << 14, 1 << 18, "the cores have no room for x and y"),
    ],
)
def test_nothing_changes_where_it_would_not_help(local: int, shared: int, why: str) -> None:
    graph = vit()
    assert divide(graph, small(local, shared)) is graph, why


def test_other_forms_stay_as_they_are() -> None:
    """h is read twice, or is an output; y is no sum; something else than columns goes in between."""
    for form in range(4):
        net = graphs.Net("other", "float16")
        x = net.input("x", 8, 64, 64)
        h = net.matmul("first", x, 1024, relu=True)
        h = net.softmax("between", h) if form == 2 else h
        y = net.matmul("second", h, 64, add="" if form == 1 else x)
        more = [net.elementwise("more", "neg", h)] if form == 0 else [h] if form == 3 else []
        graph = net.graph(y, *more)
        assert divide(graph, MACHINE) is graph, form
