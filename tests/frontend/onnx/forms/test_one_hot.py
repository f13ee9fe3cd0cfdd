"""OneHot, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from girih.frontend import import_onnx
from girih.ir.errors import UnsupportedError
from tests.support.onnx_models import Model, check_both


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
@pytest.mark.parametrize("depth", [np.array(4), np.array([4]), np.array(4, np.float32)])
def test_indices_of_all_kinds(depth: np.ndarray, axis: int) -> None:
    """From the beginning, from the end, and beyond either, of which no place is that of the index."""
    m = Model()
    offsets = m.constant("offsets", np.array([[0, 2, 3], [-1, -4, -6]]))
    indices = m.node("Add", m.input("x", 2, 3, kind="i"), offsets)
    values = m.constant("values", np.array([0.5, 2], np.float32))
    check_both(m.build(m.node("OneHot", indices, m.constant("depth", depth), values, axis=axis)))


def test_whole_values() -> None:
    m = Model()
    x, depth = m.input("x", 2, 3, kind="i"), m.constant("depth", np.array(5))
    check_both(m.build(m.node("OneHot", x, depth, m.constant("values", np.array([-3, 4])))))


def test_values_that_are_an_input() -> None:
    m = Model()
    x, values = m.input("x", 2, 3, kind="i"), m.input("values", 2)
    model = m.build(m.node("OneHot", x, m.constant("depth", np.array(5)), values, name="hot"))
    with pytest.raises(UnsupportedError, match="node 'hot': OneHot: its depth or values are not constant"):
        import_onnx(model)
