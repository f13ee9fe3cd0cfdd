"""What `--check` allows: every right program passes, and small mistakes do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import pytest

from girih import models
from girih.api.check import TOLERANCE_CEILING, Check, check
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.api.inputs import random_inputs
from girih.api.tolerance.rounding import REFERENCE_ERROR, SAFETY, tolerances
from girih.frontend import import_onnx
from girih.frontend.reference.run import ReferenceProgram
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.lowering import lower
from girih.simulator import simulate
from tests.support.onnx_models import Model
from tests.support.plans.random_plans import random_plan

Arrays = Mapping[str, np.ndarray]

NETWORKS: dict[str, dict[str, int]] = {
    "tiny-cnn": {},
    "tiny-transformer": {},
    "conformer": {"frames": 36, "layers": 1, "hidden": 32, "heads": 2, "ffn": 64, "kernel": 7},
    "dlrm": {"tables": 5, "features": 16, "width": 64},
}


@cache
def network(name: str) -> onnx.ModelProto:
    return models.build(name, **NETWORKS[name])


@cache
def graph_of(name: str, precision: str) -> Graph:
    return import_onnx(network(name), batch=2, precision=precision)  # type: ignore[arg-type]


@cache
def reference(name: str) -> ReferenceProgram:
    return ReferenceProgram(network(name), random_inputs(graph_of(name, "as-is").inputs, 0))


def judged(program: ReferenceProgram, graph: Graph, inputs: Arrays, outputs: Arrays) -> Check:
    return check(graph, outputs, program.run(inputs), None, tolerances(graph, inputs))


@pytest.mark.parametrize("precision", ["fp16", "as-is"])
@pytest.mark.parametrize("name", NETWORKS)
def test_right_outputs_pass_with_room_to_spare(name: str, precision: str) -> None:
    """What is allowed is neither missed nor far away: in half precision, an error is about one root mean square."""
    graph = graph_of(name, precision)
    for seed in range(3):
        inputs = random_inputs(graph.inputs, seed)
        verdict = judged(reference(name), graph, inputs, evaluate_graph(graph, inputs))
        assert verdict.rel_err < 0.6 * verdict.tolerance
        if precision == "fp16":
            assert verdict.tolerance < 6e-3 and (name == "dlrm" or verdict.rel_err > 0.1 * verdict.tolerance)
        else:
            assert verdict.tolerance == REFERENCE_ERROR


def mistakes(graph: Graph) -> dict[str, np.ndarray]:
    """By constant: a tile of 16 columns of weights that is shifted by one, or a vector (mostly a bias) of zeros."""
    wrong: dict[str, np.ndarray] = {}
    for name in (c.tensor for c in graph.constants):
        right = graph.data[name]
        # What is added to all keys adds the same to all scores of a query, which a softmax ignores.
        if right.dtype.kind != "f" or right.size < 4 or name.endswith("attention.key.bias"):
            continue
        changed = np.zeros_like(right)
        if right.ndim > 1:
            changed = right.copy()
            changed[..., :16] = np.roll(right[..., :16], 1, -1)
        wrong[name] = changed
    return wrong


@pytest.mark.parametrize("name", ["tiny-cnn", "tiny-transformer", "conformer", "dlrm"])
def test_one_wrong_weight_tile_or_one_missing_bias_fails(name: str) -> None:
    graph = graph_of(name, "fp16")
    inputs = random_inputs(graph.inputs, 1)
    right, allowed = reference(name).run(inputs), tolerances(graph, inputs)
    wrong = mistakes(graph)
    assert len(wrong) >= 9
    for constant, array in wrong.items():
        outputs = evaluate_graph(replace(graph, data={**graph.data, constant: array}), inputs)
        verdict = check(graph, outputs, right, None, allowed)
        assert not verdict.passed, f"{constant}: {verdict.rel_err:.2e}, allowed {verdict.tolerance:.2e}"


@pytest.mark.parametrize(
    ("name", "target", "precision"),
    [("tiny-cnn", "stcp920", "fp16"), ("dlrm", "stcp920", "fp16"), ("dlrm", "tiny", "as-is")],
)
def test_programs(name: str, target: str, precision: str) -> None:
    """The same of programs: the right one passes, also for other inputs; with another weight it does not."""
    graph, machine = graph_of(name, precision), load_machine(target)
    program = lower(graph, random_plan(graph, machine, 0, longest=4), machine)

    def run(inputs: Arrays, data: Arrays) -> Check:
        trace = simulate(program, machine, dict(data), inputs)
        assert not trace.violations
        return judged(reference(name), graph, inputs, trace.outputs)

    for seed in range(2):
        assert run(random_inputs(graph.inputs, seed), graph.data).passed
    for constant, array in list(mistakes(graph).items())[::6]:
        assert not run(random_inputs(graph.inputs, 0), {**graph.data, constant: array}).passed, constant


def two_products(cancelling: bool) -> onnx.ModelProto:
    """x·v, or x·(v + w) - x·w, which has the same value and loses digits."""
    m = Model()
    rng = np.random.default_rng(0)
    v, w = rng.standard_normal((2, 64, 64)).astype(np.float32)
    x = m.input("x", 8, 64)
    if not cancelling:
        return m.build(m.node("MatMul", x, m.constant("v", v)))
    both = m.node("MatMul", x, m.constant("vw", v + 30 * w))
    return m.build(m.node("Sub", both, m.node("MatMul", x, m.constant("w", 30 * w))))


def test_cancellation_is_allowed_for() -> None:
    """The same types and nearly the same operators, and tolerances that differ as the errors do."""
    allowed: list[float] = []
    for cancelling in (False, True):
        model = two_products(cancelling)
        graph = import_onnx(model, precision="fp16")
        inputs = random_inputs(graph.inputs, 0)
        verdict = judged(ReferenceProgram(model, inputs), graph, inputs, evaluate_graph(graph, inputs))
        assert 0.1 * verdict.tolerance < verdict.rel_err < verdict.tolerance
        allowed.append(verdict.tolerance)
    assert allowed[0] < 3e-3 and allowed[1] > 10 * allowed[0]


def test_one_number_is_drawn_often_enough() -> None:
    """Few differences can all be small by chance; of many inputs, none gets a tolerance far too small."""
    m = Model()
    x = m.node("MatMul", m.input("x", 1, 16), m.weight("w", 16, 16))
    model = m.build(m.node("MatMul", m.node("Tanh", x), m.weight("v", 16, 1)))
    graph = import_onnx(model, precision="fp16")
    program = ReferenceProgram(model, random_inputs(graph.inputs, 0))
    for seed in range(40):
        inputs = random_inputs(graph.inputs, seed)
        verdict = check(graph, evaluate_graph(graph, inputs), program.run(inputs), None, tolerances(graph, inputs))
        assert verdict.passed, f"seed {seed}: {verdict.rel_err:.2e}, allowed {verdict.tolerance:.2e}"


def test_numbers_between_two_steps_of_a_quantisation() -> None:
    """An error that is tiny otherwise moves a few of them by a step."""
    m = Model()
    x, scale, zero = m.input("x", 4, 64), m.constant("s", np.float32(0.05)), m.constant("z", 0, "int8")
    y = m.node(
        "DequantizeLinear",
        m.node("QuantizeLinear", m.node("MatMul", x, m.weight("w", 64, 32)), scale, zero),
        scale,
        zero,
    )
    model = m.build(m.node("MatMul", y, m.weight("v", 32, 8)))
    graph = import_onnx(model)
    inputs = random_inputs(graph.inputs, 0)
    moved = {name: array.copy() for name, array in evaluate_graph(graph, inputs).items()}
    assert judged(ReferenceProgram(model, inputs), graph, inputs, moved).passed
    allowed = tolerances(graph, inputs)
    assert all(REFERENCE_ERROR * 10 < limit < 2e-2 for limit in allowed.values())


def test_only_what_is_compared_is_evaluated() -> None:
    """The replicas of the first samples; the outputs of other samples do not matter."""
    graph = import_onnx(network("tiny-cnn"), batch=4, precision="fp16", clusters=4)
    inputs = random_inputs(graph.inputs, 0)
    (array,) = inputs.values()
    other = {name: np.concatenate([array[:1], 100 * array[1:]]) for name in inputs}
    assert tolerances(graph, inputs, samples=1) == tolerances(graph, other, samples=1)
    assert tolerances(graph, inputs) != tolerances(graph, other)


def test_whole_numbers_and_copies() -> None:
    m = Model()
    x = m.input("x", 4, 8)
    model = m.build(m.node("Relu", x), m.node("Greater", x, m.constant("c", np.float32(0.5))))
    graph = import_onnx(model, precision="fp16")
    limits = tolerances(graph, random_inputs(graph.inputs, 0))
    assert min(limits.values()) >= REFERENCE_ERROR and max(limits.values()) <= SAFETY * 2.0**-11


def test_an_output_that_is_all_rounding_is_not_judged() -> None:
    """(x + 4096) - 4096 in half precision: rounding explains more than the whole output, so zeros must not pass."""
    m = Model()
    large = m.constant("c", np.float32(4096))
    model = m.build(m.node("Sub", m.node("Add", m.input("x", 8, 64), large), large))
    graph = import_onnx(model, precision="fp16")
    inputs = random_inputs(graph.inputs, 0)
    (port,) = graph.outputs
    zeros = {port.name: np.zeros(graph.tensor[port.tensor].shape, np.float16)}
    verdict = judged(ReferenceProgram(model, inputs), graph, inputs, zeros)
    assert verdict.tolerance > TOLERANCE_CEILING and not verdict.passed
    right = {port.name: ReferenceProgram(model, inputs).run(inputs)[port.name]}
    assert judged(ReferenceProgram(model, inputs), graph, inputs, right).passed, "what is equal is right"


def quantised_product(rows: int = 64, width: int = 64) -> onnx.ModelProto:
    """int8 to int8, with a factor of 1/1500: one of 1,500 sums is exactly between two steps."""
    m = Model()
    x, y_scale = m.input("x", rows, 48, kind="int8"), m.constant("ys", 0.3, "float32")
    zero, x_scale, w_scale = m.constant("z", 0, "int8"), m.constant("xs", 0.02, "float32"), m.constant("ws", 0.01)
    weight = m.constant("w", m.rng.integers(-128, 128, (48, width)), "int8")
    product = m.node(
        "MatMul", m.node("DequantizeLinear", x, x_scale, zero), m.node("DequantizeLinear", weight, w_scale)
    )
    return m.build(m.node("QuantizeLinear", product, y_scale, zero))


@pytest.mark.parametrize("width", [4, 512, 2048])
def test_sums_between_two_steps_of_a_quantisation(width: int) -> None:
    """Either step is right, however many such sums there are; a step more is not, nor is a step for all."""
    model = quantised_product(width=width)
    graph = import_onnx(model)
    draws = [np.random.default_rng(seed).integers(-128, 128, (64, 48)).astype(np.int8) for seed in range(3)]
    program = ReferenceProgram(model, {"x": draws[0]})
    for draw in draws:
        inputs = {"x": draw}
        ((name, right),) = evaluate_graph(graph, inputs).items()
        assert judged(program, graph, inputs, {name: right}).passed
        quarter = np.arange(width) < width // 4
        for wrong in (right + 1, np.where(quarter, right + 2, right)):
            assert not judged(program, graph, inputs, {name: wrong.astype(np.int8)}).passed


def quantised_alone(scale: float, size: int = 1000) -> onnx.ModelProto:
    """A QuantizeLinear and its DequantizeLinear; by a small scale, most numbers are beyond uint8."""
    m = Model()
    factor, zero = m.constant("s", np.float32(scale)), m.constant("z", 121, "uint8")
    x = m.node("QuantizeLinear", m.input("x", size), factor, zero)
    return m.build(m.node("DequantizeLinear", x, factor, zero))


@pytest.mark.parametrize("size", [1000, 100_000])
@pytest.mark.parametrize("scale", [0.007, 0.011, 0.02, 0.03])
def test_numbers_of_a_grid_between_two_steps(scale: float, size: int) -> None:
    """Of a grid of numbers many are half a step, whether or not limits hide most of the others."""
    model = quantised_alone(scale, size)
    graph = import_onnx(model)
    apart = 0
    for seed in range(25 if size == 1000 else 3):
        x = np.random.default_rng(seed).integers(-2000, 2000, size) * np.float32(0.0125)
        inputs, step = {"x": x.astype(np.float32)}, np.float32(scale)
        (port,) = graph.outputs
        right = ((np.clip(np.rint(inputs["x"] / step) + 121, 0, 255) - 121) * step).astype(np.float32)
        got = evaluate_graph(graph, inputs)[port.name]
        apart += int((np.abs(got - right) > step / 2).sum())
        allowed = tolerances(graph, inputs)
        assert check(graph, {port.name: got}, {port.name: right}, None, allowed).passed, seed
    assert apart, "no number is half a step"


@pytest.mark.parametrize("beyond", [False, True], ids=["all inside", "most saturated"])
def test_more_steps_than_there_are_borders_fail(beyond: bool) -> None:
    """Of numbers none of which is near half a step, one of four steps or two dozen of one step are mistakes."""
    scale = np.float32(0.02)
    model = quantised_alone(float(scale))
    graph = import_onnx(model)
    (port,) = graph.outputs
    for seed in range(10):
        rng = np.random.default_rng(seed)
        steps = rng.integers(-100, 100, 1000) * (np.where(rng.random(1000) < 0.9, 50, 1) if beyond else 1)
        inputs = {"x": ((steps + rng.uniform(-0.4, 0.4, 1000)) * scale).astype(np.float32)}
        right, allowed = ReferenceProgram(model, inputs).run(inputs), tolerances(graph, inputs)
        inside = np.flatnonzero((steps > -100) & (steps < 100))
        for places, by in ((1, 1), (3, 1), (1, 4), (24, 1)):
            wrong = right[port.name].copy()
            wrong[rng.permutation(inside)[:places]] += by * scale
            verdict = check(graph, {port.name: wrong}, right, None, allowed)
            assert verdict.passed == (places * by * by <= 3), (seed, places, by, verdict.rel_err, verdict.tolerance)
