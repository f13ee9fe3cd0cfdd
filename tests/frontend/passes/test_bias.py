"""A bias is what a matrix product starts from, where another function reads their sum."""

from __future__ import annotations

import pytest

from girih.ir.graph import Graph
from tests.support.onnx_models import Model, compare


def starts(graph: Graph) -> list[tuple[list[str], bool]]:
    """Of each operator with a product: the functions of its stages, and whether the product starts from something."""
    return [
        ([s.func for s in op.stages], any(s.start is not None for s in op.stages)) for op in graph.ops if op.contraction is not None
    ]  # fmt: skip


def conv(m: Model, x: str) -> str:
    return m.node("Conv", x, m.weight("w", 6, 4, 3, 3), m.weight("b", 6), pads=[1, 1, 1, 1])


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_before_another_function_the_product_starts_from_it(precision: str) -> None:
    m = Model()
    y = m.node("Relu", conv(m, m.input("x", 2, 4, 7, 5)))
    graph = compare(m.build(m.node("Mul", y, m.input("z", 2, 6, 7, 5))), precision=precision)
    assert starts(graph)[0][1] and "add" not in starts(graph)[0][0]


def test_a_fused_function_is_one_reader() -> None:
    m = Model()
    y = m.node("Add", m.weight("b", 9), m.node("MatMul", m.input("x", 7, 5), m.weight("w", 5, 9)))
    graph = compare(m.build(m.node("Mul", y, m.node("Sigmoid", y))), precision="fp16")
    assert starts(graph) == [(["mul", "silu"], True)]


def test_a_sum_that_is_the_result_is_added_on_its_way_out() -> None:
    m = Model()
    y = m.node("Add", m.node("MatMul", m.input("x", 7, 5), m.weight("w", 5, 9)), m.weight("b", 9))
    assert starts(compare(m.build(y), precision="fp16")) == [(["mul", "add"], False)]


@pytest.mark.parametrize("shape", [(7, 9), (7, 1)])
def test_what_rows_tell_apart_is_no_bias(shape: tuple[int, ...]) -> None:
    m = Model()
    y = m.node("Add", m.node("MatMul", m.input("x", 7, 5), m.weight("w", 5, 9)), m.weight("b", *shape))
    assert starts(compare(m.build(m.node("Tanh", y)), precision="fp16")) == [(["mul", "add", "tanh"], False)]


def test_a_sum_that_several_read_stays() -> None:
    m = Model()
    y = m.node("Add", m.node("MatMul", m.input("x", 7, 5), m.weight("w", 5, 9)), m.weight("b", 9))
    graph = compare(m.build(m.node("Mul", m.node("Tanh", y), m.node("Sigmoid", y))), precision="fp16")
    assert [found for _, found in starts(graph)] == [False]


def test_depthwise_convolutions_have_no_columns() -> None:
    m = Model()
    y = m.node("Conv", m.input("x", 1, 4, 7, 5), m.weight("w", 4, 1, 3, 3), m.weight("b", 4), group=4)
    graph = compare(m.build(m.node("Relu", y)), precision="fp16")
    assert all(s.start is None for op in graph.ops for s in op.stages)
