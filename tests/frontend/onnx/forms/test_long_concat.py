"""Concatenations of many inputs, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from girih.frontend.onnx.forms import long_concat
from tests.support.onnx_models import Model, check_both


@pytest.mark.parametrize("axis", [0, -1])
def test_groups_of_groups(axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_concat, "MOST_INPUTS", 3)
    m = Model(opset=13)
    x = m.input("x", 2, 3)
    parts = [m.node("Add", x, m.constant(f"c{i}", np.full((2, 3), i, np.float32))) for i in range(10)]
    check_both(m.build(m.node("Concat", *parts, axis=axis)))


def test_more_inputs_than_the_stack_is_deep() -> None:
    m = Model(opset=13)
    x = m.input("x", 1, 2)
    parts = [m.node("Add", x, m.constant(f"c{i}", np.full((1, 2), i, np.float32))) for i in range(260)]
    check_both(m.build(m.node("Concat", *parts, axis=1)))
