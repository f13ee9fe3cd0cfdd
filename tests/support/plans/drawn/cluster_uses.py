"""Which steps of a drawn plan make, load and stream which tensors: what buffers in the cluster's memories are for."""

from __future__ import annotations

from dataclasses import dataclass, field

from girih.ir.box import Box, hull
from girih.ir.plan import LocalBuffer, Segment, Step
from girih.ir.semantics.cell import leaving
from tests.support.plans.drawn.drawing import Drawing
from tests.support.plans.drawn.weights import is_streamed, stationary, weight_boxes


@dataclass
class Uses:
    """By tensor, in the order of the steps."""

    made: dict[str, list[tuple[int, Box]]] = field(default_factory=dict[str, list[tuple[int, Box]]])
    """(slot, hull of the shares) of each step that stores it."""
    reads: dict[str, list[tuple[int, int, Box]]] = field(default_factory=dict[str, list[tuple[int, int, Box]]])
    """(first slot, end, hull over the cores) of each step that loads it."""
    streams: dict[str, list[tuple[int, list[Box]]]] = field(default_factory=dict[str, list[tuple[int, list[Box]]]])
    """(slot, weight tiles in the order of a core's walk) of each step that streams it: constants alone."""
    by_host: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """The slots in which the host reads or makes it."""
    made_by_host: dict[str, int] = field(default_factory=dict[str, int])
    """The last slot in which the host makes it."""
    slots: int = 0
    """Of all steps together."""


def uses_of(
    drawing: Drawing, segments: tuple[Segment, ...], steps: tuple[Step, ...], local: tuple[LocalBuffer, ...]
) -> Uses:
    graph, uses = drawing.graph, Uses()
    for step in steps:
        segment, start = segments[step.segment], uses.slots
        uses.slots += len(segment.ops)
        ops = [graph.op[n] for n in segment.ops]
        if not segment.tiles:
            for name in (*ops[0].inputs, *ops[0].outputs):
                uses.by_host.setdefault(name, []).append(start)
            uses.made_by_host |= dict.fromkeys(ops[0].outputs, start)
            continue
        cells = drawing.cells_of(segment, step.instance)
        out = leaving(graph, tuple(ops))
        for position, op in enumerate(ops):
            shares = [c.owned[op.output] for c in cells if op.output in c.owned]
            if op in out and shares:
                uses.made.setdefault(op.output, []).append((start + position, hull_of(shares)))
            tile = segment.tile[op.name]
            name = stationary(op, tile)
            walked = [b for c in cells if op.name in c.ops for b in weight_boxes(drawing, op, tile, c)] if name else []
            if name and is_streamed(drawing, segment, name) and walked:
                uses.streams.setdefault(name, []).append((start + position, walked))
        own = {op.output for op in ops}
        data = {b.name: b.live[0] for b in local if b.segment == step.segment and b.use == "data"}
        for name in segment.aliased:
            data[name] = next(p for p, op in enumerate(ops) if name in op.inputs or name == op.output)
        for name, position in data.items():
            boxes = [c.tensors[name] for c in cells if name in c.tensors]
            if boxes and name not in own:
                uses.reads.setdefault(name, []).append((start + position, start + position + 1, hull_of(boxes)))
    return uses


def hull_of(boxes: list[Box]) -> Box:
    whole: Box | None = None
    for box in boxes:
        whole = hull(whole, box)
    assert whole is not None
    return whole
