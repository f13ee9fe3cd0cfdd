"""The comparison with a reference: what passes, what does not, and what NaN means."""

from __future__ import annotations

import numpy as np
import pytest

from girih.api.check import Check, compare, tolerance

from ..graphs import conv

REFERENCE = np.array([3.0, -4.0, 0.0], np.float32)


def test_equal_arrays_have_no_error() -> None:
    found = compare("y", REFERENCE, REFERENCE)
    assert (found.rel_err, found.max_abs_err, found.max_rel_err) == (0.0, 0.0, 0.0)


def test_the_error_is_relative_to_the_norm() -> None:
    found = compare("y", REFERENCE + np.array([0, 0, 0.5], np.float32), REFERENCE)
    assert found.rel_err == pytest.approx(0.1)
    assert found.max_abs_err == pytest.approx(0.5)
    assert found.max_rel_err == pytest.approx(0.5 / (5 / 3**0.5))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_finite_fails(wrong: float) -> None:
    found = compare("y", np.array([3.0, -4.0, wrong], np.float32), REFERENCE)
    assert not Check((found,), 1e9).passed


def test_the_same_infinity_passes() -> None:
    both = np.array([-np.inf, 1.0], np.float32)
    assert Check((compare("y", both, both),), 1e-4).passed


def test_a_reference_of_zeros() -> None:
    zeros = np.zeros(3, np.float32)
    assert compare("y", zeros, zeros).rel_err == 0
    assert not Check((compare("y", zeros + 1, zeros),), 1.0).passed


def test_booleans_and_integers_are_compared() -> None:
    assert compare("y", np.array([True, False]), np.array([True, True])).rel_err > 0.5
    assert compare("y", np.array([3, 4]), np.array([3, 4])).rel_err == 0


def test_the_worst_output_counts() -> None:
    good, bad = compare("a", REFERENCE, REFERENCE), compare("b", REFERENCE * 2, REFERENCE)
    both = Check((good, bad), 0.5)
    assert both.rel_err == 1
    assert not both.passed


def test_half_precision_is_allowed_more() -> None:
    assert tolerance(conv(dtype="float32")) == 1e-4
    assert tolerance(conv(dtype="float16")) == 2e-2
