"""Tiles of weights are as wide as the bursts of the link that they come through."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from girih.ir.box import Span, full
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.semantics.region import op_boxes
from girih.solver.cost.operator import OpCost, Rates, Weights, estimate
from girih.solver.tiling.solve import Choice, Tiler
from tests.support import graphs

TINY = load_machine("tiny")


def with_burst(burst: int) -> Machine:
    source = TINY.levels.exchange.name
    return replace(TINY, links=tuple(replace(x, burst=burst) if x.memory == source else x for x in TINY.links))


@pytest.mark.parametrize(("columns", "points", "bytes_"), [(8, 64, 64 * 128), (96, 64, 64 * 256), (256, 64, 64 * 512)])
def test_rows_cross_a_link_in_whole_bursts(columns: int, points: int, bytes_: int) -> None:
    graph = graphs.matmul(m=4, k=64, n=256)
    op = next(op for op in graph.ops if op.contraction is not None)
    cost, rates = OpCost(op, graph, TINY), replace(Rates.from_machine(TINY), burst=128)
    size, row = columns * points * cost.element, columns * cost.element
    assert cost.element == 2
    found = cost.in_bursts(np.array([float(size)]), np.array([float(row)]), rates)
    assert found.tolist() == [bytes_]


def test_a_wide_tile_is_chosen_where_bursts_are_long() -> None:
    graph = graphs.matmul(m=1, k=512, n=512)
    op = next(op for op in graph.ops if op.contraction is not None)

    def row(machine: Machine) -> int:
        choice = Tiler(graph, machine).tile(op, [full(graph.tensor[op.output].shape)], Weights())
        assert isinstance(choice, Choice)
        return choice.tile.sizes[-1] * 2

    assert row(with_burst(512)) >= 256 > row(with_burst(4))


def test_an_estimate_counts_bursts_of_columns_that_a_core_has() -> None:
    graph = graphs.matmul(m=1, k=512, n=512)
    op = next(op for op in graph.ops if op.contraction is not None)
    cost = OpCost(op, graph, TINY)

    def cycles(columns: int, burst: int) -> int:
        box = (Span(0, 1), Span(0, columns))
        part = op_boxes(op, graph.tensor, box)
        return estimate(
            cost, cost.work(part, part.tensors), part, Weights(), replace(Rates.from_machine(TINY), burst=burst)
        )

    assert cycles(512, 4) == cycles(512, 1024) == cycles(512, 4096)
    assert cycles(8, 4) == cycles(8, 16) < cycles(8, 1024) < cycles(8, 4096)
