"""Which loops are split for the plan's tiles: digits, leads, and tiles that end in the middle of a digit."""

from __future__ import annotations

import pytest

from girih.lowering.schedule.cell_spec import CellSpec
from girih.lowering.schedule.tile_grid import WriterGrid, writer_grid
from girih.lowering.schedule.tile_plan import TilePlan
from tests.support.cell_specs import digits, plain, row


def splits(spec: CellSpec, *sizes: int, order: tuple[int, ...] | None = None) -> WriterGrid:
    return writer_grid(spec, spec.stages[0], TilePlan(sizes, order or tuple(range(len(sizes)))))


def pairs(grid: WriterGrid) -> list[tuple[int, int, int]]:
    return [(split.dim, split.loop, split.size) for split in grid.splits]


def test_loops_are_split_in_the_order_of_the_plan_and_whole_ones_are_not() -> None:
    assert pairs(splits(plain(6, 5), 4, 3, order=(1, 0))) == [(1, 1, 3), (0, 0, 4)]
    assert pairs(splits(plain(6, 5), 6, 2)) == [(1, 1, 2)]
    assert pairs(splits(plain(6, 5), 6, 5)) == []


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (24, []),
        (12, [(0, 0, 2)]),  # two values of the upper digit
        (6, [(0, 0, 1)]),  # one of them
        (3, [(0, 0, 1), (0, 1, 3)]),  # half of the lower digit: the upper one goes value by value
        (9, [(0, 0, 1), (0, 1, 3)]),  # ends in the middle of a digit: three parts of 3 make up a tile
        (4, [(0, 0, 1), (0, 1, 2)]),
        (5, [(0, 0, 1), (0, 1, 1)]),
    ],
)
def test_a_dimension_of_two_digits(size: int, expected: list[tuple[int, int, int]]) -> None:
    grid = splits(digits(4, 6), size)
    assert pairs(grid) == expected
    assert grid.leads == (0, 0)


@pytest.mark.parametrize(("const", "lead"), [(0, 0), (3, 3), (4, 0), (7, 3)])
def test_a_part_that_begins_within_a_tile_gets_a_lead(const: int, lead: int) -> None:
    grid = splits(row(9, const), 4)
    assert grid.leads == (lead,)
    assert pairs(grid) == [(0, 0, 4)]


def test_the_lead_is_counted_in_the_digit_that_is_split() -> None:
    grid = splits(digits(5, 3, const=3), 6)
    assert grid.leads == (1, 0)
    assert pairs(grid) == [(0, 0, 2)]


def test_a_digit_above_cannot_begin_within_a_tile() -> None:
    """Then the parts are as small as where it begins asks for."""
    grid = splits(digits(4, 8, const=2), 4)
    assert grid.leads == (0, 0)
    assert pairs(grid) == [(0, 0, 1), (0, 1, 2)]
