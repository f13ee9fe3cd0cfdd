"""Rounding, conversion and the functions that numpy does not have."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from girih.api.exact.numpy_functions import FUNCTIONS, to_bfloat16
from girih.ir.isa.scalar_functions import ELEMENTS
from girih.simulator.execution.numbers import FLOAT, converted, erf, to_float
from tests.support.simulator.scalar_oracle import nearest_bfloat16


def test_every_half_is_read_exactly() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert np.array_equal(to_float(halves), halves.astype(np.float32), equal_nan=True)
    assert np.array_equal(converted(to_float(halves), "float16"), halves, equal_nan=True)


def test_every_bfloat16_is_read_exactly() -> None:
    brains = np.arange(1 << 16, dtype=np.uint16).view("bfloat16")
    singles = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    assert np.array_equal(to_float(brains), singles, equal_nan=True)
    assert np.array_equal(converted(to_float(brains), "bfloat16"), brains, equal_nan=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "bool", "float16", "float32"])
def test_bfloat16_becomes_what_the_same_single_becomes(dtype: str) -> None:
    singles = np.array([0.0, -0.5, 1.9, -300.0, 3e38, -3e38, np.inf, np.nan, 2.0**-130], np.float32)
    brains = singles.astype("bfloat16")
    with np.errstate(over="ignore"):
        expected = converted(brains.astype(np.float32), dtype)
        assert np.array_equal(converted(brains, dtype), expected, equal_nan=dtype.startswith("float"))


def test_whole_numbers_are_rounded_to_bfloat16_once() -> None:
    # A little more than the middle between two neighbours, which binary32 does not tell from it.
    middle = 2**40 + 2**32
    rounded = converted(np.array([middle - 1, middle, middle + 1, 3 * middle + 1, -middle - 1]), "bfloat16")
    expected = [nearest_bfloat16(float(n)) for n in (middle - 1, middle, middle + 1, 3 * middle + 1, -middle - 1)]
    assert rounded.astype(np.float64).tolist() == expected


def _near_bfloat16(random: np.random.Generator) -> np.ndarray:
    """Numbers at and next to the middle between two neighbours, any numbers, and what no binary32 holds."""
    bits = random.integers(0, 0x7F80, 400).astype(np.uint32) << 16
    low, high = bits.view(np.float32).astype(np.float64), (bits + (1 << 16)).view(np.float32).astype(np.float64)
    middle = np.where(np.isinf(high), 1.5 * 2.0**127 + 2.0**127 - 2.0**119, (low + high) / 2)
    next_to = [np.nextafter(middle, toward) for toward in (0.0, np.inf)]
    any_number = np.ldexp(random.uniform(-1, 1, 400), random.integers(-150, 140, 400))
    special = np.array([0.0, -0.0, np.inf, 1e-300, 1e300, 3.3e38, 2.0**-134, 2.0**-133 * 1.5])
    positive = np.concatenate([middle, *next_to, any_number, special])
    return np.concatenate([positive, -positive])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=5, deadline=None)
def test_bfloat16_is_rounded_once(dtype: type, seed: int) -> None:
    """Sums come in binary64: rounded to binary32 before, some would end on the wrong side."""
    with np.errstate(over="ignore"):
        values = _near_bfloat16(np.random.default_rng(seed)).astype(dtype)
        rounded, judged = converted(values, "bfloat16").astype(np.float64), to_bfloat16(values).astype(np.float64)
    expected = np.array([nearest_bfloat16(float(v)) for v in values])
    assert np.array_equal(rounded, expected) and np.array_equal(np.signbit(rounded), np.signbit(expected))
    assert np.array_equal(judged, expected), "the judge of programs rounds otherwise"
    assert np.isnan(converted(np.array([np.nan], dtype), "bfloat16")).all()


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


def test_gelu_keeps_its_digits_far_below_zero() -> None:
    """Against a sum of more than a hundred decimal digits."""
    x = np.concatenate([np.linspace(-13, 6, 400), np.geomspace(1e-6, 4, 50), -np.geomspace(1e-6, 13, 200)])
    x = x.astype(np.float32)
    expected = np.array([float(_precise_gelu(v)) for v in x.tolist()])
    for got in (FLOAT["gelu"](x), FUNCTIONS["gelu"](x)):
        np.testing.assert_allclose(got, expected, rtol=1.2e-7, atol=1e-45)
    assert FLOAT["gelu"](np.array([-40.0], np.float32))[0] == 0.0


def _precise_gelu(x: float) -> Decimal:
    """x · (1 + erf(x / √2)) / 2, by 1/2 + φ(x) · Σ x^(2k + 1) / (2k + 1)!!, which is exact for its precision."""
    with localcontext() as context:
        context.prec = 120
        v = Decimal(x)
        pi = Decimal(
            "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798"
        )
        density = (-v * v / 2).exp() / (2 * pi).sqrt()
        term = total = v
        for k in range(1, 2000):
            term = term * v * v / (2 * k + 1)
            total += term
            if abs(term) < Decimal(10) ** -100:
                break
        return v * (Decimal("0.5") + density * total)


def test_every_element_function_is_there() -> None:
    assert set(FLOAT) == set(ELEMENTS)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint8", "int32", "bool"])
def test_any_byte_but_zero_is_true(dtype: str) -> None:
    source = np.arange(256, dtype=np.uint8).view(np.bool_)
    assert converted(source, dtype).astype(np.float32).tolist() == [0.0] + 255 * [1.0]
