"""Sharing of links and banks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from girih.simulator.timing.bandwidth import BankContention, Flow, max_min


def test_equal_shares() -> None:
    assert max_min([(((0, 1.0),), 64.0)], [4], [128.0]) == [32.0]


def test_a_capped_flow_leaves_its_rest_to_others() -> None:
    link = ((0, 1.0),)
    assert max_min([(link, 10.0), (link, 100.0)], [1, 2], [110.0]) == [10.0, 50.0]


def test_a_flow_on_two_links_takes_the_narrower_share() -> None:
    flows: list[Flow] = [(((0, 1.0), (1, 1.0)), 100.0), (((1, 1.0),), 100.0)]
    assert max_min(flows, [1, 1], [8.0, 32.0]) == [8.0, 24.0]


flow = st.tuples(
    st.dictionaries(st.integers(0, 2), st.floats(0.25, 1.0), max_size=3).map(lambda d: tuple(sorted(d.items()))),
    st.floats(1.0, 100.0),
)


@given(st.lists(st.tuples(flow, st.integers(1, 4)), min_size=1, max_size=6))
def test_max_min(population: list[tuple[Flow, int]]) -> None:
    """No link is overloaded, and what holds a flow back is its cap, or a full link on which none is faster."""
    flows, counts = [f for f, _ in population], [n for _, n in population]
    capacity = [20.0, 50.0, 128.0]
    rates = max_min(flows, counts, capacity)
    load = [
        sum(n * r * w for (links, _), n, r in zip(flows, counts, rates, strict=True) for at, w in links if at == link)
        for link in range(3)
    ]
    assert all(used <= c * (1 + 1e-9) for used, c in zip(load, capacity, strict=True))
    for (links, cap), rate in zip(flows, rates, strict=True):
        assert rate <= cap
        full = [link for link, _ in links if load[link] >= capacity[link] * (1 - 1e-9)]
        fastest = {link: max(r for (ls, _), r in zip(flows, rates, strict=True) if link in dict(ls)) for link in full}
        assert rate == pytest.approx(cap) or any(rate >= fastest[link] * (1 - 1e-9) for link in full)


def test_overloaded_banks_slow_their_users_in_proportion() -> None:
    load = BankContention([64.0, 64.0])
    load.change(1, ((0, 48.0),), 0.0, 1.0)
    assert load.slowdown(((0, 48.0),)) == (1.0, -1)
    load.change(2, ((0, 48.0), (1, 10.0)), 0.0, 1.0)
    assert load.disturbed == {1, 2}
    assert load.slowdown(((0, 48.0), (1, 10.0))) == (pytest.approx(2 / 3), 0)
    assert load.slowdown(((1, 10.0),)) == (1.0, -1)
    load.disturbed = set()
    load.change(2, ((0, 48.0), (1, 10.0)), 1.0, 0.0)
    assert load.disturbed == {1}
    assert load.slowdown(((0, 48.0),)) == (1.0, -1)


def test_the_most_overloaded_of_a_user_s_banks_limits_it() -> None:
    """Whichever it names first; a bank that is not overloaded, or that it does not touch, is none of them."""
    load = BankContention([60.0, 60.0, 60.0, 60.0])
    load.change(1, ((0, 90.0), (1, 120.0), (2, 60.0), (3, 240.0)), 0.0, 1.0)
    assert load.slowdown(((0, 90.0), (1, 120.0), (2, 60.0))) == (0.5, 1)
    assert load.slowdown(((2, 60.0), (1, 120.0), (0, 90.0))) == (0.5, 1)
    assert load.slowdown(((2, 60.0), (0, 90.0))) == (pytest.approx(2 / 3), 0)
    assert load.slowdown(((2, 60.0),)) == (1.0, -1)


def test_of_equally_overloaded_banks_the_first_limits() -> None:
    load = BankContention([60.0, 60.0])
    load.change(1, ((0, 90.0), (1, 90.0)), 0.0, 1.0)
    assert load.slowdown(((1, 90.0), (0, 90.0)))[1] == 1
    assert load.slowdown(((0, 90.0), (1, 90.0)))[1] == 0
