"""Orders for segmentations with groups of segments: depth first inside of each group, and all depth first."""

from __future__ import annotations

import pytest

from girih.ir.graph import Graph
from girih.ir.plan import Segment, Split, Step
from girih.ir.semantics.cell import Cells
from girih.solver.subproblem.step_order import depth_first, orders, segment_by_segment
from tests.support import graphs


def in_parts(*parts: int) -> tuple[Graph, tuple[Segment, ...]]:
    """A chain of convolutions, one a segment, with so many instances by image."""
    graph = graphs.chain(len(parts), batch=max(parts), size=4, channels=4)
    return graph, tuple(
        Segment((op.name,), (Split(0, n),) if n > 1 else (), (), ()) for op, n in zip(graph.ops, parts, strict=True)
    )


def letters(order: tuple[Step, ...]) -> str:
    return " ".join(f"{'abcdefgh'[s.segment]}{s.instance + 1}" for s in order)


@pytest.mark.parametrize(
    ("parts", "groups", "expected"),
    [
        ((4, 4, 2), (0, 0, 0), "a1 b1 a2 b2 c1 a3 b3 a4 b4 c2"),
        ((4, 4, 2), (0, 0, 1), "a1 b1 a2 b2 a3 b3 a4 b4 c1 c2"),
        ((4, 4, 2), (0, 1, 1), "a1 a2 a3 a4 b1 b2 c1 b3 b4 c2"),
        ((4, 4, 2), (0, 1, 2), "a1 a2 a3 a4 b1 b2 b3 b4 c1 c2"),
        ((2, 2, 2, 2), (0, 0, 1, 1), "a1 b1 a2 b2 c1 d1 c2 d2"),
    ],
)
def test_the_first_order_is_depth_first_in_groups(
    parts: tuple[int, ...], groups: tuple[int, ...], expected: str
) -> None:
    graph, segments = in_parts(*parts)
    cells = Cells(graph)
    chosen = orders(graph, cells, segments, groups=groups)
    assert letters(chosen[0]) == expected
    assert chosen[0] == depth_first(graph, cells, segments, groups)
    # A group ends before the next one begins.
    numbers = [groups[step.segment] for step in chosen[0]]
    assert numbers == sorted(numbers)
    whole = depth_first(graph, cells, segments)
    assert chosen == ((whole,) if whole == chosen[0] else (chosen[0], whole))
    assert all(
        sorted(order, key=lambda s: (s.segment, s.instance)) == list(segment_by_segment(segments)) for order in chosen
    )


@pytest.mark.parametrize("groups", [(0, 0, 0), (0, 0, 1), (0, 1, 1), ()])
def test_without_orders_of_steps_only_that_of_the_groups_is_left(groups: tuple[int, ...]) -> None:
    graph, segments = in_parts(4, 4, 2)
    cells = Cells(graph)
    (only,) = orders(graph, cells, segments, frozenset({"step-orders"}), groups)
    assert only == (depth_first(graph, cells, segments, groups) if groups else segment_by_segment(segments))


def test_without_groups_segments_run_one_by_one_at_first() -> None:
    graph, segments = in_parts(4, 4, 2)
    cells = Cells(graph)
    assert orders(graph, cells, segments) == (segment_by_segment(segments), depth_first(graph, cells, segments))
