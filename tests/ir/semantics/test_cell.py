"""Cells of segments that are alike are computed once: what comes out must be what each would get by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from girih.ir.box import contains
from girih.ir.equivalence import EquivalenceClasses
from girih.ir.graph import Graph
from girih.ir.plan import Segment, Split
from girih.ir.semantics.cell import Cells, count, leaving
from tests.support import graphs


def layers(count: int = 4) -> Graph:
    """Equal layers; the first result is also an output, so that equal operators are not always in equal runs."""
    net = graphs.Net("layers")
    x = net.input("x", 2, 12, 12, 8)
    first = ""
    for i in range(count):
        y = net.conv(f"a{i}", x, 8, kernel=3)
        x = net.conv(f"b{i}", y, 8, kernel=3, add=x)
        first = first or y
    return net.graph(first, x)


GRAPHS = {"layers": layers(), "chain": graphs.chain(6), "residual": graphs.residual(4), "attention": graphs.attention()}
CUTS = (
    ((), (Split(0, 2),)),
    ((Split(1, 3),), (Split(0, 2), Split(1, 2))),
    ((Split(0, 2),), (Split(1, 4),)),
)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_renamed_cell_is_the_computed_one(name: str, length: int) -> None:
    graph = GRAPHS[name]
    shared = Cells(graph)
    for first in range(len(graph.ops) - length + 1):
        ops = tuple(op.name for op in graph.ops[first : first + length])
        for instances, cores in CUTS:
            segment = Segment(ops, instances, cores, ())
            for instance in range(2 if instances else 1):
                for core in range(5):
                    mine = Cells(graph).cell(segment, instance, core)
                    cell = shared.cell(segment, instance, core)
                    assert cell == mine
                    # Buffers are laid out in this order.
                    assert list(cell.tensors) == list(mine.tensors)
                    assert list(cell.ops) == list(mine.ops)


def test_runs_are_equivalent_only_if_the_same_results_leave_them() -> None:
    graph = layers()
    structures = EquivalenceClasses(graph)
    runs = [structures.run_signature(graph.ops[2 * i : 2 * i + 2])[0] for i in range(4)]
    # The first result of layer 0 is an output, and the last of layer 3 is read by nobody but leaves as well.
    assert runs[0] != runs[1]
    assert runs[1] == runs[2] == runs[3]


def test_runs_are_equivalent_only_if_they_are_wired_the_same() -> None:
    net = graphs.Net("wires")
    x = net.input("x", 4, 8)
    y, z = net.elementwise("y", "exp", x), net.elementwise("z", "exp", x)
    one = net.elementwise("one", "sub", y, z)
    net.elementwise("other", "sub", z, one)
    graph = net.graph()
    structures = EquivalenceClasses(graph)
    assert structures.class_of["one"] == structures.class_of["other"]
    assert structures.run_signature(graph.ops[1:3])[0] != structures.run_signature(graph.ops[2:4])[0]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("length", [1, 2, 4])
def test_the_busiest_of_a_row_is_that_of_each_segment_alone(name: str, length: int) -> None:
    graph = GRAPHS[name]
    shared = Cells(graph)
    for first in range(len(graph.ops) - length + 1):
        ops = tuple(op.name for op in graph.ops[first : first + length])
        for instances, cores in CUTS:
            segment = Segment(ops, instances, cores, ())
            for instance in range(2 if instances else 1):
                alone = Cells(graph)
                cells = tuple(alone.cell(segment, instance, core) for core in range(count(cores)))
                assert shared.row(segment, instance) == cells
                assert shared.busiest(segment, instance) == max(cells, key=lambda cell: cell.weight)


def test_a_graph_computes_an_analysis_once() -> None:
    graph = layers()
    assert graph.analysis(EquivalenceClasses) is graph.analysis(EquivalenceClasses)
    assert graph.analysis(EquivalenceClasses).class_of == EquivalenceClasses(graph).class_of
    fewer = replace(graph, ops=graph.ops[:2])
    assert set(fewer.analysis(EquivalenceClasses).class_of) == {op.name for op in graph.ops[:2]}


SPLITS = (*CUTS, ((), (Split(0, 2), Split(3, 3))), ((Split(3, 2),), (Split(2, 3),)), ((), (Split(3, 4), Split(1, 5))))
"""With splits of channels: the convolutions before the last one are computed with all of theirs."""


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("splits", SPLITS)
def test_each_element_that_leaves_is_stored_by_one_cell(
    name: str, splits: tuple[tuple[Split, ...], tuple[Split, ...]]
) -> None:
    graph = GRAPHS[name]
    cells, (instances, cores) = Cells(graph), splits
    for last in range(1, len(graph.ops) + 1):
        rank = len(graph.tensor[graph.ops[last - 1].output].shape)
        if any(split.dim >= rank for split in (*instances, *cores)):
            continue  # the result has no such dimension
        segment = Segment(tuple(op.name for op in graph.ops[:last]), instances, cores, ())
        for op in leaving(graph, graph.ops[:last]):
            stored = np.zeros(graph.tensor[op.output].shape, dtype=np.int64)
            for instance in range(count(instances)):
                for cell in cells.row(segment, instance):
                    if op.output in cell.owned:
                        assert contains(cell.tensors[op.output], cell.owned[op.output])
                        stored[tuple(slice(span.lo, span.hi) for span in cell.owned[op.output])] += 1
            assert (stored == 1).all()
