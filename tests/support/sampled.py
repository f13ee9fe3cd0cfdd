"""Of many alike cases of a test, those that every run takes; all others are marked ``thorough``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest


def sampled(cases: Sequence[Any], one_in: int = 5) -> list[Any]:
    """Values of one parameter, such as seeds: every run takes the first of each ``one_in``.

    Five has no divisor in common with what tests take of a seed to choose by, such as every second or fourth.
    """
    return [_case(n % one_in == 0, case) for n, case in enumerate(cases)]


def sampled_pairs(first: Sequence[Any], second: Sequence[Any], one_in: int = 3) -> list[Any]:
    """All pairs of the values of two parameters: every run takes the diagonals of which the sum of both places is a
    multiple of ``one_in``. They have each value of either, since neither has fewer than ``one_in`` values."""
    assert one_in <= min(len(first), len(second)), "diagonals leave values out"
    return [_case((i + j) % one_in == 0, a, b) for (i, a), (j, b) in product(enumerate(first), enumerate(second))]


def _case(by_default: bool, *values: Any) -> Any:
    return pytest.param(*values, marks=() if by_default else pytest.mark.thorough, id="-".join(map(_name, values)))


def _name(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(map(_name, value))
    return value.__name__ if callable(value) else str(value)
