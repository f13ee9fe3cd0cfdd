"""Local buffers against the definition, one tile at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.box import full, volume
from girih.ir.graph import DTYPES, Graph, Op
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Segment, Tile
from girih.ir.semantics.cell import Cells, tile_boxes
from girih.ir.semantics.region import accessed, op_boxes
from girih.solver.cost.local_buffers import all_cells, is_streamed, local_requests, round_up
from tests.support.graphs import attention, chain, residual
from tests.support.plans.rough_plans import rough_segments

MACHINE = load_machine("stcp920")


def versions(op: Op, tile: Tile, name: str) -> int:
    """Those of a private buffer: one if the vector engine alone uses it."""
    if tile.engine != "matrix" or op.contraction is None:
        return 1
    stage = op.stages[op.contraction]
    return tile.depth if name in {stage.write.tensor, *(r.tensor for r in stage.reads)} else 1


def by_definition(graph: Graph, machine: Machine, segment: Segment) -> dict[tuple[str, str, str], int]:
    """Bytes by (operator, use, name); the operator of data is empty."""
    cells = all_cells(Cells(graph), segment)
    align = {level.use: level.alignment for level in machine.levels.of_core}
    most: dict[tuple[str, str, str], int] = {}

    def note(op: str, use: str, name: str, elements: int, dtype: str) -> None:
        key = (op, use, name)
        most[key] = max(most.get(key, 0), elements * DTYPES[dtype])

    for cell in cells:
        for name, box in cell.tensors.items():
            if not is_streamed(graph, segment, name):
                note("", "data", name, volume(box), graph.tensor[name].dtype)
        for name in segment.ops:
            op, tile = graph.op[name], segment.tile[name]
            if name not in cell.ops:
                continue
            for part in tile_boxes(cell.ops[name].tensors[op.output], tile.sizes, tile.order):
                boxes = op_boxes(op, graph.tensor, part)
                for buffer in op.buffers:
                    if buffer.name in boxes.tensors:
                        note(name, "scratch", buffer.name, volume(boxes.tensors[buffer.name]), buffer.dtype)
                if tile.engine == "matrix" and op.contraction is not None:
                    stage = op.stages[op.contraction]
                    axes = [a for a, axis in enumerate(stage.axes) if axis.reduce]
                    right = graph.tensor[stage.reads[1].tensor]
                    extents = full(tuple(stage.axes[a].extent for a in axes))
                    for cut in tile_boxes(extents, tile.reduce, tuple(range(len(axes)))):
                        points = list(boxes.points[op.contraction])
                        for a, span in zip(axes, cut, strict=True):
                            points[a] = span
                        box = accessed(stage.reads[1], tuple(points), right.shape)
                        note(name, "weights", right.name, volume(box), right.dtype)
    found: dict[tuple[str, str, str], int] = {}
    for (op, use, name), size in most.items():
        if use == "data":
            found[op, use, name] = round_up(size, align["data"])
        elif use == "scratch":
            found[op, use, name] = versions(graph.op[op], segment.tile[op], name) * round_up(size, align["scratch"])
        else:
            found[op, use, name] = segment.tile[op].weight_depth * round_up(size, align["weights"])
    return found


@pytest.mark.parametrize("instances", [1, 2])
@pytest.mark.parametrize("graph", [chain(size=13), residual(size=12), attention()], ids=lambda g: g.name)
def test_as_defined(graph: Graph, instances: int) -> None:
    cells = Cells(graph)
    for index, segment in enumerate(rough_segments(graph, MACHINE, instances=instances)):
        tiles = tuple(
            replace(t, sizes=tuple(max(1, s * 2 // 3) for s in t.sizes), reduce=tuple(max(1, r // 2) for r in t.reduce))
            for t in segment.tiles
        )
        segment = replace(segment, tiles=tiles)
        buffers = local_requests(graph, cells, MACHINE, index, segment)
        mine = {("" if b.use == "data" else b.op, b.use, b.name): b.bytes for b in buffers}
        defined = by_definition(graph, MACHINE, segment)
        # A private buffer may have the room of a larger one of the same operator.
        for key in [key for key, size in defined.items() if key[1] == "scratch" and size < mine[key]]:
            assert mine[key] in [size for (op, use, _), size in defined.items() if (op, use) == key[:2]]
            del mine[key], defined[key]
        assert mine == defined
        assert all(b.address == -1 and b.segment == index for b in buffers)


def test_lives() -> None:
    graph = residual(1)
    segment = rough_segments(graph, MACHINE, group=4)[0]
    assert segment.ops == ("stem", "a0", "b0", "c0")
    lives = {b.name: b.live for b in local_requests(graph, Cells(graph), MACHINE, 0, segment) if b.use == "data"}
    assert lives["x"] == (0, 1), "an input lives from its first reader"
    assert lives["stem"] == (0, 4), "the shortcut lives to its last reader"
    assert lives["a0"] == (1, 3)
    assert lives["c0"] == (3, 4), "a result that leaves lives while it is stored"
    assert lives["b0.b"] == (2, 3)
    assert "b0.w" not in lives, "weights go straight to weight memory"


def test_constant_that_is_also_data_is_not_streamed() -> None:
    graph = chain(1)
    (segment,) = rough_segments(graph, MACHINE)
    assert is_streamed(graph, segment, "conv0.w") and not is_streamed(graph, segment, "conv0.b")
    by_vector = replace(segment, tiles=tuple(replace(t, engine="vector") for t in segment.tiles))
    assert not is_streamed(graph, by_vector, "conv0.w")
    uses = {b.use for b in local_requests(graph, Cells(graph), MACHINE, 0, by_vector)}
    assert uses == {"data", "scratch"}


def test_host_segments_have_no_local_buffers() -> None:
    graph = chain(1)
    host = Segment(("conv0",), (), (), ())
    op = replace(graph.ops[0], host=object(), stages=())  # type: ignore[arg-type]
    assert local_requests(replace(graph, ops=(op,)), Cells(graph), MACHINE, 0, host) == ()
