"""Which parts of a result are decided one by one."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from girih.ir.box import Box, Span, full, intersect, overlap, volume
from girih.solver.pieces import MOST_PARTS, divided

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
    found = divided(writes, [*reads, *reads], least)
    both = [intersect(w, r) for w in writes for r in reads if overlap(w, r)]
    ways = [way for way in (both, reads, writes) if len(way) <= MOST_PARTS and min(map(volume, way)) >= least]
    assert len(found) == max(map(len, ways), default=0)
    if found:
        assert found in ways
        assert sum(map(volume, found)) == volume(full(SHAPE))
        assert not any(overlap(a, b) for a, b in combinations(found, 2))


def test_what_does_not_divide_is_whole() -> None:
    rows = cut(0, 3)
    halo = [(Span(0, 3), Span(0, 8)), (Span(2, 6), Span(0, 8))]
    assert divided(rows, halo, 1) == []
    assert divided(halo, rows, 1) == []
    # A part that nobody reads would lie nowhere.
    assert divided(rows, rows[:2], 1) == []
    assert divided(rows, [(Span(i, i + 1), Span(j, j + 1)) for i in range(6) for j in range(8)], 1) == []
    assert MOST_PARTS < 48
