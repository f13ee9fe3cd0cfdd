"""Instances that have the same columns of weights in turn, where all weights have no room in shared memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Split
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.options import Options
from girih.solver.segmentation.batched_cells import batched_cells, representative_cells
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.column_cost import Column
from girih.solver.segmentation.splits import SegmentSplit, columns_first, instance_splits, segment_splits
from tests.support import graphs
from tests.support.cpsat import unhurried

TINY = load_machine("tiny")
NETWORK = graphs.conv(size=32, channels=64, out=96, kernel=3, dtype="float32")
"""216 KiB of weights; a core of `tiny` has room for a few rows of the input."""


def with_shared(capacity: int) -> Machine:
    """With a slow link to main memory, too."""
    shared, main = TINY.levels.exchange.name, TINY.levels.home.name
    return replace(
        TINY,
        memories=tuple(replace(m, capacity=capacity) if m.name == shared else m for m in TINY.memories),
        links=tuple(replace(x, bytes_per_cycle=1.0) if x.memory == main else x for x in TINY.links),
    )


def test_the_last_dimension_is_outside() -> None:
    shape = (1, 8, 8, 32)
    without, turned = (instance_splits(shape, 16, 4, columns=columns) for columns in (False, True))
    more = [splits for splits in turned if splits not in without]
    assert (Split(3, 4), Split(1, 4)) in more and (Split(3, 2), Split(2, 8)) in more
    assert all(columns_first(SegmentSplit(splits, ()), 4) == splits[0].parts > 1 for splits in more)
    assert all(columns_first(SegmentSplit(splits, ()), 4) == 1 for splits in without)
    assert all(splits[0].parts * splits[1].parts <= 16 for splits in more)


@pytest.mark.parametrize("columns", [False, True])
def test_with_two_others_the_last_is_inside_or_outside(columns: bool) -> None:
    shape = (1, 8, 8, 32)
    in_three = [s for s in instance_splits(shape, 16, 4, three=True, columns=columns) if len(s) == 3]
    assert not [s for s in instance_splits(shape, 16, 4, columns=columns) if len(s) == 3]
    assert {s for s in in_three if s[2].dim == 3} >= {(Split(1, 2), Split(2, 4), Split(3, 2))}
    assert ((Split(3, 2), Split(1, 4), Split(2, 2)) in in_three) == columns
    assert all(SegmentSplit(s, ()).instance_count <= 16 and 3 in {part.dim for part in s} for s in in_three)
    outside = {s for s in in_three if columns_first(SegmentSplit(s, ()), 4) > 1}
    assert outside == {s for s in in_three if s[0].dim == 3} and bool(outside) == columns


def of_image(local: int) -> list[Column]:
    """The columns of a convolution of 14 x 14 x 256 on cores with so many bytes for data."""
    memories = (replace(m, capacity=local) if m.name == "L1" else m for m in TINY.memories)
    net = graphs.Net("image", "float32")
    graph = net.graph(net.conv("conv", net.input("x", 1, 14, 14, 256), 256))
    return Candidates(graph, replace(TINY, memories=tuple(memories))).columns()


def test_where_little_fits_rows_are_cut_in_two_dimensions_and_columns() -> None:
    """With less of the columns, more of an image fits, and each weight is loaded less often."""
    best = min(of_image(12 << 10), key=lambda c: c.cycles)
    assert sorted(s.dim for s in best.split.instances) == [1, 2, 3]


def test_so_they_are_where_all_cuts_that_fit_have_many_instances() -> None:
    assert any(len(c.split.instances) == 3 for c in of_image(24 << 10))
    assert all(len(c.split.instances) < 3 for c in of_image(1 << 20))


def columns(capacity: int) -> list[Column]:
    return [c for c in Candidates(NETWORK, with_shared(capacity)).columns() if columns_first(c.split, 4) > 1]


def rows_outside(capacity: int) -> list[Column]:
    return [c for c in Candidates(NETWORK, with_shared(capacity)).columns() if columns_first(c.split, 4) == 1]


def test_columns_are_outside_where_weights_have_no_room() -> None:
    assert not columns(1 << 19)
    found = columns(1 << 17)
    assert found
    for column in found:
        # Two parts of the weights are enough; each instance has its own rows.
        assert column.refetched_bytes > 0
        parts = columns_first(column.split, 4)
        assert column.pin_bytes <= column.weight_bytes * 2.2 / parts


def test_only_the_weights_of_the_root_come_in_turn() -> None:
    """A constant by rows comes back in every round of columns: all of it would have to stay."""
    net = graphs.Net("rows", "float32")
    rows = net.elementwise("rows", "add", net.input("x", 256, 256), net.constant("position", 256, 256))
    graph = net.graph(net.matmul("product", rows, 256))
    splits = tuple(SegmentSplit((Split(1, 16), Split(0, parts)), ()) for parts in (8, 16))
    for split in splits:
        column = Candidates(graph, with_shared(1 << 17)).cheapest(0, 1, (split,))
        assert column is not None
        whole, part = graph.tensor["position"].bytes, graph.tensor["product.w"].bytes // 16
        assert whole + 2 * part <= column.pin_bytes <= whole + 2 * part + 2048


def test_cuts_know_it_as_arrays_do() -> None:
    shape = (2, 8, 8, 32)
    splits = segment_splits(shape, 2, 16, 8, three=True, columns=True)
    cells = batched_cells(splits, [representative_cells(split, shape) for split in splits])
    assert cells.columns_first(4).tolist() == [columns_first(split, 4) for split in splits]


def test_a_plan_with_columns_outside_is_right_and_fetches_less() -> None:
    machine = with_shared(1 << 17)
    with unhurried():
        planned = plan(NETWORK, machine, Options(timeout=0.0, strategy="layerwise")).plan
    segment = planned.segments[0]
    assert columns_first(SegmentSplit(segment.instances, segment.cores), 4) > 1
    fetched = sum(b.bytes for b in planned.shared if b.tensor == "conv.w" and b.fetch)
    assert fetched < min(c.weight_bytes + c.refetched_bytes for c in rows_outside(1 << 17))
    given = {"x": np.random.default_rng(0).standard_normal(NETWORK.tensor["x"].shape).astype(np.float32)}
    trace = simulate(lower(NETWORK, planned, machine), machine, NETWORK.data, given)
    assert trace.violations == ()
    np.testing.assert_allclose(
        trace.outputs["conv"], evaluate_graph(NETWORK, given, None)["conv"], rtol=1e-4, atol=1e-4
    )
