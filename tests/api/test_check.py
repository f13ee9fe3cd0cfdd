"""The comparison with a reference: what passes, what does not, and what NaN means."""

from __future__ import annotations

import numpy as np
import pytest

import girih
from girih.api.check import Check, check, compare, nan_counts
from girih.api.exact.numpy_functions import saturated
from girih.api.run import unjudged
from tests.support.graphs import conv
from tests.support.onnx_models import Model

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
    found = compare("y", np.array([3.0, -4.0, wrong], np.float32), REFERENCE, 1e9)
    assert not Check((found,)).passed
    fine = compare("x", REFERENCE, REFERENCE, 1e9)
    assert Check((fine, found, fine)).worst == found


def test_the_same_infinity_passes() -> None:
    both = np.array([-np.inf, 1.0], np.float32)
    assert Check((compare("y", both, both),)).passed


def test_a_reference_of_zeros() -> None:
    zeros = np.zeros(3, np.float32)
    assert compare("y", zeros, zeros).rel_err == 0
    assert not Check((compare("y", zeros + 1, zeros, 1.0),)).passed


def test_booleans_and_integers_are_compared() -> None:
    assert compare("y", np.array([True, False]), np.array([True, True])).rel_err > 0.5
    assert compare("y", np.array([3, 4]), np.array([3, 4])).rel_err == 0


def test_the_worst_output_counts() -> None:
    good, bad = compare("a", REFERENCE, REFERENCE, 0.5), compare("b", REFERENCE * 2, REFERENCE, 0.5)
    both = Check((good, bad))
    assert both.rel_err == 1
    assert not both.passed


def test_each_output_has_its_tolerance() -> None:
    """The worst is the one that is farthest beyond its own, not the one with the largest error."""
    rough, fine = compare("a", REFERENCE * 1.375, REFERENCE, 0.4375), compare("b", REFERENCE * 1.25, REFERENCE, 0.125)
    both = Check((rough, fine))
    assert (both.passed, both.rel_err, both.tolerance) == (False, 0.25, 0.125)
    assert Check((rough,)).passed and Check(()).passed


def test_what_differs_is_counted_and_the_first_is_found() -> None:
    right = np.arange(24, dtype=np.float16).reshape(2, 3, 4)
    wrong = right.copy()
    wrong[1, 0, 2] = np.nextafter(wrong[1, 0, 2], np.float16(100))
    wrong[1, 2, 3] += 1
    found = compare("y", wrong, right)
    assert (found.elements, found.different, found.first, found.max_abs_err) == (24, 2, (1, 0, 2), 1.0)
    assert compare("y", right, right).different == 0


def test_zeros_and_nan_are_equal_and_large_integers_are_not() -> None:
    special = np.array([0.0, np.nan, np.inf], np.float32)
    assert compare("y", -special * [1, 1, -1], special).different == 0
    large = np.array([2**60], np.int64)
    assert compare("y", large + 1, large).different == 1


def test_exact_allows_nothing() -> None:
    graph = conv(dtype="float16")
    (port,) = graph.outputs
    right = np.ones(port.shape, np.float16)
    wrong = right.copy()
    wrong[0, 1, 2, 3] = np.nextafter(np.float16(1), np.float16(2))
    for tolerances in (None, {port.name: 1e-3}):
        verdict = check(graph, {port.name: right}, {port.name: right}, None, tolerances)
        assert verdict.passed and verdict.exact is (tolerances is None)
        verdict = check(graph, {port.name: wrong}, {port.name: right}, None, tolerances)
        assert verdict.passed is (tolerances is not None)


@pytest.mark.parametrize("value", [300.7, -300.7, np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_what_an_integer_cannot_hold_is_cut_off(value: float, dtype: str) -> None:
    limits = np.iinfo(dtype)
    wanted = 0 if np.isnan(value) else int(max(limits.min, min(limits.max, value)))
    found = int(saturated(np.array([value], np.float32), np.dtype(dtype))[0])
    # The largest float64 that an int64 holds is not its largest number.
    assert abs(found - wanted) < (2048 if dtype == "int64" else 1)


def test_nan_is_counted() -> None:
    arrays = {"a": np.array([1, np.nan, np.nan], np.float32), "b": np.zeros(2), "ids": np.array([1, 2])}
    assert nan_counts(arrays) == {"a": 2}


@pytest.mark.parametrize("exact", [False, True])
def test_an_output_that_cannot_be_judged_fails(exact: bool) -> None:
    """Zeros are wrong by 1: a tolerance that is not far below that tells nothing."""
    output = compare("y", 0 * REFERENCE, REFERENCE, 3.35)
    assert not output.passed
    assert not compare("y", REFERENCE * 1.125, REFERENCE, 0.5).passed
    assert compare("y", REFERENCE * 1.125, REFERENCE, 0.49).passed
    message = unjudged(output, exact)
    assert "'y' cannot be judged: rounding alone explains errors of 3.4" in message
    assert ("--exact" in message) != exact


@pytest.mark.parametrize("special", [np.nan, -np.inf])
def test_a_nan_of_a_constant_goes_through_the_reference(special: float) -> None:
    """The inputs are finite: x + NaN is none, nor is (x - infinity) · 0."""
    m = Model()
    shifted = m.node("Add", m.input("x", 2, 3), m.constant("c", np.array([1.0, special, 0.0], np.float32)))
    y = m.node("Relu", m.node("Mul", shifted, m.constant("zero", np.array([1.0, 0.0, 1.0], np.float32))))
    compiled = girih.compile(m.build(y), target="tiny", strategy="layerwise", cache=False)
    result = compiled.run(check=True)
    (output,) = result.outputs.values()
    assert np.isnan(output[:, 1]).all() and np.isfinite(output[:, [0, 2]]).all()
