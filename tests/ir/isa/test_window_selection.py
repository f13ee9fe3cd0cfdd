"""Loops given to window instructions, against walking them one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from girih.ir.box import Span
from girih.ir.isa.loop_bounds import Dimension, in_bounds
from girih.ir.isa.timing import vector_body
from girih.ir.isa.window_selection import (
    Combination,
    Slot,
    WindowForm,
    WindowPart,
    cheapest,
    cheapest_parts,
    overwrites,
)
from girih.ir.load_machine import load_machine

VME = load_machine("stcp920").engine["VME"]
FOREVER = 1 << 60


@st.composite
def nests(draw: st.DrawFn) -> tuple[Combination, list[bool]]:
    """Loops over a source of two dimensions and channels, some dimensions guarded; and which loops are reduced."""
    count = draw(st.integers(1, 6))
    extents = tuple(draw(st.integers(2, 5)) for _ in range(count))
    reduced = [draw(st.booleans()) for _ in range(count)]
    home = [draw(st.integers(0, 2)) for _ in range(count)]
    coeffs = [draw(st.sampled_from([1, 1, 2, 3, -1])) for _ in range(count)]
    pitches = (640, 16, 1)
    source = tuple(c * pitches[d] for c, d in zip(coeffs, home, strict=True))
    target = tuple(0 if r else 1 << (3 * a) for a, r in enumerate(reduced))
    factor = draw(st.sampled_from([None, tuple(draw(st.integers(0, 2)) for _ in range(count))]))
    guards = tuple(
        Dimension(tuple(c if h == d else 0 for c, h in zip(coeffs, home, strict=True)), draw(st.integers(-3, 3)), bound, pitch)
        for d, (pitch, bound) in enumerate(zip(pitches[:2], (draw(st.integers(1, 9)), draw(st.integers(1, 9))), strict=True))
        if draw(st.booleans()) and d in home
    )  # fmt: skip
    return Combination(extents, target, source, factor, guards), reduced


def found(nest: Combination, below: int = FOREVER) -> WindowPart | None:
    reads = (nest.source,) if nest.factor is None else (nest.source, nest.factor)
    guards = (nest.guards, ())[: len(reads)]
    return cheapest(VME, nest.extents, guards, (nest.target, *reads), ["float16"] * len(reads), below)


@settings(deadline=None)
@given(nests())
def test_an_instruction_walks_what_its_loops_do(case: tuple[Combination, list[bool]]) -> None:
    answer = found(case[0])
    if answer is None:
        return
    nest, window = answer.nest, answer.form
    assert len(set(window.loops)) == len(window.loops)
    for slot in (window.row, window.column):
        assert slot.out is None or nest.target[slot.out]
        assert slot.kernel is None or not nest.target[slot.kernel]
        assert slot.out is None or nest.factor is None or not nest.factor[slot.out]
        for loop, step in ((slot.out, slot.stride), (slot.kernel, slot.dilation)):
            assert loop is None or (step > 0 and nest.source[loop] == step * slot.pitch)
            # What decides about bounds inside an instruction is known to it, and in one dimension.
            owners = [n for n, g in enumerate(nest.guards) if loop is not None and g.coeffs[loop]]
            assert loop is None or owners == ([] if slot.guard is None else [slot.guard])
        if slot.out is not None and slot.kernel is not None and slot.guard is None:
            # What an instruction may touch between the positions that it visits is not there.
            steps = product(range(nest.extents[slot.out]), range(nest.extents[slot.kernel]))
            seen = {i * slot.stride + j * slot.dilation for i, j in steps}
            assert seen == set(range(max(seen) + 1))
    lanes = [a for a in (window.lane, window.beside) if a is not None]
    assert all(nest.target[a] and not g.coeffs[a] for a in lanes for g in nest.guards)
    # Positions beside one another have the same weights, and channels have their own.
    beside = window.beside
    if beside is not None:
        assert window.lane is not None and all(nest.source[a] for a in lanes)
        assert nest.factor is None or (nest.factor[window.lane] and not nest.factor[beside])
    inside = [nest.extents[a] for a in (*window.row.loops, *window.column.loops)]
    along = prod(nest.extents[a] for a in lanes)
    assert window.instructions == prod(nest.extents) // (prod(inside) * along)
    one = VME.issue + vector_body(VME, (prod(inside), along), "float16")
    assert window.busy == window.instructions * one


@settings(deadline=None)
@given(nests())
def test_what_is_not_cheaper_is_not_taken(case: tuple[Combination, list[bool]]) -> None:
    answer = found(case[0])
    if answer is not None:
        assert found(case[0], answer.form.busy) is None
        assert found(case[0], answer.form.busy + 1) is not None


@settings(deadline=None)
@given(nests(), st.sampled_from(["sum", "max"]))
def test_only_what_sees_something_everywhere_overwrites(case: tuple[Combination, list[bool]], combine: str) -> None:
    answer = found(case[0])
    if answer is None or not overwrites(answer, combine) or combine == "sum":
        return
    nest, window = answer.nest, answer.form
    kernel = [a for a in (window.row.kernel, window.column.kernel) if a is not None]
    points = [range(1) if a in kernel else range(e) for a, e in enumerate(nest.extents)]
    for point in product(*points):
        taps = product(*(range(e) if a in kernel else [point[a]] for a, e in enumerate(nest.extents)))
        assert any(all(inside(g, tap) for g in nest.guards) for tap in taps)


def inside(guard: Dimension, point: tuple[int, ...]) -> bool:
    return 0 <= guard.const + sum(c * i for c, i in zip(guard.coeffs, point, strict=True)) < guard.bound


@settings(deadline=None)
@given(nests())
def test_loops_are_cut_to_what_is_in_bounds(case: tuple[Combination, list[bool]]) -> None:
    nest, reduced = case
    spans = in_bounds(nest.extents, reduced, nest.guards)
    points = list(product(*(range(e) for e in nest.extents)))
    useful = [p for p in points if all(inside(g, p) for g in nest.guards)]
    assert all(s.lo <= i < s.hi for p in useful for s, i in zip(spans, p, strict=True))
    for a, span in enumerate(spans):
        assert span == Span(0, 0) or 0 <= span.lo < span.hi <= nest.extents[a]


def test_loops_that_decide_together_are_cut_only_where_they_are_reduced() -> None:
    # i + k - 2 in [0, 4), i below 4 and k below 9: k >= 6 finds nothing, i is left alone.
    assert in_bounds((4, 9), (False, True), [Dimension((1, 1), -2, 4, 1)]) == (Span(0, 4), Span(0, 6))
    # Alone, i is cut as well: 2 * i - 3 in [0, 4).
    assert in_bounds((9,), (False,), [Dimension((2,), -3, 4, 1)]) == (Span(2, 4),)
    assert in_bounds((9,), (False,), [Dimension((-2,), 5, 4, 1)]) == (Span(1, 3),)


def test_a_depthwise_convolution() -> None:
    """Rows of 10 x 64, 3 x 3 taps, a guard on both dimensions: two images beside one another are one instruction."""
    guards = (Dimension((0, 1, 0, 0, 1, 0), -1, 12, 640), Dimension((0, 0, 1, 0, 0, 1), -1, 10, 64))
    nest = Combination(
        (2, 12, 10, 64, 3, 3), (7680, 640, 64, 1, 0, 0), (7680, 640, 64, 1, 640, 64), (0, 0, 0, 1, 192, 64), guards
    )
    answer = found(nest)
    assert answer is not None
    row, column = Slot(1, 4, 1, 1, 640, 0), Slot(2, 5, 1, 1, 64, 1)
    assert answer.form == WindowForm(16 + 2 * 120 * 9, 1, row, column, 3, 0)


def parts_of(nest: Combination) -> tuple[WindowPart, ...]:
    reads = (nest.source,) if nest.factor is None else (nest.source, nest.factor)
    guards = (nest.guards, ())[: len(reads)]
    return cheapest_parts(VME, nest.extents, (nest.target, *reads), guards, ["float16"] * len(reads), FOREVER)


@settings(deadline=None)
@given(nests())
def test_parts_are_the_whole_and_cost_less(case: tuple[Combination, list[bool]]) -> None:
    whole, parts = found(case[0]), parts_of(case[0])
    if whole is None:
        assert parts == () or len(parts) > 1
        return
    if len(parts) == 1:
        assert parts == (whole,)
        return
    assert sum(p.form.busy for p in parts) < whole.form.busy
    loops = {p.only[0] for p in parts if p.only is not None}
    spans = sorted(p.only[1] for p in parts if p.only is not None)
    assert len(loops) == 1 and len(spans) == len(parts)
    (loop,) = loops
    assert [i for span in spans for i in range(*span)] == list(range(case[0].extents[loop]))
    for part in parts:
        assert part.only is not None
        ranges = [range(e) for e in case[0].extents]
        ranges[loop] = range(*part.only[1])
        nest = part.nest
        for point in product(*ranges):
            here = tuple(v - part.only[1].lo * (a == loop) for a, v in enumerate(point))
            assert all(inside(g, here) for g in nest.guards) == all(inside(g, point) for g in case[0].guards)


def padded(rows: int, width: int, channels: int, stride: int) -> Combination:
    """3 x 3 windows on so many outputs of a dense feature map, with a position of padding on every side."""
    across = width * stride * channels
    return Combination(
        (rows, width, channels, 3, 3),
        (width * channels, channels, 1, 0, 0),
        (stride * across, stride * channels, 1, across, channels),
        (0, 0, 1, 3 * channels, channels),
        (
            Dimension((stride, 0, 0, 1, 0), -1, rows * stride, across),
            Dimension((0, stride, 0, 0, 1), -1, width * stride, channels),
        ),
    )


def test_few_channels_share_the_lanes_with_the_width() -> None:
    """Of 64 lanes, 32 channels fill half; 110 positions that see no padding take 55 steps with all channels each."""
    nest = padded(28, 112, 32, 1)
    whole, parts = found(nest), parts_of(nest)
    assert whole is not None and (whole.form.lane, whole.form.beside) == (2, None)
    assert [(p.only, p.form.lane, p.form.beside) for p in parts] == [
        ((1, Span(1, 111)), 2, 1), ((1, Span(0, 1)), 2, None), ((1, Span(111, 112)), 2, None)
    ]  # fmt: skip
    assert [p.form.busy for p in parts] == [16 + 28 * 9 * 55, 16 + 28 * 9, 16 + 28 * 9]
    # With as many channels as lanes there is nothing to gain.
    assert [p.only for p in parts_of(padded(28, 112, 64, 1))] == [None]


def test_positions_beside_one_another_need_not_touch() -> None:
    """With a stride of 2, 96 channels of 55 positions take 83 steps of 64 lanes instead of 110; one sees padding."""
    parts = parts_of(padded(4, 56, 96, 2))
    assert [p.form.busy for p in parts] == [16 + 4 * 9 * 83, 16 + 4 * 9 * 2]
    assert [(p.only, p.form.beside) for p in parts] == [((1, Span(1, 56)), 1), ((1, Span(0, 1)), None)]


def test_products_of_matrices_share_no_lanes() -> None:
    """Rows of one factor and columns of the other: along the lanes, an element of one is the same for several."""
    rows, columns, products = 16, 32, 8
    left, right = (products, 0, 1), (0, 1, columns)
    parts = cheapest_parts(
        VME, (rows, columns, products), ((columns, 1, 0), left, right), ((), ()), ["float16"] * 2, FOREVER
    )
    assert [p.form.beside for p in parts] == [None]


def test_without_padding_all_is_one_instruction() -> None:
    nest = replace(padded(4, 56, 96, 2), guards=())
    (whole,) = parts_of(nest)
    # All 4 x 56 positions, at full lanes: 96 channels beside one another for 56 columns.
    assert (whole.form.instructions, whole.form.busy) == (1, 16 + 4 * 9 * 84)
