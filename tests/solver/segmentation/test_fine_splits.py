"""Splits beyond powers of two, for operators that fit under none of those."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from girih.frontend import import_onnx
from girih.ir.errors import InfeasibleError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine, Role
from girih.ir.plan import Split
from girih.solver import plan
from girih.solver.baselines.layerwise import layerwise_segments
from girih.solver.options import Options, Strategy
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.splits import MOST_FINE_SPLITS, fine_splits, single_elements
from tests.support.graphs import Net, merged_heads
from tests.support.onnx_models import Model

TINY = load_machine("tiny")


def machine_with(role: Role, capacity: int) -> Machine:
    memories = tuple(replace(m, capacity=capacity) if TINY.use_of(m.name) == role else m for m in TINY.memories)
    return replace(TINY, memories=memories)


def test_the_fewest_instances_come_first_and_no_cell_is_empty() -> None:
    splits = fine_splits((6, 1, 20), 4)
    counts = [s.instance_count for s in splits]
    assert counts == sorted(counts) and counts[0] == 1 and counts[-1] == 6 * 20
    assert {s.instances for s in splits} >= {(Split(0, 3),), (Split(0, 6), Split(2, 5)), (Split(2, 20),)}
    assert {s.core_count for s in splits} >= {1, 4}
    for split in splits:
        parts = [prod(s.parts for s in (*split.instances, *split.cores) if s.dim == d) for d in range(3)]
        assert parts[0] <= 6 and parts[1] == 1 and parts[2] <= 20
    assert single_elements((6, 1, 20)).instances == (Split(0, 6), Split(2, 20))


def test_parts_that_touch_two_heads_are_not_the_last_word() -> None:
    """A part of the columns that touches two heads needs all columns of both: 80 KiB of the values."""
    graph, machine = merged_heads(), machine_with("local", 16384)
    candidates = Candidates(graph, machine)
    columns = candidates.ending(0)
    assert columns and any(candidates.exact_local_bytes(c) <= 16384 for c in columns)
    (segment,) = layerwise_segments(graph, machine)
    (cut,) = [s for s in segment.instances if s.dim == 1]
    assert cut.parts % 5 == 0, "the heads in turn"


@pytest.mark.parametrize("strategy", ["solver", "graphturbo", "layerwise"])
def test_heads_in_turn_make_a_plan(strategy: Strategy) -> None:
    graph = merged_heads(rows=16, heads=3, width=12)
    assert plan(graph, machine_with("local", 12288), Options(timeout=1.0, strategy=strategy)).plan.segments


def thin(dimensions: int) -> Graph:
    net = Net("thin", "float32")
    net.elementwise("op", "exp", net.input("x", *[2] * dimensions))
    return net.graph()


def test_more_than_two_dimensions_can_be_cut_into_instances() -> None:
    """Eight elements fit; two dimensions for the instances and one for the cores leave sixteen."""
    (segment,) = layerwise_segments(thin(7), machine_with("local", 32))
    assert len(segment.instances) == MOST_FINE_SPLITS == 3
    assert plan(thin(7), machine_with("local", 32), Options(timeout=1.0)).plan.segments


def test_single_elements_are_tried_at_last() -> None:
    """Three dimensions for the instances and one for the cores leave sixteen elements."""
    machine = machine_with("local", 32)
    (segment,) = layerwise_segments(thin(8), machine)
    assert prod(s.parts for s in segment.instances) == 2**8


def test_one_number_of_more_than_fits_is_refused() -> None:
    m = Model()
    graph = import_onnx(m.build(m.node("ReduceMax", m.input("x", 200, 100), keepdims=0)))
    with pytest.raises(InfeasibleError, match=r"buffers for one element of its result .* need 80,\d+ bytes of L1"):
        layerwise_segments(graph, machine_with("local", 4096))


def test_the_first_columns_are_kept_where_one_fits_in_all_cells() -> None:
    assert all(len(c.split.instances) <= 2 for c in Candidates(thin(4), TINY).columns())
