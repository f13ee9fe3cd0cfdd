"""Orders of the instances of segments: each is one that the data allow."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from girih.ir.box import Box, Span, is_empty, overlap
from girih.ir.graph import Graph
from girih.ir.plan import Plan, Segment, Split, Step
from girih.ir.semantics.cell import Cells, count
from girih.solver.subproblem.step_order import (
    Writes,
    depth_first,
    groups_of,
    order_like,
    orders,
    segment_by_segment,
)
from tests.support import graphs


def falling(parts: tuple[int, ...]) -> tuple[Graph, tuple[Segment, ...]]:
    """A chain of convolutions, one a segment, with so many instances by image."""
    graph = graphs.chain(len(parts), batch=max(parts))
    return graph, tuple(
        Segment((op.name,), (Split(0, n),) if n > 1 else (), (), ()) for op, n in zip(graph.ops, parts, strict=True)
    )


def plan_of(graph: Graph, segments: tuple[Segment, ...]) -> Plan:
    """A plan of which nothing is known but its segments."""
    return Plan("solver", "", graph.digest, 0, segments, (), (), (), (), (), (), False, 0, 0, "", (), ())


def names(order: tuple[Step, ...]) -> str:
    return "".join("abcdefgh"[s.segment] for s in order)


def test_segment_by_segment_and_depth_first_are_tried() -> None:
    graph, segments = falling((8, 4, 2, 1))
    assert [names(order) for order in orders(graph, Cells(graph), segments)] == ["aaaaaaaabbbbccd", "aabaabcaabaabcd"]


def test_equal_orders_are_tried_once() -> None:
    graph, segments = falling((1, 1))
    cells = Cells(graph)
    assert orders(graph, cells, segments) == (depth_first(graph, cells, segments),)


def test_a_changed_plan_keeps_the_kind_of_its_order() -> None:
    (graph, before), (_, after) = falling((8, 4, 2, 1)), falling((4, 2, 2, 1))
    cells = Cells(graph)
    first, second = orders(graph, cells, before)
    assert (first, second) == (segment_by_segment(before), depth_first(graph, cells, before))
    empty = plan_of(graph, before)
    assert order_like(graph, cells, replace(empty, steps=first), after) == segment_by_segment(after)
    assert order_like(graph, cells, replace(empty, steps=second), after) == depth_first(graph, cells, after)
    assert order_like(graph, cells, replace(empty, steps=first[::-1]), after) is None, "of no kind"
    groups = (0, 1, 1, 2)
    third = depth_first(graph, cells, before, groups)
    assert third not in (first, second)
    assert order_like(graph, cells, replace(empty, steps=third), after) == depth_first(graph, cells, after, groups)
    (_, single) = falling((1, 1, 1, 1))
    both = replace(plan_of(graph, single), steps=segment_by_segment(single))
    assert order_like(graph, cells, both, after) is None, "of both kinds"


def test_segments_take_turns_in_groups() -> None:
    graph, segments = falling((8, 4, 2, 1))
    cells = Cells(graph)
    assert names(depth_first(graph, cells, segments, (0, 1, 1, 2))) == "aaaaaaaabbcbbcd"
    assert depth_first(graph, cells, segments, (0, 1, 2, 3)) == segment_by_segment(segments)
    assert depth_first(graph, cells, segments, (0, 0, 0, 0)) == depth_first(graph, cells, segments)


@given(st.lists(st.sampled_from((1, 2, 4, 8)), min_size=1, max_size=6), st.lists(st.booleans(), min_size=5, max_size=5))
def test_groups_are_read_from_an_order(parts: list[int], ends: list[bool]) -> None:
    """Those that are read make the same order; they divide no others than segments that do not take turns anyway."""
    graph, segments = falling(tuple(parts))
    cells = Cells(graph)
    groups = tuple(accumulate(ends[: len(parts) - 1], initial=0))
    plan = replace(plan_of(graph, segments), steps=depth_first(graph, cells, segments, groups))
    assert depth_first(graph, cells, segments, groups_of(plan)) == plan.steps
    borders = zip(pairwise(groups), pairwise(groups_of(plan)), strict=True)
    assert all(read[0] < read[1] for requested, read in borders if requested[0] < requested[1])


@pytest.mark.parametrize("parts", [(8, 4, 2, 1), (6, 3, 2), (5, 4, 3, 1), (2, 8, 1), (7, 2, 4, 1), (1, 1)])
def test_every_step_comes_once_and_after_what_it_reads(parts: tuple[int, ...]) -> None:
    graph, segments = falling(parts)
    cells = Cells(graph)
    in_groups = depth_first(graph, cells, segments, [number // 2 for number in range(len(segments))])
    for order in (*orders(graph, cells, segments), in_groups):
        assert sorted((s.segment, s.instance) for s in order) == sorted(
            (i, n) for i, segment in enumerate(segments) for n in range(count(segment.instances))
        )
        for position, step in enumerate(order):
            name = graph.ops[step.segment - 1].output
            need = cells.cell(segments[step.segment], step.instance, 0).tensors[name] if step.segment else ()
            for late in order[position + 1 :]:
                if need and late.segment == step.segment - 1:
                    made = cells.cell(segments[late.segment], late.instance, 0).owned[name]
                    assert is_empty(made) or not overlap(made, need)


boxes = st.tuples(*(st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda s: Span(*s)) for _ in range(2)))


@given(st.lists(boxes | st.none(), max_size=6), boxes | st.none())
def test_a_reader_comes_after_all_that_write_some_of_what_it_reads(writes: list[Box | None], box: Box | None) -> None:
    written = Writes()
    for instance, part in enumerate(writes):
        written.add(Step(0, instance), part)
        written.met(box)
    expected = [n for n, part in enumerate(writes) if box is None or part is None or overlap(part, box)]
    assert sorted(step.instance for step in written.met(box)) == expected
