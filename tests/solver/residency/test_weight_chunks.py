"""Weights on their way to the matrix engine: where they are cut, and what passes through a circular buffer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from girih.ir.box import Box, Span
from girih.ir.graph import Tensor
from girih.ir.load_machine import load_machine
from girih.ir.semantics.box_arrays import Boxes, stack
from girih.ir.semantics.cell import Cells
from girih.solver.residency.partition.weight_chunks import (
    StationaryWalk,
    burst_traffic,
    circular_buffer,
    cut_points,
    first_use,
    split_at,
    weight_chunks,
)
from girih.solver.residency.problem import residency_problem
from tests.support.graphs import residual
from tests.support.plans.rough_plans import in_order, rough_cycles, rough_segments

STCP = load_machine("stcp920")


def walk(*spans: tuple[int, int], start: list[int] | None = None) -> StationaryWalk:
    boxes: Boxes = stack([(Span(0, 4), Span(*s)) for s in spans], 2)
    begins = np.array(start or list(range(len(spans))), dtype=np.int64)
    return StationaryWalk(boxes, begins, int(begins[-1]) + 1)


def test_cuts_are_where_no_tile_crosses() -> None:
    walks = [walk((0, 4), (4, 8), (8, 12)), walk((0, 6), (6, 12))]
    assert cut_points(walks[:1], 1, Span(0, 12)) == [0, 4, 8, 12]
    assert cut_points(walks, 1, Span(0, 12)) == [0, 12]
    assert cut_points(walks[:1], 0, Span(0, 4)) == [0, 4]
    box = (Span(0, 4), Span(0, 12))
    assert [c[1] for c in split_at(box, 1, [0, 4, 8, 12], 32)] == [Span(0, 8), Span(8, 12)]
    assert [c[1] for c in split_at(box, 1, [0, 4, 8, 12], 8)] == [Span(0, 4), Span(4, 8), Span(8, 12)]
    assert split_at(box, 1, [0, 12], 8) == [box]


def test_columns_are_put_together_to_whole_bursts() -> None:
    """Where the narrower columns of integers would take twice the time; those of float16 fill a burst by themselves."""
    tiles = walk(*((n, n + 32) for n in range(0, 128, 32)))

    def columns(dtype: str, burst: int) -> list[int]:
        return [box[1].size for box in weight_chunks(Tensor("w", (4, 128), dtype), [tiles], 4 * 32, burst)]

    assert columns("int8", 1) == columns("int8", 32) == [32, 32, 32, 32]
    assert columns("int8", 64) == [64, 64]
    assert columns("float16", 64) == [32, 32, 32, 32]
    assert columns("int8", 128) == [32, 32, 32, 32], "one chunk would be the whole operand"
    assert burst_traffic(Tensor("w", (4, 128), "int8"), (Span(0, 4), Span(0, 32)), 64) == 4 * 64
    assert burst_traffic(Tensor("w", (4, 128), "int8"), (Span(0, 4), Span(0, 128)), 64) == 4 * 128


def test_instances_that_share_a_walk_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each walk is looked at once, though every instance of a segment has it."""
    looked_at: list[Sequence[StationaryWalk]] = []

    def noted(tensor: Tensor, walks: Sequence[StationaryWalk], limit: int, burst: int = 1) -> list[Box]:
        looked_at.append(walks)
        return weight_chunks(tensor, walks, limit, burst)

    monkeypatch.setattr("girih.solver.residency.problem.weight_chunks", noted)
    graph = residual(2, batch=4, size=16)
    cells = Cells(graph)
    segments = rough_segments(graph, STCP, group=1, instances=4)
    steps = in_order(segments)
    residency_problem(graph, cells, STCP, segments, steps, rough_cycles(graph, segments, steps, cells))
    assert len(steps) == 4 * len(segments) and looked_at
    assert all(len({id(walk) for walk in walks}) == len(walks) for walks in looked_at)


def test_first_use() -> None:
    stationary = walk((0, 4), (4, 8), (8, 12), (0, 4))
    assert first_use(stationary, (Span(0, 4), Span(4, 12))) == 0.25
    assert first_use(stationary, (Span(0, 4), Span(12, 16))) is None


def test_circular_buffer_of_cores_side_by_side() -> None:
    tensor = Tensor("w", (4, 12), "int8")
    left, right = walk((0, 2), (2, 4), (4, 6)), walk((6, 8), (8, 10), (10, 12))
    held = circular_buffer(tensor, [left, right], 16)
    assert held is not None and (held.ring_positions, held.bytes, held.traffic) == (3, 32, 48)
    assert [(v.ring_position, v.part) for v in held.chunks] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert [v.box[1] for v in held.chunks][:2] == [Span(0, 2), Span(6, 8)]
    again = circular_buffer(tensor, [walk((0, 6), (6, 12), (0, 6))], 16)
    assert again is None, "a chunk that is needed again cannot be in a circular buffer"
    late = walk((0, 2), (2, 4), (4, 6), start=[0, 2, 4])
    assert circular_buffer(tensor, [left, left], 8) is not None
    assert circular_buffer(tensor, [left, late], 8) is None, "cores must go on together"


@pytest.mark.parametrize(("length", "fits"), [(1, True), (2, False), (3, False)])
def test_a_core_with_fewer_positions_is_done_when_the_others_go_on(length: int, fits: bool) -> None:
    """It may read what it holds no longer than until others begin a position that it does not have."""
    tensor = Tensor("w", (4, 12), "int8")
    long = walk((0, 2), (2, 4), (4, 6))
    short = dataclasses.replace(walk((6, 8)), length=length)
    assert (circular_buffer(tensor, [long, short], 16) is not None) == fits
