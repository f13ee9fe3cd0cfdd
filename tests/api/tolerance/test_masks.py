"""What `--check` allows where a network masks with infinities or the lowest number: right outputs can be judged."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from girih.api.check import check
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.api.tolerance.rounding import REFERENCE_ERROR, tolerances
from girih.frontend import import_onnx
from girih.frontend.reference.run import reference_outputs
from tests.support.onnx_models import Model, error, onnxruntime_outputs

LOWEST = float(np.finfo(np.float32).min)
CAUSAL = np.tril(np.ones((4, 4), bool))
LEFT = np.array([[[[0, 1, 1, 1]]]], np.float32)
"""Of four keys, the first is padding."""

Case = tuple[onnx.ModelProto, dict[str, np.ndarray]]


def scores() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype(np.float32)


def added(low: float) -> Case:
    """Softmax(s + mask), where the mask is a constant, and 0 for what that makes NaN."""
    m = Model()
    s = m.input("s", 1, 2, 4, 4)
    p = m.node("Softmax", m.node("Add", s, m.constant("mask", np.where(CAUSAL, 0, low).astype(np.float32))))
    model = m.build(m.node("Where", m.node("IsNaN", p), m.constant("zero", np.float32(0)), p))
    return model, {"s": scores()}


def chosen(low: float, keys: np.ndarray = CAUSAL) -> Case:
    """Softmax(s + Where(m, 0, low)), and 0 for what that makes NaN."""
    m = Model()
    s, zero = m.input("s", 1, 2, 4, 4), m.constant("zero", np.float32(0))
    mask = m.node("Where", m.input("m", 1, 1, 4, 4, kind="b"), zero, m.constant("low", np.float32(low)))
    p = m.node("Softmax", m.node("Add", s, mask))
    return m.build(m.node("Where", m.node("IsNaN", p), zero, p)), {"s": scores(), "m": keys[None, None]}


def multiplied(low: float, causal: bool = False, whole: bool = False) -> Case:
    """Softmax(s + (1 - m) * low), the mask of exported transformers; ``causal``: and one more mask."""
    m = Model()
    s = m.input("s", 1, 2, 4, 4)
    given = m.input("m", 1, 1, 1, 4, kind="i" if whole else "f")
    real = m.node("Cast", given, to=onnx.TensorProto.FLOAT) if whole else given
    gone = m.node("Sub", m.constant("one", np.float32(1)), real)
    mask = m.node("Mul", gone, m.constant("low", np.float32(low)))
    if causal:
        mask = m.node("Add", m.constant("causal", np.where(CAUSAL, 0, low).astype(np.float32)), mask)
    model = m.build(m.node("Softmax", m.node("Add", s, mask)))
    return model, {"s": scores(), "m": LEFT.astype(np.int64) if whole else LEFT}


CASES = {
    "-inf is added": added(-np.inf),
    "the lowest is added": added(LOWEST),
    "-inf is chosen": chosen(-np.inf),
    "the lowest is chosen": chosen(LOWEST),
    "a row of the lowest": chosen(LOWEST, np.tril(CAUSAL, -1)),
    "a row of -inf": chosen(-np.inf, np.tril(CAUSAL, -1)),
    "the lowest times 0 or 1": multiplied(LOWEST),
    "the lowest times 0 or 1 of integers": multiplied(LOWEST, whole=True),
    "the lowest twice": multiplied(LOWEST, causal=True),
    "-1e9 times 0 or 1": multiplied(-1e9),
}
ALL_LOST = {"a row of the lowest", "the lowest twice"}
"""In half precision, a score added to the lowest number is rounded away."""


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
@pytest.mark.parametrize("name", CASES)
def test_right_outputs_pass(name: str, precision: str) -> None:
    if precision == "fp16" and name in ALL_LOST:
        return
    model, inputs = CASES[name]
    graph = import_onnx(model, precision=precision)  # type: ignore[arg-type]
    outputs, right = evaluate_graph(graph, inputs), reference_outputs(model, inputs, special=True).outputs
    allowed = tolerances(graph, inputs)
    assert check(graph, outputs, right, None, allowed).passed, allowed
    for output, expected in onnxruntime_outputs(model, inputs).items():
        assert error(right[output], expected) < 1e-6
        assert allowed[output] < 2e-3 if precision == "fp16" else allowed[output] == REFERENCE_ERROR


@pytest.mark.parametrize("name", CASES)
def test_without_the_mask_they_fail(name: str) -> None:
    model, inputs = CASES[name]
    graph = import_onnx(model)
    right, allowed = reference_outputs(model, inputs, special=True).outputs, tolerances(graph, inputs)
    powers = np.exp(inputs["s"])
    wrong = dict.fromkeys(right, powers / powers.sum(-1, keepdims=True))
    assert not check(graph, wrong, right, None, allowed).passed


def test_what_is_rounded_still_has_errors() -> None:
    """1 - 1/3 is rounded, and what -3000 makes of it has the error of half precision."""
    model, inputs = multiplied(-3000.0)
    graph = import_onnx(model, precision="fp16")
    exact, rounded = ({**inputs, "m": inputs["m"] * np.float32(m)} for m in (1, 1 / 3))
    assert max(tolerances(graph, exact).values()) < 2e-3
    assert max(tolerances(graph, rounded).values()) > 0.1
