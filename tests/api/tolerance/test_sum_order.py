"""`--exact` where sums take several instructions: right programs pass for all inputs, wrong ones do not."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest

from girih.api.check import Check, check
from girih.api.exact.evaluate_graph import evaluate_graph, reduce_cuts, sums_in_parts
from girih.api.inputs import random_inputs
from girih.api.tolerance.sum_order import order_tolerances
from girih.frontend import import_onnx
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan
from girih.ir.program import Program
from girih.lowering import lower
from girih.simulator import simulate
from tests.support.onnx_models import Model
from tests.support.plans.random_plans import random_plan

MACHINE = load_machine("stcp920")


def three_convolutions(seed: int, size: int = 8) -> onnx.ModelProto:
    """In single precision, which the matrix engine of this machine does not have: the vector engine sums."""
    m = Model(seed=seed)
    x, channels = m.input("x", 1, 3, size, size), 3
    for number, more in enumerate((8, 12, 16)):
        w = m.constant(f"w{number}", (m.rng.standard_normal((more, channels, 3, 3)) / channels).astype(np.float32))
        x = m.node("Relu", m.node("Conv", x, w, m.weight(f"b{number}", more), pads=[1, 1, 1, 1]))
        channels = more
    x = m.node("Flatten", m.node("GlobalAveragePool", x))
    return m.build(m.node("Gemm", x, m.weight("v", channels, 10), m.weight("c", 10)))


@cache
def compiled(seed: int) -> tuple[Graph, Plan, Program]:
    graph = import_onnx(three_convolutions(seed))
    plan = random_plan(graph, MACHINE, seed, longest=3, tiles=2)
    return graph, plan, lower(graph, plan, MACHINE)


def judged(seed: int, inputs_seed: int, data: dict[str, np.ndarray] | None = None) -> tuple[Check, Check]:
    """The comparisons to the last bit, and with what the order of sums explains."""
    graph, plan, program = compiled(seed)
    inputs, cuts = random_inputs(graph.inputs, inputs_seed), reduce_cuts(plan)
    in_parts = sums_in_parts(graph, program, cuts)
    assert in_parts
    outputs = simulate(program, MACHINE, data or graph.data, inputs, sanitize=False).outputs
    reference = evaluate_graph(graph, inputs, cuts=cuts)
    allowed = order_tolerances(graph, inputs, None, cuts, in_parts)
    return check(graph, outputs, reference, None), check(graph, outputs, reference, None, allowed)


@pytest.mark.parametrize("seed", range(3))
def test_right_programs_pass_for_all_inputs(seed: int) -> None:
    strict = 0
    for inputs_seed in range(6):
        bits, verdict = judged(seed, inputs_seed)
        strict += bits.passed
        assert verdict.passed and verdict.tolerance < 1e-5, f"{verdict.rel_err:.2e}, allowed {verdict.tolerance:.2e}"
    assert strict < 6


def test_a_weight_that_is_wrong_by_little_fails() -> None:
    graph, _, _ = compiled(0)
    wrong = graph.data["w1"].copy()
    wrong.flat[5] *= 1.01
    _, verdict = judged(0, 0, {**graph.data, "w1": wrong})
    assert not verdict.passed


def test_what_depends_on_no_such_sum_is_exact() -> None:
    graph, plan, _ = compiled(0)
    inputs = random_inputs(graph.inputs, 0)
    assert set(order_tolerances(graph, inputs, None, reduce_cuts(plan), ()).values()) == {0.0}


def test_cancelling_sums() -> None:
    """Sums of large numbers that leave little, in any order: the errors are those of the large ones."""
    m = Model()
    weights = np.concatenate([m.rng.normal(3.0, 0.01, 256), np.full(256, -3.0)]).astype(np.float32)
    x = m.node("Abs", m.input("x", 64, 256))
    model = m.build(
        m.node("MatMul", m.node("Concat", x, x, axis=1), m.constant("w", np.repeat(weights[:, None], 4, 1)))
    )
    graph = import_onnx(model)
    (contraction,) = (op.name for op in graph.ops if op.contraction is not None)
    inputs = random_inputs(graph.inputs, 0)
    (array,) = inputs.values()
    terms = (np.concatenate([np.abs(array), np.abs(array)], 1) * weights)[:, m.rng.permutation(512)]
    one_by_one = np.repeat(np.cumsum(terms, 1, dtype=np.float32)[:, -1:], 4, 1)
    (port,) = graph.outputs
    allowed = order_tolerances(graph, inputs, None, {}, (contraction,))
    verdict = check(graph, {port.name: one_by_one}, evaluate_graph(graph, inputs), None, allowed)
    assert verdict.passed and 1e-6 < verdict.rel_err < verdict.tolerance < 1e-2


def test_one_element_may_be_rounded_the_other_way() -> None:
    """In half precision a draw rarely meets such an element, and a right program may."""
    m = Model()
    x = m.input("x", 1, 40)
    y = m.node("Relu", m.node("MatMul", x, m.weight("w", 40, 30)))
    graph = import_onnx(m.build(y), precision="fp16")
    inputs = random_inputs(graph.inputs, 0)
    (in_parts,) = (op.name for op in graph.ops)
    allowed = order_tolerances(graph, inputs, None, {}, [in_parts])
    reference = evaluate_graph(graph, inputs)
    (name, right), largest = next(iter(reference.items())), int(np.abs(next(iter(reference.values()))).argmax())
    for steps, passes in ((1, True), (40, False)):
        moved = right.copy()
        moved.flat[largest] += steps * np.spacing(np.float16(np.abs(moved.flat[largest])))
        assert check(graph, {name: moved}, reference, None, allowed).passed == passes
