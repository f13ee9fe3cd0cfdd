"""Streamed constants of drawn plans in pieces, and rings of them that take turns in two places."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from girih.ir.box import Box, Span, contains, volume
from girih.ir.plan import SharedBuffer
from tests.support.plans.drawn.addresses import addresses
from tests.support.plans.drawn.cluster_uses import hull_of
from tests.support.plans.drawn.drawing import Drawing


def chunks(drawing: Drawing, name: str, slot: int, walked: list[Box]) -> list[SharedBuffer]:
    """A streamed constant whole, or along one dimension in pieces that take turns where the walk allows it."""
    here, box = drawing.machine.levels.exchange.name, hull_of(walked)

    def buffer(part: Box, ring_position: int) -> SharedBuffer:
        return SharedBuffer(
            name, part, here, -1, volume(part) * drawing.itemsize(name), (slot, slot + 1), True, False, ring_position,
            drawing.rng.randint(0, 1) if ring_position else 0,
        )  # fmt: skip

    def borders(dim: int) -> list[int]:
        spans = {(b[dim].lo, b[dim].hi) for b in walked}
        inside = {at for at, _ in spans if not any(lo < at < hi for lo, hi in spans)}
        return sorted(inside | {box[dim].lo, box[dim].hi})

    dim = max(range(len(box)), key=lambda d: (len(borders(d)), drawing.rng.random()))
    parts = [(*box[:dim], Span(lo, hi), *box[dim + 1 :]) for lo, hi in pairwise(borders(dim))]
    order = [i for i, part in enumerate(parts) if any(contains(part, b) for b in walked)]
    if len(order) < 2 or len(order) > 12 or drawing.chance(0.3):
        return [buffer(box, 0)]
    in_order = sorted(order, key=lambda i: next(n for n, b in enumerate(walked) if contains(parts[i], b)))
    ring = len(order) > 2 and drawing.chance(0.8)
    return [buffer(parts[i], ring_position if ring else 0) for ring_position, i in enumerate(in_order)]


def placed(drawing: Drawing, buffers: list[SharedBuffer]) -> list[SharedBuffer]:
    """With addresses; ring_positions of a ring take turns in two places."""
    rings: dict[tuple[str, tuple[int, int]], list[int]] = {}
    for i, b in enumerate(buffers):
        rings.setdefault((b.tensor, b.live), []).append(i)
    ring_of = {i: group for group in rings.values() if max(buffers[i].ring_position for i in group) > 1 for i in group}
    alone: list[SharedBuffer] = []
    index: dict[tuple[int, int], int] = {}
    for i, b in enumerate(buffers):
        group = ring_of.get(i)
        key = (i, 0) if group is None else (group[0], b.ring_position % 2 + 1)
        if key in index:
            continue
        index[key] = len(alone)
        size = (
            b.bytes
            if group is None
            else max(buffers[j].bytes for j in group if buffers[j].ring_position % 2 == b.ring_position % 2)
        )
        alone.append(SharedBuffer(b.tensor, b.box, b.memory, -1, size, b.live))
    places = addresses(drawing.machine, alone, drawing.rng)
    out: list[SharedBuffer] = []
    for i, b in enumerate(buffers):
        group = ring_of.get(i)
        key = (i, 0) if group is None else (group[0], b.ring_position % 2 + 1)
        at = places[index[key]]
        out.append(replace(b, address=at))
    return out
