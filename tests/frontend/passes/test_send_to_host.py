"""What no engine can do goes to the host, as TIR that TVM can build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.ir.codec import from_json, sha256, to_json
from girih.ir.graph import Graph
from tests.support.onnx_models import Model, compare, run_on_host


def embedding() -> onnx.ModelProto:
    m = Model()
    x = m.node("Gather", m.weight("table", 10, 8), m.input("ids", 1, 6, kind="i"), name="lookup")
    return m.build(m.node("MatMul", m.node("Add", x, m.weight("position", 6, 8)), m.weight("w", 8, 4)))


def top() -> onnx.ModelProto:
    m = Model()
    x = m.node("Relu", m.input("x", 2, 9))
    m.node("TopK", x, m.constant("k", [3]), outputs=["values", "indices"], name="best")
    return m.build("values", "indices")


def between() -> onnx.ModelProto:
    m = Model()
    x = m.node("Relu", m.input("x", 3, 5))
    x = m.node("GatherElements", x, m.input("i", 3, 5, kind="i"), axis=1)
    return m.build(m.node("MatMul", x, m.weight("w", 5, 4)))


def accumulate() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("CumSum", m.input("x", 3, 5), m.constant("axis", 1)))


def counted() -> onnx.ModelProto:
    """int64 arithmetic, between a comparison and a cast that engines can do."""
    m = Model()
    x, y = m.input("x", 3, 5, kind="i"), m.input("y", 5, kind="i")
    z = m.node("Where", m.node("Less", x, y), m.node("Add", x, m.constant("five", 5)), m.node("Mul", x, y))
    return m.build(m.node("Cast", z, to=onnx.TensorProto.FLOAT))


def moved() -> onnx.ModelProto:
    m = Model()
    x = m.node("Transpose", m.input("x", 3, 5, kind="i"), perm=[1, 0])
    x = m.node("Pad", m.node("Slice", x, *(m.constant(n, [v]) for n, v in (("from", 1), ("to", 4), ("axis", 0)))),
               m.constant("pads", [1, 0, 0, 2]), m.constant("seven", 7))  # fmt: skip
    return m.build(m.node("Concat", x, m.input("y", 2, 5, kind="i"), axis=0))


def reduced() -> onnx.ModelProto:
    m = Model()
    m.input("x", 3, 4, 5, kind="i")
    return m.build(m.node("ReduceMax", "x", axes=[0, 2]))


def wide() -> onnx.ModelProto:
    m = Model()
    x = m.node("Cast", m.input("x", 3, 5), to=onnx.TensorProto.DOUBLE)
    x = m.node("Sqrt", m.node("Add", m.node("Mul", x, x), m.node("Exp", x)))
    return m.build(m.node("Cast", m.node("ReduceMean", x, axes=[1]), to=onnx.TensorProto.FLOAT))


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
@pytest.mark.parametrize("build", [embedding, top, between, accumulate])
def test_host_operators(build: Callable[[], onnx.ModelProto], precision: str) -> None:
    graph = compare(build(), precision=precision, host=True)
    hosts = [op for op in graph.ops if op.host]
    assert len(hosts) == 1
    for name in (*hosts[0].inputs, *hosts[0].outputs):
        assert graph.tensor[name].dtype in ("float32", "int64"), name


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
@pytest.mark.parametrize("build", [counted, moved, reduced])
def test_wide_whole_numbers(build: Callable[[], onnx.ModelProto], precision: str) -> None:
    graph = compare(build(), precision=precision, host=True)
    (host,) = (op for op in graph.ops if op.host)
    assert host.host is not None and host.host.reason == "no engine computes int64"


def test_wide_floats() -> None:
    graph = compare(wide(), host=True)
    assert [op.host.reason for op in graph.ops if op.host] == ["no engine computes float64"]
    assert not any(op.host for op in compare(wide(), precision="fp16").ops)


@pytest.mark.parametrize(("number", "hosts"), [(1 << 24, 0), ((1 << 24) + 1, 1)])
def test_whole_numbers_that_no_immediate_holds(number: int, hosts: int) -> None:
    m = Model()
    x = m.node("Cast", m.input("x", 3, 5, kind="i"), to=onnx.TensorProto.INT32)
    graph = compare(m.build(m.node("Add", x, m.constant("n", number, "int32"))), host=True)
    assert sum(op.host is not None for op in graph.ops) == hosts


@pytest.mark.parametrize("build", [embedding, top, between, accumulate, counted, moved, reduced])
def test_host_operators_travel_as_json(build: Callable[[], onnx.ModelProto]) -> None:
    graph, again = (replace(import_onnx(build()), data={}) for _ in range(2))
    back = from_json(to_json(graph), Graph)
    assert back == graph
    assert sha256(back) == sha256(graph) == sha256(again)
    assert {type(op.host.tir) for op in graph.ops if op.host} == {str}


def test_reason_and_name() -> None:
    graph = compare(embedding(), precision="fp16", host=True)
    op = graph.op["lookup"]
    assert op.host is not None and "depends on data" in op.host.reason
    assert op.origin == ("lookup",)
    table, ids = op.inputs
    assert graph.tensor[table].dtype == "float32" and graph.tensor[ids].dtype == "int64"
    assert graph.tensor["w"].dtype == "float16"


def test_a_network_around_a_host_operator() -> None:
    graph = compare(between(), precision="fp16", host=True)
    kinds = ["host" if op.host else "npu" for op in graph.ops]
    assert kinds.count("npu") >= 2 and kinds.count("host") == 1


def test_an_index_out_of_range_reads_the_nearest_row() -> None:
    """Beyond what ONNX defines, but never beyond the table."""
    m = Model()
    table, index = m.input("x", 7, 3), m.node("Cast", m.input("i", 4), to=onnx.TensorProto.INT64)
    graph = import_onnx(m.build(m.node("Gather", table, index)))
    rows = np.arange(21, dtype=np.float32).reshape(7, 3)
    (got,) = evaluate_graph(graph, {"x": rows, "i": np.array([0, 6, -1, 1e6], np.float32)}, run_on_host).values()
    np.testing.assert_array_equal(got, rows[[0, 6, 6, 6]])
