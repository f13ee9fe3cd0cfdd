"""A product that starts from a bias: by its instruction, or by a copy where that cannot say it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from girih.frontend import import_onnx
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan
from girih.lowering import lower
from tests.support.numpy_check import check, inputs_of, run
from tests.support.onnx_models import Model
from tests.support.plans.random_plans import random_plan


def biased(kind: str, precision: str) -> Graph:
    m = Model()
    if kind == "conv":
        x = m.input("x", 2, 6, 9, 7)
        y = m.node("Conv", x, m.weight("w", 10, 6, 3, 3), m.weight("b", 10), pads=[1, 1, 1, 1], strides=[2, 1])
    else:
        y = m.node("Add", m.weight("b", 37), m.node("MatMul", m.input("x", 21, 19), m.weight("w", 19, 37)))
    return import_onnx(m.build(m.node("Tanh", m.node("Relu", y))), precision=precision)  # type: ignore[arg-type]


def mnemonics(graph: Graph, plan: Plan, machine: Machine) -> Counter[str]:
    return Counter(i.mnemonic for s in lower(graph, plan, machine).streams for i in s)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["conv", "matmul"])
def test_it_is_added_once_whatever_the_cut(kind: str, seed: int) -> None:
    graph, machine = biased(kind, "fp16"), load_machine("stcp920")
    plan = random_plan(graph, machine, seed)
    (tile,) = (t for s in plan.segments for t in s.tiles if graph.op[t.op].contraction is not None)
    found = mnemonics(graph, plan, machine)
    # A copy is there for layouts, and where the vector engine was given the product.
    if tile.engine == "matrix":
        assert found[f"m{kind}.bias"] > 0
        assert found["vmacc.vv"] == found["vadd.vv"] == 0
    check(graph, machine, plan, inputs_of(graph, seed), 1e-3)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["conv", "matmul"])
def test_without_a_matrix_engine_it_is_copied_first(kind: str, seed: int) -> None:
    graph, machine = biased(kind, "as-is"), load_machine("stcp920")
    assert "float32" not in (machine.engine_for("matrix").rate or {})
    plan = random_plan(graph, machine, seed)
    found = mnemonics(graph, plan, machine)
    assert not any(m.startswith("m") and m.endswith(".bias") for m in found)
    assert found["vcopy.v"] > 0 and found["vfill.s"] == 0
    check(graph, machine, plan, inputs_of(graph, seed), 1e-5)


def test_only_the_first_reduce_tile_adds_it() -> None:
    graph, machine = biased("matmul", "fp16"), load_machine("stcp920")
    for seed in range(40):
        plan = random_plan(graph, machine, seed)
        (tile,) = (t for s in plan.segments for t in s.tiles if graph.op[t.op].contraction is not None)
        if tile.engine == "matrix" and tile.reduce[0] < 19:
            found, parts = mnemonics(graph, plan, machine), -(-19 // tile.reduce[0])
            assert found["mmatmul"] == (parts - 1) * found["mmatmul.bias"] > 0
            return
    raise AssertionError("no plan cuts the sum")


def test_a_bias_counts_before_the_first_rounding() -> None:
    """2049 is no half: rounded before the bias, the result would be 0."""
    m = Model()
    product = m.node("MatMul", m.input("x", 1, 2), m.constant("w", np.full((2, 3), 1.0, np.float32)))
    y = m.node("Relu", m.node("Add", product, m.constant("b", np.full(3, -2048.0, np.float32))))
    graph, machine = import_onnx(m.build(y), precision="fp16"), load_machine("stcp920")
    inputs = {"x": np.array([[2048.0, 1.0]], np.float32)}
    trace = run(graph, machine, lower(graph, random_plan(graph, machine, 1), machine), inputs)
    np.testing.assert_array_equal(trace.outputs[graph.outputs[0].name], np.ones((1, 3)))
