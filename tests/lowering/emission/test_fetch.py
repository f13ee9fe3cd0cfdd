"""The copy of a tile of the stationary operand, as the box of it: where conditions cut the tile, the box ends there."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from girih.ir.box import Affine, Span
from girih.ir.errors import GirihError
from girih.lowering.emission.vector import fetch
from girih.lowering.loops.perfect_nest import Load, PerfectNest


def copy(extents: tuple[int, ...], offsets: tuple[int, ...], conditions: tuple[Affine, ...]) -> PerfectNest:
    """The corner of an array from ``offsets`` of the operand on."""
    rank = len(extents)
    units = [tuple(int(a == d) for a in range(rank)) for d in range(rank)]
    load = Load("w", tuple(Affine(unit, at) for unit, at in zip(units, offsets, strict=True)))
    return PerfectNest(extents, "tile", tuple(map(Affine, units)), "copy", (load,), None, conditions)


def test_the_box_is_what_the_loops_read() -> None:
    rng = Random(0)
    for _ in range(200):
        extents = tuple(rng.randint(1, 6) for _ in range(2))
        offsets = tuple(rng.randint(0, 9) for _ in range(2))
        # Axis d runs to its extent at most: bound - 1 - i >= 0, of which some say nothing.
        bounds = [(d, rng.randint(1, extents[d] + 2)) for d in range(2) if rng.random() < 0.7]
        conditions = tuple(Affine(tuple(-int(a == d) for a in range(2)), bound - 1) for d, bound in bounds)
        found = fetch(copy(extents, offsets, conditions), (8, 8))
        read = {
            tuple(i + o for i, o in zip(point, offsets, strict=True))
            for point in product(*map(range, extents))
            if all(c.at(point) >= 0 for c in conditions)
        }
        assert set(product(*(range(s.lo, s.hi) for s in found.box))) == read
        assert (found.buffer, found.shape) == ("w", (8, 8))


def test_a_condition_from_below_leaves_the_corner_only_where_it_cuts_nothing() -> None:
    holds = copy((4, 4), (2, 0), (Affine((1, 0), 0),))
    assert fetch(holds, (4, 4)).box == (Span(2, 6), Span(0, 4))
    assert fetch(copy((4, 4), (2, 0), (Affine((1, 0), 3),)), (4, 4)).box == (Span(2, 6), Span(0, 4))
    with pytest.raises(GirihError, match="is not a box"):
        fetch(copy((4, 4), (2, 0), (Affine((1, 0), -1),)), (4, 4))


@pytest.mark.parametrize("condition", [Affine((1, -1), 2), Affine((-2, 0), 5)])
def test_what_is_no_box_is_refused(condition: Affine) -> None:
    with pytest.raises(GirihError, match="is not a box"):
        fetch(copy((4, 4), (0, 0), (condition,)), (4, 4))
