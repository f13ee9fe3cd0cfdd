"""Scales and shifts of channels that are joined: the same numbers."""

from __future__ import annotations

import numpy as np

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from tests.support.onnx_models import Model, run_on_host


def test_scales_of_integers_are_not_joined_as_fractions() -> None:
    """Their product, 3 to the 36th, is not a number of double precision."""
    m = Model()
    x = m.input("x", 1, 2, 3, kind="i")
    for name in ("first", "second"):
        x = m.node("Mul", x, m.constant(name, np.full((2, 1), 3**18, np.int64)))
    graph = import_onnx(m.build(x))
    given = np.arange(-3, 3, dtype=np.int64).reshape(1, 2, 3)
    (product,) = evaluate_graph(graph, {"x": given}, run_on_host).values()
    np.testing.assert_array_equal(product, given * 3**36)
