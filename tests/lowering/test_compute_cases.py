"""Operators written as ``te.compute`` that were once lowered to something else, under plans drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from girih.frontend import import_onnx
from girih.ir.box import Affine
from girih.ir.checks.check_graph import check_graph
from girih.ir.custom_operators import register_operator, registered_for_now
from girih.ir.graph import Access, Axis, Graph, Op, Port, Stage, Tensor
from girih.ir.load_machine import load_machine
from girih.lowering import lower
from tests.support.custom_models import DOMAIN, custom_node, network
from tests.support.numpy_check import check, inputs_of, run
from tests.support.plans.random_plans import random_plan

TeTensor = Any
PLANS = 24
"""Drawn for each case."""


def concatenated_sum(x: TeTensor, y: TeTensor) -> TeTensor:
    """Rows of ``y``, and below them sums over ``x``: the sums are small, and lie behind the first tiles."""
    k = te.reduce_axis((0, x.shape[2]), "k")
    total = te.compute(x.shape[:2], lambda i, j: te.sum(x[i, j, k], axis=k), name="total")
    rows = y.shape[0]
    shape = (rows + x.shape[0], x.shape[1])
    return te.compute(shape, lambda i, j: te.if_then_else(i < rows, y[i, j], total[i - rows, j]), name="joined")


def window_beyond(x: TeTensor, y: TeTensor) -> TeTensor:
    """Windows over products with padding around them, the last of which look at little that there is."""
    k, taps = te.reduce_axis((0, x.shape[1]), "k"), te.reduce_axis((0, 2), "taps")
    inner = te.compute((9, 7), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), name="inner")

    def element(i: Any, j: Any) -> Any:
        row, column = j * 2 + taps - 1, i - 2
        inside = te.all(row >= 0, row < 9, column >= 0, column < 7)
        read = te.if_then_else(inside, inner[row, column], tirx.const(0, x.dtype))
        return te.sum(read * x[0, taps], axis=taps)

    return te.compute((11, 6), element, name="windows")


def repeated_sum(x: TeTensor, y: TeTensor) -> TeTensor:
    """Sums over ``x``, and times ``y`` once more: both parts of the result need the same sums, in different tiles."""
    k = te.reduce_axis((0, x.shape[1]), "k")
    total = te.compute((7,), lambda i: te.sum(x[i, k], axis=k), name="total")
    return te.compute((7, 5), lambda i, j: te.if_then_else(j < 2, total[i], total[i] * y[i, j - 2]), name="repeated")


def regrouped_product(x: TeTensor, y: TeTensor) -> TeTensor:
    """A product of matrices, each third of whose rows is spread over a row of the result."""
    k = te.reduce_axis((0, 8), "k")
    product = te.compute((5, 6), lambda i, j: te.sum(x[k] * y[j, i, k], axis=k), name="product")

    def element(i: Any, j: Any) -> Any:
        place = (j // 3) * 2 + i
        return product[place // 6, place % 6] + tirx.const(1, x.dtype)

    return te.compute((2, 45), element, name="regrouped")


def concatenated_sum_of(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.concatenate([y, x.sum(2)])


def window_beyond_of(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    padded = np.pad(x @ y, ((1, 4), (2, 2)))
    return np.stack([padded[2 * j] * x[0, 0] + padded[2 * j + 1] * x[0, 1] for j in range(6)], axis=1)


def repeated_sum_of(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    total = x.sum(1, keepdims=True)
    return np.concatenate([total, total, total * y], axis=1)


def regrouped_product_of(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (y @ x).T.reshape(15, 2).repeat(3, axis=0).T + 1


CASES: dict[str, tuple[Callable[..., TeTensor], tuple[int, ...], tuple[int, ...], Callable[..., np.ndarray]]] = {
    "concatenated sum": (concatenated_sum, (2, 1, 3), (4, 1), concatenated_sum_of),
    "window beyond": (window_beyond, (9, 4), (4, 7), window_beyond_of),
    "repeated sum": (repeated_sum, (7, 9), (7, 3), repeated_sum_of),
    "regrouped product": (regrouped_product, (8,), (6, 5, 8), regrouped_product_of),
}


@pytest.mark.parametrize("target", ["tiny", "stcp920"])
@pytest.mark.parametrize("name", CASES)
def test_every_plan_computes_what_is_written(name: str, target: str) -> None:
    function, *shapes, expected = CASES[name]
    random = np.random.default_rng(0)
    arrays = {f"x{n}": random.integers(-3, 4, shape).astype(np.float32) for n, shape in enumerate(shapes)}
    right = expected(*arrays.values())
    model = network(
        [custom_node("Case", [*arrays], ["y"])], {n: a.shape for n, a in arrays.items()}, {"y": right.shape}
    )
    with registered_for_now():
        register_operator(DOMAIN, "Case")(function)
        graph = import_onnx(model)
    machine = load_machine(target)
    for seed in range(PLANS):
        plan = random_plan(graph, machine, seed, longest=2, tiles=1 + seed % 6)
        trace = run(graph, machine, lower(graph, plan, machine), arrays)
        assert trace.violations == (), plan
        np.testing.assert_array_equal(trace.outputs["y"], right, str(plan))


def test_a_product_with_zero_reads_nothing_that_is_computed_for_it() -> None:
    i, k = Affine((1, 0)), Affine((0, 1))
    x, y, private = Tensor("x", (6, 4), "float32"), Tensor("y", (6,), "float32"), Tensor("double", (6, 4), "float32")
    rows = Axis("i", 6)
    double = Stage((rows, Axis("k", 4)), Access("double", (i, k)), "add", (Access("x", (i, k)),) * 2)
    product = Stage((rows, Axis("k", 4, True)), Access("y", (i,)), "mul", (Access("double", (i, k)), 0.0), "sum")
    ports = [(Port(t.name, t.name, t.shape, t.dtype),) for t in (x, y)]
    graph = Graph("zero", (x, y), (Op("zero", (), ("x",), ("y",), (private,), (double, product)),), *ports, ())
    check_graph(graph)
    for target in ("tiny", "stcp920"):
        machine = load_machine(target)
        for seed in range(4):
            check(graph, machine, random_plan(graph, machine, seed), inputs_of(graph), 0.0)
