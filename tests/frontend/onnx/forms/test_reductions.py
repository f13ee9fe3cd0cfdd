"""Reductions over no axes, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.onnx_models import Model, check_both

REDUCTIONS = ("L1", "L2", "SumSquare", "LogSum", "LogSumExp", "Mean", "Sum", "Max", "Min", "Prod")


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_elements_are_transformed(name: str, given: bool) -> None:
    """Axes are none whether they are left out or an empty list."""
    m = Model(opset=18)
    x = m.node("Exp", m.input("x", 2, 3)) if name == "LogSum" else m.input("x", 2, 3)
    axes = [m.constant("axes", np.zeros(0, np.int64))] if given else []
    check_both(m.build(m.node(f"Reduce{name}", x, *axes, noop_with_empty_axes=1)), 1e-6)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_constants_are_transformed(name: str) -> None:
    m = Model(opset=18)
    constant = m.node(f"Reduce{name}", m.weight("w", 2, 3, positive=name == "LogSum"), noop_with_empty_axes=1)
    check_both(m.build(m.node("Add", m.input("x", 2, 3), constant)), 1e-6)


@pytest.mark.parametrize("name", ["L2", "LogSumExp"])
def test_without_the_attribute_all_axes_are_reduced(name: str) -> None:
    m = Model(opset=18)
    check_both(m.build(m.node(f"Reduce{name}", m.input("x", 2, 3), m.constant("axes", np.zeros(0, np.int64)))), 1e-6)
