"""Constant indices and paddings that do not fit are refused with what would fit; those that do are not."""

from __future__ import annotations

import numpy as np
import pytest

from girih.frontend import import_onnx
from girih.ir.errors import UsageError
from tests.support.onnx_models import Model, check_both


@pytest.mark.parametrize("index", [-4, 3, 5])
@pytest.mark.parametrize("operator", ["Gather", "GatherElements"])
def test_an_index_out_of_range(operator: str, index: int) -> None:
    m = Model()
    x = m.input("x", 2, 3)
    y = m.node(operator, x, m.constant("i", np.array([[0, index]] * 2, np.int64)), name="pick", axis=1)
    with pytest.raises(UsageError, match=rf"'pick' \({operator}\) has the index {index}, .* -3 to 2 are allowed"):
        import_onnx(m.build(y))


@pytest.mark.parametrize("index", [-3, 2])
def test_the_first_and_the_last_index(index: int) -> None:
    m = Model()
    x = m.input("x", 2, 3)
    check_both(m.build(m.node("Gather", x, m.constant("i", np.array([index], np.int64)), axis=1)))


def test_a_reflection_of_more_than_there_is() -> None:
    m = Model()
    x = m.input("x", 3, 4)
    y = m.node("Pad", x, m.constant("pads", np.array([0, 2, 3, 0], np.int64)), name="pad", mode="reflect")
    with pytest.raises(UsageError, match=r"'pad' \(Pad\) reflects 3 elements of axis 0 of 'x', which has 3: at most 2"):
        import_onnx(m.build(y))


def test_the_largest_reflection() -> None:
    m = Model()
    x = m.input("x", 3, 4)
    check_both(m.build(m.node("Pad", x, m.constant("pads", np.array([2, 3, 2, 3], np.int64)), mode="reflect")))
