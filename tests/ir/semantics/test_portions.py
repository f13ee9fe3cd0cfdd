"""Copies of a box in portions, who issues them, and a box in several buffers."""

from __future__ import annotations

from itertools import combinations, product
from math import prod
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from girih.ir.box import Box, Span, contains, full, intersect, overlap, spread, volume
from girih.ir.semantics.cell import Cell
from girih.ir.semantics.portions import EMPTY, BroadcastTurns, interleaved, on_cores, portions, receivers

SHAPES = st.lists(st.sampled_from([1, 2, 3, 7, 13, 64, 197]), min_size=1, max_size=4).map(tuple)


@given(SHAPES, st.randoms(use_true_random=False))
def test_portions_are_all_of_a_box(shape: tuple[int, ...], random: Random) -> None:
    box = tuple(Span(5, 5 + n) for n in shape)
    extents = tuple(random.randint(-(-n // 3), n + 1) for n in shape)
    parts = portions(box, extents)
    assert sum(map(volume, parts)) == volume(box) and all(contains(box, part) for part in parts)
    assert not any(overlap(a, b) for a, b in combinations(parts, 2))
    assert all(span.size <= extent for part in parts for span, extent in zip(part, extents, strict=True))
    assert len(parts) == prod(-(-n // extent) for n, extent in zip(shape, extents, strict=True))


def test_cells_run_where_the_plan_says() -> None:
    first, second = Cell({}, {"x": full((1,))}, {}), Cell({}, {"x": full((2,))}, {})
    assert on_cores([first, second], (2, 0), 4) == (second, EMPTY, first, EMPTY)


def test_receivers_issue_broadcasts_in_turn() -> None:
    turns = BroadcastTurns((0, 2, 1))
    first, second, pair = [4, 5, 6], [1, 2, 3], [4, 5]
    # Each group of receivers has its own turns; one of two has no third receiver, so that 2 is its first.
    groups = (first, second, [7], first, second, pair, first, pair, [7], first)
    assert [turns.issuer(cores) for cores in groups] == [4, 1, 7, 6, 3, 4, 5, 4, 7, 4]


@given(st.integers(1, 8), st.integers(1, 5))
def test_a_rotation_lets_all_receivers_issue_as_many(cores: int, rounds: int) -> None:
    turns = BroadcastTurns(tuple(range(cores)))
    for group in ([*range(cores)], [*range(cores // 2)], [*range(cores // 2, cores)]):
        if group and cores % len(group) == 0:
            issued = [turns.issuer(group) for _ in range(rounds * len(group))]
            assert all(issued.count(core) == rounds for core in group)


def test_cores_that_want_the_same_receive_one_copy() -> None:
    rows, all_rows = full((4, 8)), full((8, 8))
    assert receivers([rows, None, all_rows, rows], True) == [(rows, [0, 3]), (all_rows, [2])]
    assert receivers([rows, None, all_rows, rows], False) == [(rows, [0]), (all_rows, [2]), (rows, [3])]
    assert receivers([None, None], True) == []


@given(st.lists(st.integers(0, 9), max_size=5))
def test_portions_take_turns(counts: list[int]) -> None:
    turns = interleaved(counts)
    assert sorted(turns) == [(which, n) for which, number in enumerate(counts) for n in range(number)]
    for which, number in enumerate(counts):
        assert [n for w, n in turns if w == which] == list(range(number))
    # When half of the portions of one box have come, about half of those of any other have.
    for (a, many), (b, other) in combinations([(w, n) for w, n in enumerate(counts) if n], 2):
        half = turns.index((a, many // 2))
        there = sum(1 for which, _ in turns[:half] if which == b)
        assert abs(there / other - (many // 2) / many) <= 1 / other


@st.composite
def rooms(draw: st.DrawFn) -> tuple[Box, list[Box]]:
    box = tuple(Span(0, draw(st.integers(1, 6))) for _ in range(2))
    span = st.tuples(st.integers(-1, 5), st.integers(1, 5)).map(lambda s: Span(s[0], s[0] + s[1]))
    return box, draw(st.lists(st.tuples(span, span), max_size=5))


@given(rooms())
def test_a_box_is_spread_over_rooms_that_hold_it(drawn: tuple[Box, list[Box]]) -> None:
    """Point by point: each lies in one part, which its room holds; if there is no answer, a greedy one has gaps."""
    box, held = drawn
    found = spread(box, list(enumerate(held)))
    if found is None:
        taken: list[Box] = []
        for room in held:
            if overlap(room, box) and not any(overlap(intersect(room, box), t) for t in taken):
                taken.append(intersect(room, box))
        assert not any(contains(room, box) for room in held)
        assert {p for t in taken for p in points(t)} < points(box)
        return
    for number, part in found:
        assert contains(held[number], part) and contains(box, part)
    assert sorted(p for _, part in found for p in points(part)) == sorted(points(box))
    whole = [number for number, room in enumerate(held) if contains(room, box)]
    assert not whole or found == [(whole[0], box)]


def points(box: Box) -> set[tuple[int, ...]]:
    return set(product(*(range(s.lo, s.hi) for s in box)))


@pytest.mark.parametrize("rooms", [[], [(Span(0, 2), Span(0, 4))], [(Span(4, 8), Span(0, 4))]])
def test_gaps_are_found(rooms: list[Box]) -> None:
    assert spread(full((4, 4)), list(enumerate(rooms))) is None
