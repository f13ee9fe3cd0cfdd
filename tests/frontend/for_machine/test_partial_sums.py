"""Products summed up in parts: the same function, in fewer cycles where little of a result fits at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import girih
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import for_machine, import_onnx
from girih.frontend.for_machine import fitted
from girih.frontend.for_machine.partial_sums import partial_sums
from girih.ir.checks.check_graph import check_graph
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from tests.support import graphs
from tests.support.onnx_models import Model, random_inputs
from tests.support.quantised_models import expected
from tests.support.quantised_networks import Kind, quantised

U55 = load_machine("ethos-u55-128")
"""12 KiB of data beside each core, and 8 bytes a cycle from the arena."""


def convolution(*, channels: int = 512, kernel: int = 3, stride: int = 2, size: int = 15) -> onnx.ModelProto:
    model = Model(seed=1)
    x = model.input("x", "N", channels, size, size)
    w, b = model.weight("w", 32, channels, kernel, kernel), model.weight("b", 32)
    pads = [kernel // 2] * 4
    y = model.node("Conv", x, w, b, pads=pads, strides=[stride, stride], name="conv")
    return model.build(model.node("Relu", y, name="relu"))


def product(*, rows: int = 49, depth: int = 3072, columns: int = 64) -> onnx.ModelProto:
    model = Model(seed=2)
    x = model.input("x", "N", rows, depth)
    y = model.node("MatMul", x, model.weight("w", depth, columns), name="product")
    return model.build(model.node("Add", y, model.weight("b", columns), name="biased"))


NETWORKS = {"convolution": convolution, "product": product}


@pytest.fixture(params=NETWORKS)
def integers(request: pytest.FixtureRequest, tmp_path: Path) -> onnx.ModelProto:
    """Each network in 8-bit integers."""
    return quantised(NETWORKS[request.param](), Kind(), tmp_path)


def names_of_parts(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops if ".part" in op.name]


def test_integers_are_the_same_to_the_bit(integers: onnx.ModelProto) -> None:
    graph = import_onnx(integers, batch=1)
    parts = partial_sums(graph, U55)
    check_graph(parts)
    assert names_of_parts(parts)
    inputs = random_inputs(integers)
    whole, summed = (evaluate_graph(g, inputs, None) for g in (graph, parts))
    assert all(np.array_equal(whole[name], summed[name]) for name in whole)


def test_parts_come_from_the_same_nodes_and_cut_the_channels(integers: onnx.ModelProto) -> None:
    graph = import_onnx(integers, batch=1)
    parts = partial_sums(graph, U55)
    (whole,) = (op for op in graph.ops if op.contraction is not None)
    divided = [op for op in parts.ops if op.contraction is not None]
    assert {op.origin for op in divided} == {whole.origin} and divided[-1].name == whole.name
    old = graph.tensor[whole.stages[0].factors[1].tensor].shape
    new = [parts.tensor[op.stages[0].factors[1].tensor].shape for op in divided]
    cut = {d for shape in new for d in range(len(shape)) if shape[d] != old[d]}
    assert len(cut) == 1 and sum(shape[d] for shape in new for d in cut) == max(old)


def test_a_network_that_has_such_names_already(tmp_path: Path) -> None:
    model = Model(seed=3)
    x = model.input("x.part0", 1, 64, 8192)
    y = model.node("MatMul", x, model.weight("x.part1", 8192, 64), name="x", outputs=["x"])
    z = model.node("Softmax", y, name="x.part0", outputs=["z"])
    network = model.build(z)
    tiny = load_machine("tiny")
    graph = import_onnx(network, batch=1)
    parts = partial_sums(graph, tiny)
    check_graph(parts)
    assert len(parts.ops) > len(graph.ops)
    inputs = random_inputs(network)
    whole, summed = (next(iter(evaluate_graph(g, inputs, None).values())).astype(float) for g in (graph, parts))
    assert np.linalg.norm(whole - summed) < 1e-5 * np.linalg.norm(whole)


def test_a_product_with_weights_for_each_of_a_batch_stays_whole() -> None:
    """A cell of one element of the batch needs its own weights alone, however large it is."""
    model = Model(seed=4)
    y = model.node("MatMul", model.input("x", 16, 8, 2048), model.weight("w", 16, 2048, 64), name="product")
    graph = import_onnx(model.build(y), batch=16)
    assert partial_sums(graph, load_machine("tiny")) is graph


def test_parts_are_whole_dot_products_of_the_array(tmp_path: Path) -> None:
    """Of 8 products each: 513 of them come in 3 or 9 equal parts alone."""
    graph = import_onnx(quantised(product(depth=8 * 513), Kind(), tmp_path), batch=1)
    assert len(names_of_parts(partial_sums(graph, U55))) + 1 in (3, 9)


def test_what_has_a_template_or_other_sums_stays_whole(integers: onnx.ModelProto) -> None:
    graph = import_onnx(integers, batch=1)
    for changes in ({"template": "own"}, {"buffers": "float16"}):
        ops = [
            replace(
                op,
                template=changes.get("template", ""),
                buffers=tuple(replace(b, dtype=changes.get("buffers", b.dtype)) for b in op.buffers),
            )
            for op in graph.ops
        ]
        changed = replace(graph, ops=tuple(ops))
        assert partial_sums(changed, U55) is changed


def test_every_product_is_done_once(integers: onnx.ModelProto) -> None:
    graph = import_onnx(integers, batch=1)
    parts = partial_sums(graph, U55)
    products = [sum(s.points for op in g.ops for s in op.stages if s.is_contraction) for g in (graph, parts)]
    weights = [sum(t.bytes for t in g.tensors if t.name in g.constant_names) for g in (graph, parts)]
    assert products[0] == products[1] and weights[0] == weights[1]


def test_a_program_of_parts_is_right_and_takes_fewer_cycles(
    integers: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, cycles = random_inputs(integers), list[int]()
    for divided in (True, False):
        if not divided:
            monkeypatch.setattr(for_machine, "partial_sums", lambda graph, machine: graph)
        compiled = girih.compile(
            integers.SerializeToString(), target="ethos-u55-128", batch=1, solver_timeout=2.0, cache=False
        )
        assert bool(names_of_parts(compiled.graph)) == divided
        result = compiled.run(inputs, check="exact")
        assert result.check is not None and result.check.passed and not result.violations
        (got,), want = result.outputs.values(), expected(integers, inputs)
        assert np.abs(got.astype(np.float64) - want).max() <= np.abs(want).max() / 100
        cycles.append(result.cycles)
    assert cycles[0] < 0.7 * cycles[1]


def with_memory(machine: Machine, name: str, capacity: int) -> Machine:
    memories = (replace(m, capacity=capacity) if m.name == name else m for m in machine.memories)
    return replace(machine, memories=tuple(memories))


@pytest.mark.parametrize(
    ("network", "machine", "why"),
    [
        (convolution(), with_memory(U55, "SHRAM", 1 << 20), "the core has room for all of it"),
        (convolution(channels=32), U55, "the reduction is short"),
        (product(rows=1), U55, "one row needs each weight once"),
        (product(columns=1), U55, "all weights are loaded for all rows at once"),
        (convolution(), load_machine("stcp920"), "the cores have room"),
    ],
)
def test_nothing_changes_where_it_would_not_help(
    network: onnx.ModelProto, machine: Machine, why: str, tmp_path: Path
) -> None:
    graph = import_onnx(quantised(network, Kind(), tmp_path), batch=1)
    assert partial_sums(graph, machine) is graph, why


def test_published_heuristics_get_the_graph_as_it_is(integers: onnx.ModelProto) -> None:
    graph = import_onnx(integers, batch=1)
    assert not names_of_parts(fitted(graph, U55, divides=False))
    assert names_of_parts(fitted(graph, U55, divides=True))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sums_of_floats_are_as_good(dtype: str) -> None:
    """They are accumulated in single precision, and stay in it from part to part."""
    net = graphs.Net("long", dtype)
    graph = net.graph(net.matmul("product", net.input("x", 64, 8192), 64, relu=True))
    parts = partial_sums(graph, load_machine("tiny"))
    check_graph(parts)
    assert names_of_parts(parts)
    assert {parts.tensor[name].dtype for name in names_of_parts(parts)} == {"float32"}
    (port,) = graph.inputs
    inputs = {port.name: np.random.default_rng(0).standard_normal(port.shape).astype(port.dtype)}
    whole, summed = (next(iter(evaluate_graph(g, inputs, None).values())).astype(float) for g in (graph, parts))
    assert np.linalg.norm(whole - summed) < (1e-6 if dtype == "float32" else 1e-4) * np.linalg.norm(whole)
