"""Operators that ONNX defines by others, with attributes that are left out, against ONNX Runtime."""

from __future__ import annotations

import pytest

from tests.support.onnx_models import Model, check_both


def test_normalisation_over_the_default_axes() -> None:
    m = Model()
    check_both(m.build(m.node("MeanVarianceNormalization", m.input("x", 2, 3, 4, 5))), 1e-5)


@pytest.mark.parametrize("window", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows_of_the_default_kind(window: str) -> None:
    m = Model()
    y = m.node(window, m.constant("size", 6))
    check_both(m.build(m.node("Mul", m.input("x", 6), y)), 1e-6)


@pytest.mark.parametrize("op", ["Celu", "Selu", "Shrink", "ThresholdedRelu", "Mish", "Softplus"])
def test_activations_with_default_parameters(op: str) -> None:
    m = Model(opset=18)
    check_both(m.build(m.node(op, m.input("x", 3, 7))), 1e-6)
