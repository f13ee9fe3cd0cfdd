"""Groups of segments that take turns: members follow one another, what a turn reads is written in the same one, and
their costs are those that all cells of all turns add up to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest

from girih.ir.box import Box
from girih.ir.graph import DTYPES, Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import Segment, Split
from girih.ir.semantics.cell import Cells
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.column_cost import Column
from girih.solver.segmentation.groups import group_columns
from girih.solver.segmentation.groups.group_columns import TURNS, GroupColumns
from girih.solver.segmentation.splits import SegmentSplit
from tests.support import graphs
from tests.support.machines import with_capacity

TINY = load_machine("tiny")


@dataclass(frozen=True)
class Case:
    graph: Graph
    capacity: int
    columns: tuple[Column, ...]
    groups: tuple[Column, ...]


def dense() -> Graph:
    return graphs.dense(2, batch=4, size=16, dtype="float32")


def shortcut() -> Graph:
    return graphs.residual(1, batch=4, size=24, dtype="float32")


def attention() -> Graph:
    return graphs.attention(batch=4, length=64, dtype="float32")


def elementwise() -> Graph:
    """Functions of each element, some of whose results are read again later."""
    net = graphs.Net("elementwise", "float32")
    a = net.elementwise("a", "max", net.input("x", 4, 16, 64), 0.0)
    b = net.elementwise("b", "add", a, 1.0)
    c = net.elementwise("c", "add", b, a)
    e = net.elementwise("e", "max", net.elementwise("d", "add", c, 2.0), 0.5)
    net.elementwise("f", "add", e, 3.0)
    return net.graph()


CASES: dict[str, tuple[Callable[[], Graph], int, int]] = {
    "elementwise": (elementwise, 32768, 1),
    "dense": (dense, 98304, 64),
    "shortcut": (shortcut, 131072, 64),
    "single operators": (shortcut, 98304, 1),
    "attention": (attention, 65536, 2),
}
"""Graph, bytes of shared memory, and operators in a run at most."""


@cache
def case(name: str) -> Case:
    build, capacity, longest = CASES[name]
    graph, machine = build(), with_capacity(TINY, "LLB", capacity)
    columns = Candidates(graph, machine, longest=longest).columns()
    groups = GroupColumns(graph, machine).columns(columns, range(len(graph.ops)))
    return Case(graph, capacity, tuple(columns), tuple(groups))


def turn_of(column: Column, turns: int, instance: int) -> int:
    """The turn in which an instance of a member runs."""
    return instance * turns // column.instances


Part = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


class Turns:
    """Of members in so many turns, element by element: what each reads of others and writes in each of the turns."""

    def __init__(self, graph: Graph, members: Sequence[Column], turns: int) -> None:
        self.graph, self.turns, self.members = graph, turns, members
        cells = Cells(graph)
        self.reads: dict[tuple[int, int, str], Part] = {}
        """By member, turn and tensor."""
        self.writes: dict[tuple[int, int, str], Part] = {}
        for number, column in enumerate(members):
            ops = tuple(op.name for op in graph.ops[column.first : column.last + 1])
            results = {name for op in ops for name in graph.op[op].outputs}
            segment = Segment(ops, column.split.instances, column.split.cores, ())
            for instance, core in product(range(column.instances), range(column.split.core_count)):
                turn = turn_of(column, turns, instance)
                cell = cells.cell(segment, instance, core)
                for name, box in cell.tensors.items():
                    if name not in results:
                        self._mark(self.reads, (number, turn, name), box)
                for name, box in cell.owned.items():
                    self._mark(self.writes, (number, turn, name), box)

    def _mark(self, parts: dict[tuple[int, int, str], Part], key: tuple[int, int, str], box: Box) -> None:
        if key not in parts:
            parts[key] = np.zeros(self.graph.tensor[key[2]].shape, dtype=np.bool_)
        parts[key][tuple(slice(span.lo, span.hi) for span in box)] = True

    @property
    def passed(self) -> set[str]:
        """What some member writes and another one reads."""
        return {name for _, _, name in self.writes} & {name for _, _, name in self.reads}

    def aligned(self) -> bool:
        """Whether all that a turn reads of other members is written in the same turn."""
        for (_, turn, name), part in self.reads.items():
            writers = [(t, p) for (_, t, n), p in self.writes.items() if n == name]
            same = [p for t, p in writers if t == turn]
            if writers and (not same or (part & ~np.any(same, axis=0)).any()):
                return False
        return True

    def peak(self, names: set[str]) -> int:
        """Bytes of these tensors that are live at most at one time: from when they are written to when they are read
        for the last time, member after member and turn after turn."""
        steps = [(turn, number) for turn in range(self.turns) for number in range(len(self.members))]
        total = [0] * len(steps)
        for name in names:
            shape = self.graph.tensor[name].shape
            begin = np.full(shape, len(steps))
            end = np.full(shape, -1)
            for place, (turn, number) in enumerate(steps):
                written, read = (parts.get((number, turn, name)) for parts in (self.writes, self.reads))
                if written is not None:
                    begin[written] = np.minimum(begin[written], place)
                if read is not None:
                    end[read] = place
            for place in range(len(steps)):
                live = (begin <= place) & (end >= place)
                total[place] += int(live.sum()) * DTYPES[self.graph.tensor[name].dtype]
        return max(total)


def alone(graph: Graph, group: Column) -> set[str]:
    """Tensors that members of a group write, that only they read, and that need not be in main memory."""
    names = {op.name for op in graph.ops[group.first : group.last + 1]}
    return {
        op.output
        for op in graph.ops[group.first : group.last + 1]
        if op.output not in graph.output_tensors and {c.name for c in graph.consumers[op.output]} <= names
    }


@pytest.mark.parametrize("name", CASES)
def test_members_follow_one_another_in_equal_turns(name: str) -> None:
    instance = case(name)
    graph = instance.graph
    assert instance.groups
    for group in instance.groups:
        turns, members = group.instances, group.members
        assert group.split == SegmentSplit((Split(0, turns),), ()) and turns in TURNS
        assert len(members) > 1 and group.segments == members
        assert (members[0].first, members[-1].last) == (group.first, group.last)
        assert all(a.last + 1 == b.first for a, b in pairwise(members))
        for member in members:
            assert member in instance.columns and member.segments == (member,)
            outermost = member.split.instances[0]
            assert outermost.parts % turns == 0
            assert graph.tensor[graph.ops[member.last].output].shape[outermost.dim] % turns == 0


@pytest.mark.parametrize("name", CASES)
def test_what_a_member_reads_is_written_in_the_same_turn(name: str) -> None:
    instance = case(name)
    for group in instance.groups:
        turns = Turns(instance.graph, group.members, group.instances)
        assert turns.passed and turns.aligned()


@pytest.mark.parametrize("name", CASES)
def test_costs_are_those_of_members(name: str) -> None:
    for group in case(name).groups:
        members = group.members
        assert group.cycles == sum(m.cycles for m in members)
        assert group.weight_bytes == sum(m.weight_bytes for m in members)
        assert group.refetched_bytes == sum(m.refetched_bytes for m in members)
        assert group.pin_bytes == sum(m.pin_bytes for m in members if m.refetched_bytes)
        assert group.local_bytes == max(m.local_bytes for m in members)


@pytest.mark.parametrize("name", CASES)
def test_what_passes_between_members_waits_for_a_turn(name: str) -> None:
    """Of what only they use, the bytes that are live at most, counted element by element over all turns."""
    instance = case(name)
    waiting: list[int] = []
    for group in instance.groups:
        inside = alone(instance.graph, group)
        turns = Turns(instance.graph, group.members, group.instances)
        assert group.internal_bytes == turns.peak(inside & turns.passed) <= instance.capacity
        waiting.append(group.internal_bytes)
    assert any(waiting)


@pytest.mark.parametrize("name", CASES)
def test_footprints_are_of_what_crosses_the_border(name: str) -> None:
    instance = case(name)
    graph = instance.graph
    for group in instance.groups:
        ops = graph.ops[group.first : group.last + 1]
        touched = {name for op in ops for name in (*op.inputs, *op.outputs)} - graph.constant_names
        results = {op.output for op in ops}
        inside = alone(graph, group)
        # What is read in the segment that writes it alone is not there at all.
        assert [name for name, _, _ in group.footprints] == sorted(touched - inside)
        turns = Turns(graph, group.members, group.instances)
        for name, size, moved in group.footprints:
            whole = graph.tensor[name].bytes
            touching = [
                (member.first, footprint, part)
                for member in group.members
                for n, footprint, part in member.footprints
                if n == name
            ]
            # What a member writes is stored there; what all read is fetched as by the one that moves most.
            counted = touching[:1] if name in results else touching
            sizes = [size * part // footprint for _, footprint, part in counted]
            assert min(sizes) <= moved <= max(sizes)
            parts = [
                int(part.sum()) * DTYPES[graph.tensor[name].dtype]
                for key, part in (*turns.reads.items(), *turns.writes.items())
                if key[1:] == (0, name)
            ]
            assert max(parts, default=1) <= size <= whole
            if name in results and name not in graph.output_tensors:
                assert size == max(parts), "what the first turn writes of it, or reads"


def test_of_the_same_operators_none_is_beaten() -> None:
    """In cycles, in traffic and in shared memory at once; what would not fit there is no group."""
    for instance in map(case, CASES):
        ends: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for group in instance.groups:
            held = group.internal_bytes + group.pin_bytes + sum(size for _, size, _ in group.footprints)
            ends.setdefault((group.first, group.last), []).append((group.cycles, group.refetched_bytes, held))
        for costs in ends.values():
            for one, other in product(range(len(costs)), repeat=2):
                assert one == other or any(a < b for a, b in zip(costs[one], costs[other], strict=True))


@pytest.mark.parametrize("start", [0, 3, 4])
def test_groups_begin_where_they_may(start: int) -> None:
    instance = case("dense")
    machine = with_capacity(TINY, "LLB", instance.capacity)
    from_start = GroupColumns(instance.graph, machine).columns(instance.columns, [start])
    assert from_start and from_start == [g for g in instance.groups if g.first == start]


def test_what_has_no_room_is_no_group() -> None:
    instance = case("single operators")
    sizes = {g.internal_bytes for g in instance.groups}
    most = max(sizes)
    assert len(sizes) > 2
    machine = with_capacity(TINY, "LLB", most - 1)
    groups = GroupColumns(instance.graph, machine).columns(instance.columns, range(len(instance.graph.ops)))
    assert max(g.internal_bytes for g in groups) < most


def mixed() -> Graph:
    """Operators that read channels, rows and images in several ways, one after the other."""
    net = graphs.Net("mixed", "float32")
    x = net.conv("point", net.input("x", 4, 8, 8, 8), 8)
    x = net.conv("halo", x, 8, kernel=3)
    x = net.depthwise("depth", x)
    x = net.elementwise("relu", "max", x, 0.0)
    x = net.conv("stride", x, 8, kernel=3, stride=2)
    x = net.conv("shortcut", x, 8, add=x)
    x = net.softmax("softmax", x)
    net.matmul("fc", net.flatten("pool", x), 8)
    return net.graph()


def heads() -> Graph:
    return graphs.attention(batch=4, heads=4, length=16, width=16, dtype="float32")


PAIRS = [
    (build, first, turns)
    for build, count in ((mixed, 9), (heads, 4), (dense, 4))
    for first in range(count - 1)
    for turns in (2, 4)
]


@pytest.mark.parametrize(("build", "first", "turns"), PAIRS)
def test_a_pair_is_a_group_exactly_where_its_cuts_align(build: Callable[[], Graph], first: int, turns: int) -> None:
    """Under all cuts of two operators by one dimension each, as their elements say in every turn."""
    graph = build()
    groups = GroupColumns(graph, TINY)
    single = {c.first: c for c in Candidates(graph, TINY, longest=1).columns()}
    aligned: list[bool] = []
    shapes = [graph.tensor[graph.ops[position].output].shape for position in (first, first + 1)]
    for dims in product(*(range(len(shape)) for shape in shapes)):
        pair = [
            replace(single[position], split=SegmentSplit((Split(dim, turns),), ()))
            for position, dim in zip((first, first + 1), dims, strict=True)
        ]
        if any(shape[dim] % turns for shape, dim in zip(shapes, dims, strict=True)):
            continue
        expected = Turns(graph, pair, turns).aligned()
        in_groups = [g for g in groups.columns(pair, [first]) if g.instances == turns]
        assert [g.members for g in in_groups] == ([tuple(pair)] if expected else [])
        aligned.append(expected)
    assert aligned.count(True) and aligned.count(False)


@pytest.mark.parametrize(
    ("dims", "aligned"),
    [((0, 0), True), ((3, 3), False), ((0, 1), False), ((1, 0), False), ((1, 2), False), ((1, 1), True)],
)
def test_channels_and_transposed_cuts_of_convolutions_do_not_align(dims: tuple[int, int], *, aligned: bool) -> None:
    """Each output channel reads all input channels."""
    graph = graphs.chain(2, batch=4, size=8, channels=8, kernel=1)
    single = {c.first: c for c in Candidates(graph, TINY, longest=1).columns()}
    pair = [replace(single[p], split=SegmentSplit((Split(dim, 2),), ())) for p, dim in enumerate(dims)]
    assert bool(GroupColumns(graph, TINY).columns(pair, [0])) == aligned
    uncut = [pair[0], replace(pair[1], split=SegmentSplit((), (Split(0, 2),)))]
    assert not GroupColumns(graph, TINY).columns(uncut, [0])
    more = [pair[0], replace(pair[1], split=SegmentSplit((Split(dims[1], 4),), ()))]
    assert {g.instances for g in GroupColumns(graph, TINY).columns(more, [0])} == ({2} if aligned else set())


def test_only_equal_turns_are_turns() -> None:
    """Six rows in four parts make two turns of three rows, and no four."""
    graph = graphs.chain(2, batch=1, size=6, channels=8, kernel=1)
    single = {c.first: c for c in Candidates(graph, TINY, longest=1).columns()}
    pair = [replace(single[p], split=SegmentSplit((Split(1, 4),), ())) for p in (0, 1)]
    assert {g.instances for g in GroupColumns(graph, TINY).columns(pair, [0])} == {2}


@pytest.mark.parametrize("refetched", [(0, 0), (0, 64), (64, 0), (64, 32)])
def test_only_what_would_be_fetched_again_is_pinned(refetched: tuple[int, int]) -> None:
    graph = graphs.chain(2, batch=4, size=8, channels=8, kernel=1)
    single = {c.first: c for c in Candidates(graph, TINY, longest=1).columns()}
    pair = [
        replace(single[p], split=SegmentSplit((Split(0, 2),), ()), refetched_bytes=again, pin_bytes=100 + p)
        for p, again in enumerate(refetched)
    ]
    (group,) = GroupColumns(graph, TINY).columns(pair, [0])
    assert group.pin_bytes == sum(100 + p for p, again in enumerate(refetched) if again)
    assert group.refetched_bytes == sum(refetched)


@pytest.mark.parametrize(("dims", "aligned"), [((0, 0), True), ((0, 1), False)])
@pytest.mark.parametrize("stored", [False, True])
def test_what_main_memory_needs_too_is_cut_alike(dims: tuple[int, int], *, aligned: bool, stored: bool) -> None:
    """A result that is also an output of the network is read by turns, or all of it is."""
    net = graphs.Net("stored", "float32")
    first = net.matmul("first", net.input("x", 32, 32), 32)
    graph = net.graph(*([first] if stored else []), net.matmul("second", first, 32))
    single = {c.first: c for c in Candidates(graph, TINY, longest=1).columns()}
    pair = [replace(single[p], split=SegmentSplit((Split(dim, 4),), ())) for p, dim in enumerate(dims)]
    turns = {group.instances for group in GroupColumns(graph, TINY).columns(pair, [0])}
    assert turns == ({2, 4} if aligned else set())


@pytest.mark.parametrize("parts", [3, 6, 12])
def test_what_turns_in_the_middle_read_is_looked_at(parts: int) -> None:
    """The middle one of three operands of a concatenation is read by neither the first nor the last turn."""
    net = graphs.Net("middle", "float32")
    x = net.input("x", 12, 16)
    joined = net.concat("joined", x, net.elementwise("middle", "max", x, 0.0), x, dim=0)
    graph = net.graph(net.elementwise("after", "add", joined, 1.0))
    single = {c.first: c for c in Candidates(graph, TINY, longest=1).columns()}
    cut = [replace(single[p], split=SegmentSplit((Split(0, parts),), ())) for p in range(3)]
    # In two turns, each reads the half of it that it writes.
    turns = {group.instances for group in GroupColumns(graph, TINY).columns(cut, [0])}
    assert turns == (set() if parts % 2 else {2})


def test_of_many_starts_some_are_left_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_columns, "MOST_STARTS", 2)
    instance = case("shortcut")
    starts = sorted({group.first for group in instance.groups})
    assert len(starts) > 3
    machine = with_capacity(TINY, "LLB", instance.capacity)
    groups = GroupColumns(instance.graph, machine).columns(instance.columns, starts)
    begins = {starts[0], starts[len(starts) // 2]}
    assert groups == [group for group in instance.groups if group.first in begins]
