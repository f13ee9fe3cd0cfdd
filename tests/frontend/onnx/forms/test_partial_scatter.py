"""Scatters with fewer indices than data along other dimensions, against ONNX Runtime."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.support.onnx_models import Model, check_both

SHAPE = (2, 3, 4)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_parts_of_the_data(axis: int) -> None:
    rng = np.random.default_rng(0)
    for part in product((1, 2), (2, 3), (1, 4)):
        m = Model(opset=18)
        # Each index occurs once: which of several updates comes last is not defined.
        order = np.argsort(rng.random(SHAPE), axis)[tuple(slice(n) for n in part)]
        x, updates = m.input("x", *SHAPE), m.input("updates", *part)
        check_both(m.build(m.node("ScatterElements", x, m.constant("indices", order), updates, axis=axis)))


def test_sums_in_a_part_of_the_data() -> None:
    m = Model(opset=18)
    x, updates = m.input("x", *SHAPE), m.input("updates", 2, 2, 3)
    indices = m.constant("indices", np.ones((2, 2, 3), np.int64))
    check_both(m.build(m.node("ScatterElements", x, indices, updates, axis=0, reduction="add")), 1e-6)


def test_the_older_operator() -> None:
    m = Model(opset=10)
    x, updates = m.input("x", *SHAPE), m.input("updates", 2, 2, 1)
    indices = m.constant("indices", np.array([[[0], [1]], [[1], [0]]]))
    check_both(m.build(m.node("Scatter", x, indices, updates, axis=0)))
