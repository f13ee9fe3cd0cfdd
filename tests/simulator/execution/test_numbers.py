"""Rounding, conversion and the functions that numpy does not have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from girih.ir.isa.scalar_functions import ELEMENTS
from girih.simulator.execution.numbers import FLOAT, converted, erf, to_float


def test_every_half_is_read_exactly() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert np.array_equal(to_float(halves), halves.astype(np.float32), equal_nan=True)
    assert np.array_equal(converted(to_float(halves), "float16"), halves, equal_nan=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_floats_saturate_and_truncate(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.array([-1e30, -np.inf, np.nan, 1.9, 1e30, np.inf], np.float32)
    found = converted(values, dtype).tolist()
    # Between the largest 64-bit integer and the next binary64 number below it there are others.
    largest = info.max if info.bits < 64 else 2**63 - 1024
    assert found == [info.min, info.min, 0, 1, largest, largest]
    assert converted(np.array([-1.9], np.float32), dtype).tolist() == [max(info.min, -1)]


def test_integers_wrap_and_bools_are_tests() -> None:
    assert converted(np.array([300, -1]), "uint8").tolist() == [44, 255]
    assert converted(np.array([0.0, 0.5, np.nan]), "bool").tolist() == [False, True, True]
    assert converted(np.array([2**24 + 1]), "float32").tolist() == [2**24]


def test_erf() -> None:
    x = np.concatenate([np.linspace(-6, 6, 20001), [0.0, -0.0, 1e-30, 1e-4, np.inf, -np.inf]]).astype(np.float32)
    expected = np.array([math.erf(v) for v in x.tolist()])
    np.testing.assert_allclose(erf(x), expected, rtol=1.2e-7, atol=0)
    assert np.isnan(erf(np.array([np.nan], np.float32)))[0]


def test_every_element_function_is_there() -> None:
    assert set(FLOAT) == set(ELEMENTS)
