"""What joins what, and what stays an operator of its own."""

from __future__ import annotations

import pytest

from girih.ir.graph import Graph
from tests.support.onnx_models import Model, compare


def stages(graph: Graph) -> list[tuple[str, int]]:
    """The operators, and how many loops each has."""
    return [(op.name, len(op.stages)) for op in graph.ops]


def joined(m: Model) -> str:
    """A concatenation of what two operators make."""
    x = m.input("x", 4, 32)
    return m.node("Concat", m.node("Sigmoid", x, name="a"), m.node("Tanh", x, name="b"), axis=1, name="joined")


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_a_concatenation_is_an_operator_before_what_follows_it(precision: str) -> None:
    """Its parts are written where its readers look for them; inside of an operator they would be copied once more."""
    m = Model()
    graph = compare(m.build(m.node("Relu", joined(m), name="relu")), precision=precision)
    assert stages(graph) == [("a", 1), ("b", 1), ("joined", 2), ("relu", 1)]


def test_a_concatenation_does_not_join_a_reduction_of_its_rows() -> None:
    m = Model()
    graph = compare(m.build(m.node("ReduceMax", joined(m), axes=[1], name="largest")))
    assert stages(graph) == [("a", 1), ("b", 1), ("joined", 2), ("largest", 1)]


def test_a_statistic_does_not_join_a_concatenation() -> None:
    """Even where both read the same rows, which are as large as the result."""
    m = Model()
    x = m.input("x", 4, 32)
    part = m.node("Slice", x, *(m.constant(n, [v], "i8") for n, v in (("lo", 0), ("hi", 31), ("axis", 1))))
    graph = compare(
        m.build(m.node("Concat", part, m.node("ReduceMax", x, axes=[1], name="most"), axis=1, name="joined"))
    )
    assert [name for name, _ in stages(graph)] == ["most", "joined"]


def test_what_is_joined_does_not_join_its_parts() -> None:
    m = Model()
    x = m.node("Relu", m.input("x", 4, 32), name="relu")
    low, high = (m.node("Slice", x, *(m.constant(f"{n}{i}", [v], "i8") for n, v in (("lo", i * 16), ("hi", i * 16 + 16), ("axis", 1)))) for i in range(2))  # fmt: skip
    graph = compare(m.build(m.node("Concat", low, high, axis=1, name="joined")))
    assert stages(graph) == [("relu", 1), ("joined", 2)]


def test_element_wise_work_joins_its_product() -> None:
    m = Model()
    y = m.node("MatMul", m.input("x", 6, 8), m.weight("w", 8, 8), name="product")
    graph = compare(m.build(m.node("Relu", m.node("Add", y, m.weight("b", 8)))))
    assert [op.name for op in graph.ops] == ["product"]
