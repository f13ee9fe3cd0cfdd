"""Buffers of drawn plans in the memories of a core."""

from __future__ import annotations

from girih.ir.box import volume
from girih.ir.graph import DTYPES
from girih.ir.machine import Level
from girih.ir.plan import LocalBuffer, Segment
from girih.ir.semantics.cell import tile_boxes
from girih.ir.semantics.concat_aliasing import parent_buffers
from girih.ir.semantics.region import op_boxes
from tests.support.plans.drawn.addresses import addresses, round_up
from tests.support.plans.drawn.drawing import Drawing
from tests.support.plans.drawn.weights import is_streamed, stationary, weight_boxes


def local_buffers(drawing: Drawing, number: int, segment: Segment) -> list[LocalBuffer]:
    if not segment.tiles:
        return []
    cells = drawing.all_cells(segment)
    ops = [drawing.graph.op[n] for n in segment.ops]
    wanted: list[LocalBuffer] = []
    levels = drawing.machine.levels

    def want(level: Level, op: str, name: str, size: int, depth: int, live: tuple[int, int]) -> None:
        total = depth * round_up(size, level.alignment)
        wanted.append(LocalBuffer(number, op, name, level.use, level.name, -1, total, depth, live))

    whole = parent_buffers(drawing.graph, segment)
    for name in dict.fromkeys(whole.get(n, n) for c in cells for n in c.tensors):
        if is_streamed(drawing, segment, name):
            continue
        members = {name, *(n for n in whole if whole[n] == name)}
        size = max(volume(c.allocated(n)) for c in cells for n in members if n in c.tensors) * drawing.itemsize(name)
        touched = [p for p, op in enumerate(ops) if op.output in members or members & set(op.inputs)]
        first = touched[0] if any(op.output == name for op in ops) else drawing.rng.randint(0, touched[0])
        want(levels.activations, "", name, size, 1, (first, touched[-1] + 1))
    for position, op in enumerate(ops):
        tile = segment.tile[op.name]
        running = [c for c in cells if op.name in c.ops]
        boxes = {c.ops[op.name].tensors[op.output] for c in running}
        tiles = {t for b in boxes for t in tile_boxes(b, tile.sizes, tile.order)}
        parts = [op_boxes(op, drawing.graph.tensor, t).tensors for t in tiles]
        for buffer in op.buffers:
            size = max((volume(p[buffer.name]) for p in parts if buffer.name in p), default=0)
            if size:
                each = size * DTYPES[buffer.dtype]
                want(levels.sums, op.name, buffer.name, each, tile.depth, (position, position + 1))
        name = stationary(op, tile)
        if name is not None and running:
            size = max(volume(b) for c in running for b in weight_boxes(drawing, op, tile, c)) * drawing.itemsize(name)
            want(levels.weights, op.name, name, size, tile.weight_depth, (position, position + 1))
    return [
        LocalBuffer(b.segment, b.op, b.name, b.use, b.memory, address, b.bytes, b.depth, b.live)
        for b, address in zip(wanted, addresses(drawing.machine, wanted, drawing.rng), strict=True)
    ]
