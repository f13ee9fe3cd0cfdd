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
    assert window.lane is None or all(not g.coeffs[window.lane] for g in nest.guards)
    inside = [nest.extents[a] for a in (*window.row.loops, *window.column.loops)]
    along = 1 if window.lane is None else nest.extents[window.lane]
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
    """Rows of 10 x 64, 3 x 3 taps, a guard on both dimensions: images are walked, the rest is one instruction."""
    guards = (Dimension((0, 1, 0, 0, 1, 0), -1, 12, 640), Dimension((0, 0, 1, 0, 0, 1), -1, 10, 64))
    nest = Combination(
        (2, 12, 10, 64, 3, 3), (7680, 640, 64, 1, 0, 0), (7680, 640, 64, 1, 640, 64), (0, 0, 0, 1, 192, 64), guards
    )
    answer = found(nest)
    assert answer is not None
    row, column = Slot(1, 4, 1, 1, 640, 0), Slot(2, 5, 1, 1, 64, 1)
    assert answer.form == WindowForm(2 * (16 + 120 * 9), 2, row, column, 3)


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


def test_few_channels_leave_the_lanes_to_the_width() -> None:
    """3 x 3 windows on 28 x 112 positions of 32 channels: half of the 64 lanes, or 55 of them."""
    width, channels = 112, 32
    nest = Combination(
        (28, width, channels, 3, 3),
        (width * channels, channels, 1, 0, 0),
        (width * channels, channels, 1, width * channels, channels),
        (0, 0, 1, 3 * channels, channels),
        (Dimension((1, 0, 0, 1, 0), -1, 28, width * channels), Dimension((0, 1, 0, 0, 1), -1, width, channels)),
    )
    whole, parts = found(nest), parts_of(nest)
    assert whole is not None and whole.form.lane == 2
    assert (parts[0].only, parts[0].form.lane) == ((1, Span(1, 111)), 1)
    assert sum(p.form.busy for p in parts) < 0.65 * whole.form.busy
    # With as many channels as lanes there is nothing to gain.
    wide = replace(nest, extents=(28, width, 64, 3, 3))
    assert [p.only for p in parts_of(wide)] == [None]
