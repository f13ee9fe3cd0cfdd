"""Slices of operator sets before 10, whose bounds are attributes, against ONNX Runtime."""

from __future__ import annotations

import pytest

from tests.support.onnx_models import Model, check_both


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize(
    "bounds",
    [
        {"starts": [0, 1], "ends": [2, 3]},
        {"starts": [1, -3], "ends": [1000, -1], "axes": [2, 1]},
        {"starts": [-(2**31)], "ends": [2**63 - 1], "axes": [-1]},
    ],
)
def test_bounds_that_are_attributes(opset: int, bounds: dict[str, list[int]]) -> None:
    m = Model(opset)
    part = m.node("Slice", m.input("x", 2, 4, 5), **bounds)
    check_both(m.build(m.node("Neg", part), part))
