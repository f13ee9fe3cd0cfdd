"""Tiles of a dimension that several loops write together."""

from __future__ import annotations

from itertools import product

import pytest

from girih.ir.semantics.tile_alignment import aligned_part, is_aligned


def boxes_of(extents: tuple[int, ...], size: int) -> bool:
    """Whether each run of ``size`` positions, counted row-major over the digits, is a box of them; by looking."""
    points = list(product(*(range(e) for e in extents)))
    for first in range(0, len(points), size):
        tile = points[first : first + size]
        box = product(*(range(min(p[a] for p in tile), max(p[a] for p in tile) + 1) for a in range(len(extents))))
        if sorted(tile) != sorted(box):
            return False
    return True


@pytest.mark.parametrize("extents", [(5,), (3, 4), (2, 3, 4), (4, 1, 6), (7, 2, 2)])
def test_aligned_tiles_are_boxes(extents: tuple[int, ...]) -> None:
    coefficients = [1]
    for extent in reversed(extents[1:]):
        coefficients.insert(0, coefficients[0] * extent)
    whole = coefficients[0] * extents[0]
    for size in range(1, whole):
        if is_aligned(coefficients, size):
            assert boxes_of(extents, size), size
        part = aligned_part(coefficients, size)
        assert size % part == 0 and is_aligned(coefficients, part)
    assert sum(is_aligned(coefficients, size) for size in range(1, whole)) >= sum(map(bool, extents))


def test_a_strided_write_has_tiles_of_its_stride() -> None:
    assert [size for size in range(1, 9) if is_aligned([2], size)] == [1, 2, 4, 6, 8]
