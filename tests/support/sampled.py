"""Of many alike cases of a test, those that every run takes; all others are marked ``thorough``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def sampled(cases: Iterable[Any], one_in: int = 4) -> list[Any]:
    """Values of one parameter, such as seeds: every run takes the first of each ``one_in``."""
    return [case if n % one_in == 0 else pytest.param(case, marks=pytest.mark.thorough) for n, case in enumerate(cases)]


def sampled_pairs(first: Iterable[Any], second: Iterable[Any], one_in: int = 3) -> list[Any]:
    """All pairs of the values of two parameters: every run takes one diagonal in ``one_in``. It has every value of
    one parameter, if the other has ``one_in`` values or more."""
    return [
        (a, b) if (i + j) % one_in == 0 else pytest.param(a, b, marks=pytest.mark.thorough)
        for (i, a), (j, b) in product(enumerate(first), enumerate(second))
    ]
