"""Quantised matrix products of which one factor or both are vectors, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.ir.checks.check_graph import check_graph
from tests.support.onnx_models import Model
from tests.support.quantised_models import Kind, Quantised, expected, quantised_inputs
from tests.support.quantised_networks import product_dtypes

SHAPES = [((3, 16), (16,)), ((16,), (16, 3)), ((16,), (16,)), ((2, 3, 16), (16,)), ((16,), (2, 16, 3))]


def judge(m: Model, result: str, *, most: float = 0.0) -> None:
    """Everything is within ``most`` of ONNX Runtime's, and what is multiplied has 8 bits."""
    model = m.build(result)
    inputs, graph = quantised_inputs(model), import_onnx(model)
    check_graph(graph)
    (got,), want = evaluate_graph(graph, inputs).values(), expected(model, inputs)
    assert got.shape == want.shape and got.dtype == want.dtype
    assert np.abs(got.astype(np.float64) - want).max() <= most
    assert product_dtypes(graph) <= {"int8", "uint8"}


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("ends", ["reals", "integers"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_products_of_dequantised_vectors(shapes: tuple[tuple[int, ...], ...], ends: str, constant: bool) -> None:
    m = Quantised(Kind("uint8", "int8"), 1)
    scheme = m.scheme("s", 0.03, 7)
    left = m.node("DequantizeLinear", m.input("a", *shapes[0], kind="uint8"), *scheme)
    if constant:
        right = m.real_weight("w", *shapes[1], axis=-1)
    else:
        right = m.node("DequantizeLinear", m.input("b", *shapes[1], kind="uint8"), *scheme)
    y = m.node("MatMul", left, right)
    if ends == "reals":
        judge(m, y, most=1e-4)
    else:
        judge(m, m.node("QuantizeLinear", y, *m.scheme("y", 0.9, 120)), most=1)


@pytest.mark.parametrize("shape", [(3,), (1,)], ids=str)
@pytest.mark.parametrize("op", ["MatMul", "QLinearMatMul"])
def test_what_is_added_to_a_product_with_a_vector(op: str, shape: tuple[int, ...]) -> None:
    """A number for each row of the other factor is no bias of columns."""
    m = Quantised(Kind("uint8", "int8"), 1)
    a, scheme = m.input("a", 3, 16, kind="uint8"), m.scheme("s", 0.03, 7)
    weight, result = m.quantised_weight("w", 16, axis=0), m.scheme("y", 0.2, 120)
    if op == "QLinearMatMul":
        y = m.node("DequantizeLinear", m.node(op, a, *scheme, *weight, *result), *result)
    else:
        y = m.node(op, m.node("DequantizeLinear", a, *scheme), m.node("DequantizeLinear", *weight))
    judge(m, m.node("QuantizeLinear", m.node("Add", y, m.weight("b", *shape)), *result), most=1)


def test_a_scale_for_each_element_of_a_vector() -> None:
    """It is of the index that is summed over: the product is one of real numbers."""
    m = Quantised(Kind("uint8", "int8", per_channel=True), 1)
    left = m.node("DequantizeLinear", m.input("a", 3, 16, kind="uint8"), *m.scheme("s", 0.03, 7))
    model = m.build(m.node("MatMul", left, m.real_weight("w", 16, axis=0)))
    inputs = quantised_inputs(model)
    (got,) = evaluate_graph(import_onnx(model), inputs).values()
    np.testing.assert_allclose(got, expected(model, inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fixed", ["b az bz", "b bz", "az bz", "b", ""])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matmulinteger_of_vectors(shapes: tuple[tuple[int, ...], ...], fixed: str) -> None:
    m, rng = Model(), np.random.default_rng(1)
    operands = {
        name: rng.integers(0, 256, shape).astype(np.uint8)
        for name, shape in zip(("a", "b", "az", "bz"), (*shapes, (), (1,)), strict=True)
    }
    names = [
        m.constant(n, v) if n in fixed.split() else m.input(n, *v.shape, kind="uint8") for n, v in operands.items()
    ]
    model = m.build(m.node("MatMulInteger", *names))
    inputs = {name: array for name, array in operands.items() if name not in fixed.split()}
    graph = import_onnx(model)
    check_graph(graph)
    (got,) = evaluate_graph(graph, inputs).values()
    a, b = (operands[n].astype(np.int64) - operands[f"{n}z"] for n in "ab")
    np.testing.assert_array_equal(got, (a @ b).astype(np.int32), strict=True)
    assert product_dtypes(graph) <= {"int8", "uint8"}
