"""Tiles of a dimension that several loops write together."""

from __future__ import annotations

from itertools import product
from math import gcd

import pytest

from girih.frontend import import_onnx
from girih.ir.box import Span, shape_of, volume
from girih.ir.semantics.region import op_boxes
from girih.ir.semantics.tile_alignment import WORTH, aligned_part, aligned_size, is_aligned
from tests.support.operators.imported.convolution_cases import conv


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


@pytest.mark.parametrize(("channels", "groups"), [(12, 3), (35, 5), (24, 2), (16, 1), (22, 11)])
@pytest.mark.parametrize("bias", [True, False])
def test_tiles_of_a_grouped_convolution_compute_nothing_twice(channels: int, groups: int, bias: bool) -> None:
    # The groups are digits of the sums alone: what follows them has one loop over all channels.
    graph = import_onnx(conv(1, 2 * groups, 3, 3, out=channels, group=groups, bias=bias)(), precision="fp16")
    op = next(op for op in graph.ops if op.contraction is not None)
    assert op.contraction is not None
    whole = tuple(Span(0, extent) for extent in graph.tensor[op.output].shape)
    dim = shape_of(whole).index(channels)

    def products(first: int, last: int) -> int:
        box = (*whole[:dim], Span(first, last), *whole[dim + 1 :])
        return volume(op_boxes(op, graph.tensor, box).points[op.contraction or 0])

    for size in range(1, channels):
        tile = aligned_size(op, dim, size, whole[dim])
        assert 1 <= tile <= size
        tiles = [products(first, min(first + tile, channels)) for first in range(0, channels, tile)]
        assert sum(tiles) == products(0, channels), (size, tile)


def test_a_part_of_one_group_has_tiles_of_any_size() -> None:
    graph = import_onnx(conv(1, 4, 3, 3, out=34, group=2)(), precision="fp16")
    op = next(op for op in graph.ops if op.contraction is not None)
    dim = graph.tensor[op.output].shape.index(34)
    for span in (Span(0, 17), Span(17, 34), Span(20, 31)):
        assert [aligned_size(op, dim, size, span) for size in range(1, span.size)] == list(range(1, span.size))
    assert [aligned_size(op, dim, size, Span(0, 34)) for size in (16, 17, 33)] == [1, 17, 17]
    # What begins in the middle of a group still crosses into the next one.
    assert aligned_size(op, dim, 8, Span(10, 30)) == 1


@pytest.mark.parametrize("begins", [(0, 34), (34, 68, 102), (68, 136), (2, 70), (102,)])
def test_parts_that_begin_in_the_middle_of_a_group_compute_nothing_twice(begins: tuple[int, ...]) -> None:
    # Four groups of 136 channels, as cores of ShuffleNet divide them: tiles of 68 from 34 on lie across groups.
    graph = import_onnx(conv(1, 8, 3, 3, out=544, group=4)(), precision="fp16")
    op = next(op for op in graph.ops if op.contraction is not None)
    assert op.contraction is not None
    whole = tuple(Span(0, extent) for extent in graph.tensor[op.output].shape)
    dim = shape_of(whole).index(544)

    def products(first: int, last: int) -> int:
        box = (*whole[:dim], Span(first, last), *whole[dim + 1 :])
        return volume(op_boxes(op, graph.tensor, box).points[op.contraction or 0])

    parts = [Span(begin, begin + 408) for begin in begins]
    for size in range(1, 408):
        tile = aligned_size(op, dim, size, parts[0], parts[1:])
        alone = aligned_size(op, dim, size, Span(0, 408))
        whole_in_all = max(t for t in range(1, size + 1) if gcd(t, *begins, 136) == t)
        assert tile == (whole_in_all if WORTH * whole_in_all >= alone else alone), size
        tiles = [products(at, min(at + tile, part.hi)) for part in parts for at in range(part.lo, part.hi, tile)]
        assert (sum(tiles) == len(parts) * 3 * products(0, 136)) == (tile == whole_in_all), (size, tile)


def test_a_part_that_would_need_far_smaller_tiles_decides_for_no_other() -> None:
    graph = import_onnx(conv(1, 6, 3, 3, out=381, group=3)(), precision="fp16")
    op = next(op for op in graph.ops if op.contraction is not None)
    dim = graph.tensor[op.output].shape.index(381)
    inside, across = Span(0, 48), Span(96, 144)
    assert aligned_size(op, dim, 32, inside) == 32
    assert aligned_size(op, dim, 32, inside, [inside, across]) == 32
    assert aligned_size(op, dim, 254, Span(0, 254), [Span(127, 381)]) == 254
