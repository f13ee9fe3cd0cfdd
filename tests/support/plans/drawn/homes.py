"""Homes of tensors in drawn plans: one behind another, or at addresses that others had before."""

from __future__ import annotations

from dataclasses import replace

from girih.ir.box import full
from girih.ir.plan import SharedBuffer
from tests.support.plans.drawn.addresses import addresses, round_up
from tests.support.plans.drawn.cluster_uses import Uses
from tests.support.plans.drawn.drawing import Drawing


def homes_of(drawing: Drawing, uses: Uses, names: list[str], buffers: list[SharedBuffer]) -> list[SharedBuffer]:
    """A home for each of the tensors, which ``buffers`` fetch from and store to."""
    level, top = drawing.machine.levels.home, 0
    homes: list[SharedBuffer] = []
    for tensor in (drawing.graph.tensor[name] for name in names):
        live = (0, uses.slots)
        homes.append(SharedBuffer(tensor.name, full(tensor.shape), level.name, top, max(1, tensor.bytes), live))
        top += round_up(tensor.bytes, level.alignment)
    if drawing.of_homes.random() < 0.7:
        return _sharing(drawing, homes, _accesses(uses, buffers))
    return homes


def _accesses(uses: Uses, buffers: list[SharedBuffer]) -> dict[str, tuple[int, int]]:
    """By tensor: the first slot that accesses its home, and the last."""
    slots = {name: list(found) for name, found in uses.by_host.items()}
    for buffer in buffers:
        if buffer.fetch or buffer.store:
            slots.setdefault(buffer.tensor, []).append(buffer.live[0])
    return {name: (min(found), max(found)) for name, found in slots.items()}


def _sharing(drawing: Drawing, homes: list[SharedBuffer], spans: dict[str, tuple[int, int]]) -> list[SharedBuffer]:
    """Homes of results live as long as they must, or a little longer, at addresses that others had before."""
    rng, graph = drawing.of_homes, drawing.graph
    kept = graph.constant_names | graph.input_tensors | graph.output_tensors
    lived: list[SharedBuffer] = []
    for home in homes:
        slots = home.live[1]
        if home.tensor not in kept and home.tensor in spans:
            first, last = spans[home.tensor]
            longer = rng.choice([0, 0, 0, 1, 2]), rng.choice([0, 0, 0, 1, 2])
            home = replace(home, live=(max(0, first - longer[0]), min(slots, last + 1 + longer[1])))
        lived.append(home)
    return [replace(b, address=at) for b, at in zip(lived, addresses(drawing.machine, lived, rng), strict=True)]
