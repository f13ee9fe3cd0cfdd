"""Powers of two types, and of integers, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from girih.frontend import import_onnx
from girih.ir.errors import UnsupportedError
from tests.support.onnx_models import Model, check_both


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("exponent", [-1, 2, 3])
def test_whole_exponents_of_floats(exponent: int, dtype: str) -> None:
    m = Model()
    base = m.node("Exp", m.input("x", 2, 3))
    check_both(m.build(m.node("Pow", base, m.constant("p", np.array(exponent, dtype)))), 1e-6)


def test_an_exponent_that_is_an_input() -> None:
    m = Model()
    base = m.node("Exp", m.input("x", 2, 3))
    check_both(m.build(m.node("Pow", base, m.input("p", 3, kind="i"))), 1e-6)


@pytest.mark.parametrize("exponent", [np.array(1), np.array([2]), np.array(5, np.int32), np.array(3, np.float32)])
def test_integers(exponent: np.ndarray) -> None:
    m = Model()
    base = m.node("Add", m.input("x", 2, 3, kind="i"), m.constant("c", np.array([-3, 2, 7])))
    check_both(m.build(m.node("Pow", base, m.constant("p", exponent))))


@pytest.mark.parametrize("exponent", [np.array(0.5, np.float32), np.array(-1), np.array([1, 2, 3])])
def test_integers_of_other_exponents(exponent: np.ndarray) -> None:
    m = Model()
    model = m.build(m.node("Pow", m.input("x", 2, 3, kind="i"), m.constant("p", exponent), name="power"))
    with pytest.raises(
        UnsupportedError, match=r"node 'power': Pow of int64 .* whole numbers from 1 to 8, of .*; give such"
    ):
        import_onnx(model)
