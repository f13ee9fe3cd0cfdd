"""First turns: what all cells of the instances of a turn read and write together, and that of the longest run with the
same root and cut for all of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from girih.ir.box import Box, contains, hull
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import Segment, Split
from girih.ir.semantics.cell import Cells
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.column_cost import Column
from girih.solver.segmentation.groups.group_columns import TURNS
from girih.solver.segmentation.groups.turn_boxes import TurnBoxes
from girih.solver.segmentation.splits import SegmentSplit
from tests.support import graphs
from tests.support.machines import with_capacity

SMALL = with_capacity(load_machine("tiny"), "LLB", 12 << 10)
"""With so little shared memory that operators are cut into many instances."""
GRAPHS: dict[str, Callable[[], Graph]] = {
    "convolutions": lambda: graphs.residual(1, batch=4, size=12, channels=16),
    "attention": lambda: graphs.attention(batch=4, length=16),
}


def turns_of(graph: Graph, column: Column) -> list[int]:
    """In how many equal turns the instances of a column can run, one at least."""
    outermost = column.split.instances[0]
    extent = graph.tensor[graph.ops[column.last].output].shape[outermost.dim]
    return [turns for turns in (1, *TURNS) if outermost.parts % turns == 0 and extent % turns == 0]


def with_turns(graph: Graph) -> list[tuple[Column, int]]:
    """The columns that are cut, each with every number of turns that it allows."""
    columns = [c for c in Candidates(graph, SMALL).columns() if c.split.instances]
    return [(column, turns) for column in columns for turns in turns_of(graph, column)]


def segment_of(graph: Graph, column: Column) -> Segment:
    ops = tuple(op.name for op in graph.ops[column.first : column.last + 1])
    return Segment(ops, column.split.instances, column.split.cores, ())


def by_all_cells(graph: Graph, column: Column, turns: int) -> tuple[dict[str, Box], dict[str, Box]]:
    """The hulls of what the cells of the first ``1 / turns`` of the instances read, and of what they write."""
    cells, segment = Cells(graph), segment_of(graph, column)
    reads: dict[str, Box] = {}
    writes: dict[str, Box] = {}
    for instance in range(column.instances // turns):
        for core in range(column.split.core_count):
            cell = cells.cell(segment, instance, core)
            for boxes, hulls in ((cell.tensors, reads), (cell.owned, writes)):
                for name, box in boxes.items():
                    merged = hull(hulls.get(name), box)
                    assert merged is not None
                    hulls[name] = merged
    return reads, writes


@pytest.mark.parametrize("name", GRAPHS)
def test_a_turn_is_what_its_cells_read_and_write(name: str) -> None:
    graph = GRAPHS[name]()
    cases = with_turns(graph)
    assert len({turns for _, turns in cases}) > 2 and any(c.first < c.last for c, _ in cases)
    assert any(turns < c.split.instances[0].parts for c, turns in cases), "a turn of several instances"
    for column, turns in cases:
        turn = TurnBoxes(graph).some(column, turns)[0]
        reads, writes = by_all_cells(graph, column, turns)
        assert dict(turn.reads) == reads
        assert dict(turn.writes) == writes


@pytest.mark.parametrize("name", GRAPHS)
def test_a_turn_is_the_first_part_of_the_cut_alone(name: str) -> None:
    """Whatever else is cut, over the cores or into instances."""
    graph = GRAPHS[name]()
    for column, turns in with_turns(graph):
        ops = segment_of(graph, column).ops
        bare = Segment(ops, (Split(column.split.instances[0].dim, turns),), (), ())
        cell = Cells(graph).cell(bare, 0, 0)
        turn = TurnBoxes(graph).some(column, turns)[0]
        assert (turn.reads, turn.writes) == (cell.tensors, cell.owned)


def test_the_longest_run_stands_for_shorter_ones() -> None:
    graph = graphs.residual(1, batch=4, size=12, channels=16)
    last = next(number for number, op in enumerate(graph.ops) if op.name == "c0")
    split = SegmentSplit((Split(0, 2),), ())
    short, middle, long = (Column(first, last, split, 1, 0, 0, 0, (), 0, ()) for first in (last, last - 1, 0))
    boxes = TurnBoxes(graph)
    alone, *_ = boxes.some(short, 2)
    assert dict(alone.reads).keys() < dict(boxes.some(long, 2)[0].reads).keys()
    longest, *_ = boxes.some(long, 2)
    assert boxes.some(middle, 2)[0] is longest and boxes.some(short, 2)[0] is longest
    assert all(contains(longest.reads[name], box) for name, box in alone.reads.items())
    assert all(longest.writes[name] == box for name, box in alone.writes.items())


@pytest.mark.parametrize(("dim", "turns"), [(0, 4), (1, 2)])
def test_another_cut_is_another_turn(dim: int, turns: int) -> None:
    graph = graphs.chain(2, batch=4, size=12, channels=16)
    boxes = TurnBoxes(graph)
    columns = [Column(0, 1, SegmentSplit((Split(d, 4),), ()), 1, 0, 0, 0, (), 0, ()) for d in (0, dim)]
    name = graph.ops[1].output
    half, other = boxes.some(columns[0], 2)[0].writes[name], boxes.some(columns[1], turns)[0].writes[name]
    assert [span.size for span in half] == [2, 12, 12, 16]
    assert other[dim].size == graph.tensor[name].shape[dim] // turns
    assert half != other
