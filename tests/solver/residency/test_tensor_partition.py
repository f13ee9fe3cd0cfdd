"""Which parts of a result are decided one by one."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from girih.ir.box import Box, Span, contains, full, intersect, overlap, volume
from girih.solver.residency.partition.tensor_partition import (
    MOST_BLOCKS,
    MOST_READ_BOXES,
    common_refinement,
    finest_partition,
    slices,
)

SHAPE = (6, 8)


def cut(dim: int, parts: int) -> list[Box]:
    box, extent = full(SHAPE), SHAPE[dim]
    spans = [Span(extent * i // parts, extent * (i + 1) // parts) for i in range(parts)]
    return [(*box[:dim], span, *box[dim + 1 :]) for span in spans]


@given(st.integers(0, 1), st.integers(1, 5), st.integers(0, 1), st.integers(1, 5), st.integers(1, 48))
def test_parts_are_what_is_made_and_taken_at_once(
    made_dim: int, made: int, read_dim: int, read: int, least: int
) -> None:
    writes, reads = cut(made_dim, made), cut(read_dim, read)
    # Several readers may need the same.
    found = finest_partition(writes, [*reads, *reads], least)
    both = [intersect(w, r) for w in writes for r in reads if overlap(w, r)]
    ways = [way for way in (both, reads, writes) if len(way) <= MOST_BLOCKS and min(map(volume, way)) >= least]
    assert len(found) == max(map(len, ways), default=0)
    if found:
        assert found in ways
        assert sum(map(volume, found)) == volume(full(SHAPE))
        assert not any(overlap(a, b) for a, b in combinations(found, 2))


def test_what_does_not_divide_is_whole() -> None:
    rows = cut(0, 3)
    halo = [(Span(0, 3), Span(0, 8)), (Span(2, 6), Span(0, 8))]
    assert finest_partition(rows, halo, 1) == []
    assert finest_partition(halo, rows, 1) == []
    # A part that nobody reads would lie nowhere.
    assert finest_partition(rows, rows[:2], 1) == []
    assert finest_partition(rows, [(Span(i, i + 1), Span(j, j + 1)) for i in range(6) for j in range(8)], 1) == []
    assert MOST_BLOCKS < 48


BOXES = st.tuples(*(st.tuples(st.integers(0, e - 1), st.integers(1, e)) for e in SHAPE)).map(
    lambda corners: tuple(Span(lo, max(lo + 1, hi)) for lo, hi in corners)
)


@given(st.lists(BOXES, min_size=1, max_size=4))
def test_atoms_make_up_each_box(reads: list[Box]) -> None:
    found = common_refinement(reads)
    assert len(set(found)) == len(found)
    assert not any(overlap(a, b) for a, b in combinations(found, 2))
    for box in reads:
        assert sum(volume(part) for part in found if contains(box, part)) == volume(box)
    # None is there for what nobody reads, nor in part.
    assert all(contains(box, part) for part in found for box in reads if overlap(box, part))
    assert all(any(contains(box, part) for box in reads) for part in found)


def test_halos_are_parts_of_their_own() -> None:
    top, bottom = (Span(0, 4), Span(0, 8)), (Span(3, 6), Span(0, 8))
    assert common_refinement([top, bottom, top]) == [(Span(a, b), Span(0, 8)) for a, b in ((0, 3), (3, 4), (4, 6))]
    many = [(Span(i, i + 1), Span(0, 8)) for i in range(MOST_READ_BOXES + 1)]
    assert len(common_refinement(many[:-1])) == MOST_READ_BOXES and common_refinement(many) == []


@given(BOXES, st.integers(1, 50))
def test_slices_are_small_enough(box: Box, most: int) -> None:
    found = slices(box, most)
    assert sum(map(volume, found)) == volume(box)
    assert not any(overlap(a, b) for a, b in combinations(found, 2))
    assert all(volume(part) <= most or part[0].size == 1 for part in found)
    assert all(contains(box, part) for part in found)
