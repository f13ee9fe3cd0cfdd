"""OneHot, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from girih.api.exact.evaluate_graph import evaluate_graph
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


@pytest.mark.parametrize(("kind", "indices", "depth"), [("uint8", [1, 252], 4), ("int8", [-100, 56], 200)])
def test_places_beyond_the_dtype_of_the_indices(kind: str, indices: list[int], depth: int) -> None:
    """Against the definition, as ONNX Runtime has no OneHot of these: no place is that of another by wrapping around."""
    m = Model()
    x = m.node("Identity", m.constant("x", np.array(indices, kind)))
    one_hot = m.node(
        "OneHot", x, m.constant("depth", np.array(depth)), m.constant("values", np.array([0, 1], np.float32))
    )
    graph = import_onnx(m.build(m.node("Add", one_hot, m.input("y", len(indices), depth))))
    right = np.zeros((len(indices), depth), np.float32)
    for row, index in enumerate(indices):
        if -depth <= index < depth:
            right[row, index] = 1
    (got,) = evaluate_graph(graph, {"y": np.zeros_like(right)}).values()
    np.testing.assert_array_equal(got, right)


def test_values_that_are_an_input() -> None:
    m = Model()
    x, values = m.input("x", 2, 3, kind="i"), m.input("values", 2)
    model = m.build(m.node("OneHot", x, m.constant("depth", np.array(5)), values, name="hot"))
    with pytest.raises(UnsupportedError, match="node 'hot': OneHot: its depth or values are not constant"):
        import_onnx(model)
