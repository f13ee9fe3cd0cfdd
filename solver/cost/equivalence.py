"""Segments of one structural equivalence class differ in names alone: an answer for one holds for all, renamed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ...ir.plan import LocalBuffer, Segment
from ...ir.semantics.cell import Cells, OperatorRun


def structural_class(cells: Cells, segment: Segment) -> Hashable:
    """Equal for segments of equal structure under equal cuts and tiles, in which the same lies inside the same."""
    run = cells.run(segment.ops)
    place = {name: i for i, name in enumerate(segment.ops)}
    tiles = tuple((place[t.op], t.sizes, t.order, t.reduce, t.engine, t.depth, t.weight_depth) for t in segment.tiles)
    inside = tuple(run.tensors.index(name) for name in segment.aliased)
    return run.class_number, segment.instances, segment.cores, tiles, inside


def renamed(buffers: Iterable[LocalBuffer], old: OperatorRun, new: OperatorRun, index: int) -> tuple[LocalBuffer, ...]:
    """The local buffers of a segment ``old`` as those of segment ``index``, which is ``new``."""
    op = dict(zip(old.ops, new.ops, strict=True))
    tensor = dict(zip(old.tensors, new.tensors, strict=True))
    return tuple(
        LocalBuffer(index, op[b.op], tensor[b.name], b.use, b.memory, b.address, b.bytes, b.depth, b.live)
        for b in buffers
    )
