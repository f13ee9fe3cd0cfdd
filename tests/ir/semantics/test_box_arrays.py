"""Arrays of boxes against one box at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product

import pytest

from girih.ir.box import Affine, Box, Span, contains, full, is_empty
from girih.ir.graph import Access, Axis, Graph, Op, Stage, Tensor
from girih.ir.semantics.box_arrays import (
    Boxes,
    SortedBoxes,
    beyond_many,
    op_boxes_many,
    stack,
    stationary_walk,
    tile_walk,
)
from girih.ir.semantics.cell import tile_boxes
from girih.ir.semantics.region import accessed, beyond, op_boxes
from tests.support.graphs import attention, conv, residual


def _some(rng: random.Random, shape: tuple[int, ...]) -> Box:
    spans: list[Span] = []
    for extent in shape:
        lo = rng.randrange(extent)
        spans.append(Span(lo, rng.randint(lo + 1, extent)))
    return tuple(spans)


@pytest.mark.parametrize("make", [conv, residual, attention])
def test_regions_agree_with_the_scalar_ones(make: Callable[[], Graph]) -> None:
    graph = make()
    rng = random.Random(1)
    for op in graph.ops:
        _compare(op, graph.tensor, [_some(rng, graph.tensor[op.output].shape) for _ in range(40)])


def _compare(op: Op, tensors: dict[str, Tensor], targets: list[Box]) -> None:
    points, boxes = op_boxes_many(op, tensors, stack(targets, len(tensors[op.output].shape)))
    for i, target in enumerate(targets):
        one = op_boxes(op, tensors, target)
        for mine, theirs in zip(points, one.points, strict=True):
            assert mine.present[i] != is_empty(theirs)
            assert is_empty(theirs) or mine.box(i) == theirs
        for name, many in boxes.items():
            assert many.present[i] == (name in one.tensors)
            assert name not in one.tensors or many.box(i) == one.tensors[name]


def test_what_parts_see_of_padding_is_told_apart_as_by_the_scalar_one() -> None:
    graph = conv(size=9, kernel=5, stride=2)
    (op,) = graph.ops
    bounds = {"x": full(graph.tensor["x"].shape)}
    targets = [(Span(0, 1), Span(lo, hi), Span(1, 3), Span(0, 16)) for lo in range(5) for hi in range(lo + 1, 6)]
    points, _ = op_boxes_many(op, graph.tensor, stack(targets, 4))
    rows = [tuple(row) for row in beyond_many(op, points, bounds).tolist()]
    alone = [beyond(op, op_boxes(op, graph.tensor, target).points, bounds) for target in targets]
    assert len(set(rows)) == len(set(alone)) == len({*zip(rows, alone, strict=True)}) == 4
    for (_, (lo, hi), *_), seen in zip(targets, alone, strict=True):
        assert seen[2:4] == (2 if lo == 0 else 0, 2 if hi == 5 else 0)


@pytest.mark.parametrize("shape", [(7,), (5, 4), (1, 6, 3)])
def test_sorted_boxes_lie_where_each_of_them_does(shape: tuple[int, ...]) -> None:
    rng = random.Random(len(shape))
    for count in (0, 1, 3, 40):
        boxes = [_some(rng, shape) for _ in range(count)]
        ordered = SortedBoxes(stack(boxes, len(shape)))
        for outer in (*boxes, full(shape), *(_some(rng, shape) for _ in range(40))):
            inside = [number for number, box in enumerate(boxes) if contains(outer, box)]
            assert sorted(ordered.within(outer).tolist()) == inside


def test_mixed_radix_and_partial_writes() -> None:
    """A head-splitting copy, ``out[64h + d]`` and a concatenation whose second stage starts at 12."""
    split = Stage(
        (Axis("h", 4), Axis("d", 6)),
        Access("out", (Affine((6, 1)),)),
        "copy",
        (Access("x", (Affine((1, 0)), Affine((0, 1)))),),
    )
    join = [
        Stage((Axis("i", n),), Access("out", (Affine((1,), at),)), "copy", (Access(x, (Affine((1,)),)),))
        for x, n, at in (("a", 12, 0), ("b", 12, 12))
    ]
    tensors = {"x": Tensor("x", (4, 6), "float16"), "out": Tensor("out", (24,), "float16")}
    tensors |= {n: Tensor(n, (12,), "float16") for n in "ab"}
    targets: list[Box] = [(Span(lo, hi),) for lo in range(24) for hi in range(lo + 1, 25)]
    _compare(Op("split", (), ("x",), ("out",), (), (split,)), tensors, targets)
    _compare(Op("join", (), ("a", "b"), ("out",), (), tuple(join)), tensors, targets)


def test_all_writers_of_a_part_compute_the_same_box() -> None:
    """Rows of the left half are computed in pairs; those of the right half, one by one, follow."""
    left = Stage(
        (Axis("p", 3), Axis("q", 2), Axis("c", 4)),
        Access("out", (Affine((2, 1, 0)), Affine((0, 0, 1)))),
        "copy",
        (Access("a", (Affine((1, 0, 0)), Affine((0, 1, 0)), Affine((0, 0, 1)))),),
    )
    right = Stage(
        (Axis("r", 6), Axis("c", 4)),
        Access("out", (Affine((1, 0)), Affine((0, 1), 4))),
        "copy",
        (Access("b", (Affine((1, 0)), Affine((0, 1)))),),
    )
    tensors = {"a": Tensor("a", (3, 2, 4), "float16"), "b": Tensor("b", (6, 4), "float16")}
    tensors["out"] = Tensor("out", (6, 8), "float16")
    targets: list[Box] = [
        (Span(lo, hi), columns)
        for lo in range(6)
        for hi in range(lo + 1, 7)
        for columns in (Span(0, 4), Span(2, 6), Span(5, 8))
    ]
    for stages in ((left, right), (right, left)):
        op = Op("join", (), ("a", "b"), ("out",), (), stages)
        _compare(op, tensors, targets)
        for target in targets:
            part = op_boxes(op, tensors, target)
            assert part == op_boxes(op, tensors, part.tensors["out"])
    both = op_boxes(Op("join", (), ("a", "b"), ("out",), (), (left, right)), tensors, (Span(1, 4), Span(2, 6)))
    assert both.tensors["out"] == (Span(0, 4), Span(2, 6))
    assert both.tensors["b"] == (Span(0, 4), Span(0, 2))


def test_tile_walk_is_in_the_order_of_the_loops() -> None:
    box = (Span(3, 8), Span(0, 4), Span(1, 2))
    for sizes, order in product([(2, 3, 1), (5, 4, 1), (1, 1, 5)], [(0, 1, 2), (2, 1, 0), (1, 0, 2)]):
        walk = tile_walk(box, sizes, order)
        assert [walk.box(i) for i in range(len(walk))] == tile_boxes(box, sizes, order)


def test_stationary_walk() -> None:
    graph = conv(channels=12, out=20)
    (op,) = graph.ops
    assert op.contraction is not None
    stage = op.stages[op.contraction]
    targets = tile_walk(full(graph.tensor[op.output].shape), (1, 16, 16, 8), (0, 1, 3, 2))
    points, _ = op_boxes_many(op, graph.tensor, targets)
    walk = stationary_walk(op, graph.tensor, points[op.contraction], (3, 2, 8))
    assert len(walk) == 3 * 1 * 2 * 2
    expected: list[Box] = []
    for tile in tile_boxes(full(graph.tensor[op.output].shape), (1, 16, 16, 8), (0, 1, 3, 2)):
        there = op_boxes(op, graph.tensor, tile).points[op.contraction]
        for cut in tile_boxes(there[4:], (3, 2, 8), (0, 1, 2)):
            expected.append(accessed(stage.reads[1], (*there[:4], *cut), graph.tensor["conv.w"].shape))
    assert [walk.box(i) for i in range(len(walk))] == expected


def test_absent_boxes_hold_nothing() -> None:
    some: Boxes = stack([(Span(0, 2),), (Span(3, 3),)], 1)
    assert list(some.volumes) == [2, 0]
    assert some.hull() == (Span(0, 2),)
    assert stack([(Span(3, 3),)], 1).hull() is None
