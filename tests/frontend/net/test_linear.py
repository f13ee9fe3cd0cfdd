"""Exact division of linear index expressions."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from girih.frontend.net.linear import CutAxis, Linear, NotAffine, SplitAxis

EXTENTS = {"a": 4, "b": 6, "c": 3}
LINEAR = st.builds(
    Linear.from_terms,
    st.dictionaries(st.sampled_from(list(EXTENTS)), st.integers(-8, 24), max_size=3),
    st.integers(-10, 30),
)


def values(index: Linear) -> list[int]:
    points = itertools.product(*(range(n) for n in EXTENTS.values()))
    return [sum(index.coefficient(a) * v for a, v in zip(EXTENTS, p, strict=True)) + index.const for p in points]


@given(LINEAR, st.integers(1, 12))
def test_division_is_exact_or_refused(index: Linear, by: int) -> None:
    try:
        quotient, rest = index.divide(by, EXTENTS)
    except (SplitAxis, CutAxis, NotAffine):
        return
    assert values(quotient) == [v // by for v in values(index)]
    assert values(rest) == [v % by for v in values(index)]


@given(LINEAR)
def test_bounds_are_reached(index: Linear) -> None:
    assert index.bounds(EXTENTS) == (min(values(index)), max(values(index)))


@given(LINEAR, LINEAR)
def test_substitution(index: Linear, value: Linear) -> None:
    inner = values(value)
    replaced = values(index.substitute({"b": value}))
    rest = values(index.substitute({"b": Linear()}))
    assert replaced == [r + index.coefficient("b") * v for r, v in zip(rest, inner, strict=True)]


def test_head_and_feature() -> None:
    flat = Linear.from_terms({"h": 64, "d": 1})
    assert flat.divide(64, {"h": 12, "d": 64}) == (Linear.axis("h"), Linear.axis("d"))


def test_an_axis_to_split_is_named() -> None:
    with pytest.raises(SplitAxis) as request:
        Linear.axis("n").divide(64, {"n": 768})
    assert (request.value.axis, request.value.factor) == ("n", 64)


def test_an_axis_to_cut_is_named() -> None:
    with pytest.raises(CutAxis) as request:
        Linear.from_terms({"n": 1}, 2).divide(4, {"n": 3})
    assert (request.value.axis, request.value.at) == ("n", 2)
