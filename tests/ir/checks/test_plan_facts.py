"""What many plans of a graph have in common is what each of them would find by itself."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from girih.ir.box import Box, Span, is_empty, volume
from girih.ir.checks.check_plan import check_plan
from girih.ir.checks.plan_facts import Geometry
from girih.ir.errors import CheckError
from girih.ir.graph import DTYPES, Graph, Op
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan, Tile
from girih.ir.semantics.cell import tile_boxes
from girih.ir.semantics.region import accessed, op_boxes
from tests.support import graphs
from tests.support.plans.plain_plans import plain_plan

MACHINE = load_machine("stcp920")
GRAPHS = {"matmul": graphs.matmul, "conv": graphs.conv, "residual": graphs.residual, "attention": graphs.attention}


def drawn(random: Random, graph: Graph, op: Op) -> tuple[Box, Tile]:
    """A part of the result, and tiles of it."""
    box: list[Span] = []
    for extent in graph.tensor[op.output].shape:
        lo = random.randrange(extent)
        box.append(Span(lo, random.randint(lo + 1, extent)))
    assert op.contraction is not None
    reduced = [axis.extent for axis in op.stages[op.contraction].axes if axis.reduce]
    order = random.sample(range(len(box)), len(box))
    sizes = tuple(random.randint(max(1, span.size // 3), span.size) for span in box)
    return tuple(box), Tile(op.name, sizes, tuple(order), tuple(random.randint(max(1, r // 2), r) for r in reduced))


def walked(graph: Graph, op: Op, box: Box, tile: Tile) -> list[tuple[int, Box]]:
    """The tiles of the stationary operand, one by one, each with the step at which it is first needed in a row."""
    assert op.contraction is not None
    stage = op.stages[op.contraction]
    right = stage.reads[1]
    axes = [a for a, axis in enumerate(stage.axes) if axis.reduce]
    whole = tuple(Span(0, stage.axes[a].extent) for a in axes)
    found: list[tuple[int, Box]] = []
    before: Box | None = None
    step = 0
    for part in tile_boxes(box, tile.sizes, tile.order):
        points = op_boxes(op, graph.tensor, part).points[op.contraction]
        for cut in tile_boxes(whole, tile.reduce, tuple(range(len(axes)))):
            there = list(points)
            for axis, span in zip(axes, cut, strict=True):
                there[axis] = span
            need = accessed(right, tuple(there), graph.tensor[right.tensor].shape)
            if need != before and not is_empty(tuple(there)):
                found.append((step, need))
            before = need
            step += 1
    return found


@pytest.mark.parametrize("name", GRAPHS)
def test_weight_tiles_are_those_of_a_walk_tile_by_tile(name: str) -> None:
    graph = GRAPHS[name](dtype="float16")
    geometry, random = Geometry(graph), Random(name)
    for op in (op for op in graph.ops for _ in range(12) if op.contraction is not None):
        box, tile = drawn(random, graph, op)
        tiles, when = geometry.weight_tiles(op, tile, box)
        wanted = walked(graph, op, box, tile)
        assert list(zip(when.tolist(), map(tiles.box, range(len(tiles))), strict=True)) == wanted
        assert geometry.weights(op, tile, [box]) == max(volume(need) for _, need in wanted)


@pytest.mark.parametrize("name", GRAPHS)
def test_scratch_is_that_of_the_largest_tile(name: str) -> None:
    graph = GRAPHS[name](dtype="float16")
    geometry, random = Geometry(graph), Random(name)
    for op in (op for op in graph.ops for _ in range(12) if op.contraction is not None):
        box, tile = drawn(random, graph, op)
        for one in (tile, replace(tile, sizes=tuple(-(-s // 2) for s in tile.sizes))):
            tiles = [op_boxes(op, graph.tensor, t).tensors for t in tile_boxes(box, one.sizes, one.order)]
            wanted = tuple(max(volume(t[b.name]) for t in tiles) * DTYPES[b.dtype] for b in op.buffers)
            assert geometry.scratch(op, one, [box]) == wanted


def changed(plan: Plan, random: Random) -> Plan:
    """Mostly wrong: a buffer elsewhere, or a smaller one, or one that lives less."""
    number = random.randrange(len(plan.local))
    b = plan.local[number]
    other = random.choice(
        [replace(b, address=b.address + 64), replace(b, bytes=b.bytes // 2), replace(b, depth=b.depth + 1), b]
    )
    return replace(plan, local=(*plan.local[:number], other, *plan.local[number + 1 :]))


def verdict(plan: Plan, graph: Graph, geometry: Geometry | None) -> str:
    try:
        check_plan(plan, graph, MACHINE, geometry)
    except CheckError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", GRAPHS)
def test_a_plan_is_judged_the_same_whatever_was_judged_before(name: str) -> None:
    graph = GRAPHS[name](dtype="float16")
    geometry, random = Geometry(graph), Random(name)
    said: set[str] = set()
    for depth in (1, 2, 1):
        plan = plain_plan(graph, MACHINE, depth=depth)
        for _ in range(8):
            mine = changed(plan, random)
            alone = verdict(mine, graph, None)
            assert verdict(mine, graph, geometry) == alone
            said.add(alone)
        assert verdict(plan, graph, geometry) == ""
    assert len(said) > 2
