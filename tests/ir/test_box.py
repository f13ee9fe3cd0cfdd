"""Boxes against sets of points."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from girih.ir.box import Affine, Box, Holders, Span, contains, hull, intersect, is_empty, overlap, shape_of, volume

Points = set[tuple[int, ...]]


def drawn(random: Random, rank: int) -> Box:
    """Often empty, often equal to or beside another one."""
    return tuple(Span(lo, lo + random.randint(-1, 3)) for lo in (random.randint(-1, 3) for _ in range(rank)))


def points(box: Box) -> Points:
    return set(product(*(range(lo, hi) for lo, hi in box)))


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_two_boxes_are_two_sets_of_points(rank: int) -> None:
    random = Random(rank)
    for _ in range(400):
        a, b = drawn(random, rank), drawn(random, rank)
        mine, other = points(a), points(b)
        assert is_empty(a) == (not mine)
        assert volume(a) == len(mine)
        assert shape_of(a) == tuple(len(range(lo, hi)) for lo, hi in a)
        assert points(intersect(a, b)) == mine & other
        assert contains(a, b) == (other <= mine)
        assert overlap(a, b) == bool(mine & other)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_hull_is_the_smallest_box_around_both(rank: int) -> None:
    random = Random(rank)
    for _ in range(400):
        a, b = drawn(random, rank), drawn(random, rank)
        both = points(a) | points(b)
        if both:
            assert hull(a, b) == tuple(Span(min(p[d] for p in both), max(p[d] for p in both) + 1) for d in range(rank))
        if points(a):
            assert hull(a, None) == hull(None, a) == a
    assert hull(None, None) is None


def test_an_index_over_a_box_takes_the_values_at_its_points() -> None:
    random = Random(0)
    for _ in range(400):
        index = Affine(tuple(random.randint(-2, 2) for _ in range(3)), random.randint(-3, 3))
        box = tuple(Span(lo, lo + random.randint(1, 3)) for lo in (random.randint(-2, 2) for _ in range(3)))
        values = [index.at(point) for point in points(box)]
        assert index.over(box) == Span(min(values), max(values) + 1)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_the_first_of_many_places_that_holds_a_box(rank: int) -> None:
    random = Random(rank)
    for _ in range(100):
        places = list(enumerate(drawn(random, rank) for _ in range(random.randint(0, 12))))
        holders = Holders(places)
        for box in (*(held for _, held in places), *(drawn(random, rank) for _ in range(12))):
            assert holders.first(box) == next((n for n, held in places if contains(held, box)), None)
