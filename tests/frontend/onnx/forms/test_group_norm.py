"""ONNX's strict inference knows no type for a GroupNormalization, which others read all the same."""

from __future__ import annotations

import pytest

from tests.support.onnx_models import Model, check_both


@pytest.mark.parametrize("follower", ["Relu", "Conv"])
@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization_in_front_of_another_operator(opset: int, follower: str) -> None:
    m = Model(opset)
    channels = 2 if opset == 18 else 4
    x = m.input("x", 1, 4, 5, 3)
    y = m.node("GroupNormalization", x, m.weight("s", channels), m.weight("b", channels), num_groups=2)
    weights = (m.weight("w", 3, 4, 3, 3),) if follower == "Conv" else ()
    check_both(m.build(m.node(follower, y, *weights)), tolerance=1e-5)
