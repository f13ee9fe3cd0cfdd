"""What no engine can do goes to the host, as TIR that TVM can build."""

from __future__ import annotations

import onnx
import pytest
from support import Model, compare


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


def largest() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("ArgMax", m.input("x", 3, 5), axis=1))


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
@pytest.mark.parametrize("build", [embedding, top, between, accumulate, largest])
def test_host_operators(build: object, precision: str) -> None:
    graph = compare(build(), precision=precision, host=True)  # type: ignore[operator]
    hosts = [op for op in graph.ops if op.host]
    assert len(hosts) == 1
    for name in (*hosts[0].inputs, *hosts[0].outputs):
        assert graph.tensor[name].dtype in ("float32", "int64"), name


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
