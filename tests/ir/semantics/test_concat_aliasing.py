"""Parts lie where they belong in their concatenation, and only what is copied whole and unchanged is a part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from girih.ir.box import Box, Span
from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import CheckError
from girih.ir.graph import Access, Graph
from girih.ir.plan import LocalBuffer, Segment, Split
from girih.ir.semantics.cell import Cells, count
from girih.ir.semantics.concat_aliasing import (
    ConcatAlias,
    allocation_extents,
    concat_aliases,
    loaded_aliases,
    operand_offsets,
    parent_buffers,
    possible_aliases,
    root_aliases,
)
from girih.ir.semantics.in_place import replaced
from tests.support import graphs
from tests.support.concatenations import STCP, block, planned, segment_of


def test_each_layer_of_a_block_is_aliased_into_the_last_one() -> None:
    found = possible_aliases(block(), block().ops)
    assert found == {
        "stem": ConcatAlias("concat0", (0, 0, 0, 0)),
        "b0": ConcatAlias("concat0", (0, 0, 0, 16)),
        "concat0": ConcatAlias("concat1", (0, 0, 0, 0)),
        "b1": ConcatAlias("concat1", (0, 0, 0, 24)),
    }
    assert {n: w.parent for n, w in root_aliases(found).items()} == dict.fromkeys(found, "concat1")
    assert root_aliases(found)["b0"].offset == (0, 0, 0, 16)


def behind_the_stem(aliased: tuple[str, ...]) -> tuple[Graph, Segment]:
    """The layers of a block, which load what the stem has made."""
    graph = block()
    ops = tuple(op.name for op in graph.ops[graph.ops.index(graph.op["stem"]) + 1 :])
    return graph, Segment(ops, (), (), (), aliased)


def test_what_is_loaded_is_a_part_too() -> None:
    graph, segment = behind_the_stem(("stem", "b0"))
    ops = [graph.op[name] for name in segment.ops]
    assert possible_aliases(graph, ops) == possible_aliases(graph, graph.ops)
    # The operator behind the stem reads it, before the concatenation does.
    assert loaded_aliases(graph, segment) == {"stem": 0}
    assert loaded_aliases(graph, replace(segment, ops=segment.ops[segment.ops.index("a1") :])) == {}
    concat = segment.ops.index("concat0")
    assert loaded_aliases(graph, replace(segment, ops=segment.ops[concat:])) == {"stem": 0, "b0": 0}


def test_a_constant_is_no_part() -> None:
    net = graphs.Net()
    x = net.elementwise("a", "exp", net.input("x", 1, 8))
    net.concat("both", net.constant("token", 1, 8), x, dim=0)
    graph = net.graph()
    assert set(operand_offsets(graph.op["both"], graph.tensor)) == {"a", "token"}
    assert set(possible_aliases(graph, graph.ops)) == {"a"}


def test_a_tensor_lies_in_one_place() -> None:
    net = graphs.Net()
    x = net.input("x", 2, 4, 4, 8)
    a, b = net.elementwise("a", "exp", x), net.elementwise("b", "exp", x)
    one, two = net.concat("one", a, b), net.concat("two", b, a)
    net.elementwise("sum", "add", one, two)
    graph = net.graph()
    assert {n: w.parent for n, w in possible_aliases(graph, graph.ops).items()} == {"a": "one", "b": "one"}


def test_what_is_copied_twice_is_no_part() -> None:
    net = graphs.Net()
    a = net.elementwise("a", "exp", net.input("x", 2, 8))
    b = net.elementwise("b", "exp", a)
    net.concat("twice", a, b, a, dim=1)
    graph = net.graph()
    assert operand_offsets(graph.op["twice"], graph.tensor) == {"b": (0, 8)}


def test_a_dimension_of_one_element_has_no_axis() -> None:
    """As the frontend leaves it out of the loops: a batch of one image."""
    net = graphs.Net()
    a, b = (net.elementwise(name, "exp", net.input(f"x{name}", 1, 4, size)) for name, size in (("a", 8), ("b", 3)))
    net.concat("both", a, b, dim=2)
    graph = net.graph()
    op = graph.op["both"]

    def without_batch(access: Access) -> Access:
        index = tuple(replace(i, coeffs=i.coeffs[1:]) for i in access.index)
        return replace(access, index=index)

    stages = tuple(
        replace(
            s,
            axes=s.axes[1:],
            write=without_batch(s.write),
            operands=tuple(without_batch(o) for o in s.operands if isinstance(o, Access)),
        )
        for s in op.stages
    )
    assert operand_offsets(replace(op, stages=stages), graph.tensor) == {"a": (0, 0, 0), "b": (0, 0, 8)}
    longer = graph.tensor | {"a": replace(graph.tensor["a"], shape=(2, 4, 8))}
    assert set(operand_offsets(replace(op, stages=stages), longer)) == {"b"}


def test_what_is_not_copied_as_it_is_is_no_part() -> None:
    graph = block()
    op = graph.op["concat0"]
    assert set(operand_offsets(op, graph.tensor)) == {"stem", "b0"}
    stage = op.stages[1]
    (read,) = stage.reads

    def left(**changes: object) -> set[str]:
        return set(operand_offsets(replace(op, stages=(op.stages[0], replace(stage, **changes))), graph.tensor))  # type: ignore[arg-type]

    backwards = replace(read.index[1], coeffs=tuple(-c for c in read.index[1].coeffs), const=7)
    crossed = (read.index[0], read.index[2], read.index[1], read.index[3])
    shorter = tuple(replace(a, extent=a.extent - 1) if i == 3 else a for i, a in enumerate(stage.axes))
    assert left(operands=(replace(read, index=(read.index[0], backwards, *read.index[2:])),)) == {"stem"}
    assert left(operands=(replace(read, index=crossed),)) == {"stem"}
    assert left(operands=(replace(read, fill=0.0),)) == {"stem"}
    assert left(axes=shorter) == {"stem"}
    spread = [
        replace(
            a, index=(a.index[0], replace(a.index[1], coeffs=tuple(2 * c for c in a.index[1].coeffs)), *a.index[2:])
        )
        for a in (read, stage.write)
    ]
    assert left(operands=(spread[0],), write=spread[1]) == {"stem"}
    assert left(func="exp") == set()
    wide = {**graph.tensor, "b0": replace(graph.tensor["b0"], dtype="float32")}
    assert set(operand_offsets(op, wide)) == {"stem"}


def offset(index: tuple[int, ...], room: Box) -> int:
    """In elements from the beginning of a buffer that holds ``room``, row-major."""
    at = 0
    for i, span in zip(index, room, strict=True):
        assert span.lo <= i < span.hi
        at = at * span.size + i - span.lo
    return at


@pytest.mark.parametrize("instances", [1, 2, 4])
@pytest.mark.parametrize("dropped", [None, "stem", "b0", "concat0", "b1"])
def test_each_element_has_one_place(instances: int, dropped: str | None) -> None:
    """That of the part is that of its copy in the whole; different elements of a buffer are apart."""
    graph = block()
    full = segment_of(graph)
    chosen = tuple(n for n in full.aliased if n != dropped)
    segment = replace(full, aliased=chosen, instances=(Split(1, instances),), cores=(Split(2, 2),))
    places, cells = concat_aliases(graph, segment), Cells(graph)
    assert places.keys() == set(chosen)
    for number in range(2 * instances):
        cell = cells.cell(segment, number // 2, number % 2)
        for name, where in places.items():
            room, whole = cell.allocated(name), cell.allocated(where.parent)
            for index in product(*(range(s.lo, s.hi) for s in cell.tensors[name])):
                there = tuple(i + c for i, c in zip(index, where.offset, strict=True))
                assert offset(index, room) == offset(there, whole)
        for name in (
            cell.tensors.keys() - parent_buffers(graph, segment).keys() - set(parent_buffers(graph, segment).values())
        ):
            assert cell.allocated(name) == cell.tensors[name]


def test_a_room_is_the_hull_of_its_parts() -> None:
    found = {"a": ConcatAlias("w", (0, 0)), "b": ConcatAlias("w", (0, 3))}
    a, b, w = (Span(2, 9), Span(0, 3)), (Span(0, 5), Span(1, 2)), (Span(3, 4), Span(0, 5))
    assert allocation_extents(found, {"a": a, "b": b, "w": w}) == {
        "w": (Span(0, 9), Span(0, 5)),
        "a": (Span(0, 9), Span(0, 5)),
        "b": (Span(0, 9), Span(-3, 2)),
    }
    assert allocation_extents(found, {"w": w}) == {}


def test_stages_that_would_copy_a_part_have_nothing_to_do() -> None:
    graph = block()
    segment = replace(segment_of(graph), aliased=("concat0", "b1", "b0"))
    for core in range(count(segment.cores)):
        cell = Cells(graph).cell(segment, 0, core)
        sizes = {n: [all(s.size for s in p) for p in cell.ops[n].points] for n in ("concat0", "concat1")}
        assert sizes == {"concat0": [True, False], "concat1": [False, False]}


def test_a_concatenation_and_its_parts_replace_nothing() -> None:
    net = graphs.Net()
    x = net.input("x", 2, 4, 4, 8)
    a = net.elementwise("a", "exp", x)
    b = net.elementwise("b", "exp", a)
    c = net.concat("c", b, net.elementwise("d", "exp", x))
    net.elementwise("e", "exp", c)
    graph = net.graph()
    assert replaced(graph, graph.ops) == {"b": "a", "d": "x", "e": "c"}
    assert replaced(graph, graph.ops, possible_aliases(graph, graph.ops)) == {}


BROKEN: dict[str, tuple[Callable[[Segment], Segment], str]] = {
    "no such place": (lambda s: replace(s, aliased=(*s.aliased, "a0")), "a0 lies inside"),
    "a buffer too many": (lambda s: s, "which lies in that of concat1"),
    "a whole that is too small": (lambda s: s, "bytes a version, and a tile needs"),
    "a whole that comes too late": (lambda s: s, "lives in"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_wrong_places_are_refused(what: str) -> None:
    graph = block()
    segment = segment_of(graph)
    plan = planned(graph, segment)
    check_plan(plan, graph, STCP)
    change, message = BROKEN[what]
    whole = next(b for b in plan.local if b.name == "concat1")
    assert whole.live[0] == 0
    others = tuple(b for b in plan.local if b is not whole)
    step = STCP.levels.activations.alignment

    def changed(**changes: object) -> LocalBuffer:
        return replace(whole, **changes)  # type: ignore[arg-type]

    local = {
        "a buffer too many": (*plan.local, changed(name="b0", address=STCP.levels.activations.capacity // 2)),
        "a whole that is too small": (*others, changed(bytes=whole.bytes - step)),
        "a whole that comes too late": (*others, changed(live=(whole.live[0] + 1, whole.live[1]))),
    }.get(what, plan.local)
    with pytest.raises(CheckError, match=message):
        check_plan(replace(plan, segments=(change(segment),), local=local), graph, STCP)
