"""Buffers of drawn plans in the memories of the cluster: which tensors have homes, and what is exchanged when."""

from __future__ import annotations

from itertools import pairwise

from girih.ir.box import Box, Span, full, volume
from girih.ir.plan import LocalBuffer, Segment, SharedBuffer, Step
from tests.support.plans.drawn.cluster_uses import Uses, hull_of, uses_of
from tests.support.plans.drawn.drawing import Drawing
from tests.support.plans.drawn.homes import homes_of
from tests.support.plans.drawn.weight_chunks import chunks, placed


def shared_buffers(
    drawing: Drawing, segments: tuple[Segment, ...], steps: tuple[Step, ...], local: tuple[LocalBuffer, ...]
) -> list[SharedBuffer]:
    graph, uses = drawing.graph, uses_of(drawing, segments, steps, local)
    with_home: list[str] = []
    wanted: list[SharedBuffer] = []
    for name in (tensor.name for tensor in graph.tensors):
        if name in graph.constant_names or name in graph.input_tensors or name in uses.by_host:
            with_home.append(name)
            wanted += _of_what_has_a_home(drawing, uses, name)
        elif name in uses.made:
            buffers = _of_result(drawing, uses, name)
            wanted += buffers
            with_home += [name] if any(b.store for b in buffers) else []
    buffers = placed(drawing, wanted)
    return [*homes_of(drawing, uses, with_home, buffers), *buffers]


def _of_what_has_a_home(drawing: Drawing, uses: Uses, name: str) -> list[SharedBuffer]:
    """Buffers of what is given to the network, or which the host reads or makes."""
    graph = drawing.graph
    given = name in graph.constant_names or name in graph.input_tensors
    mine, theirs, walked = (use.get(name, []) for use in (uses.made, uses.reads, uses.streams))
    wanted: list[SharedBuffer] = []
    ready = 1 + uses.made_by_host.get(name, -1)
    if mine:  # the host reads it
        for slot, box in mine:
            wanted += _buffers(drawing, uses, name, box, (slot, slot + 1), store=True)
        ready = 1 + max(slot for slot, _ in mine)
    loads = _loads(uses, name)
    if loads and drawing.chance(0.5):
        first = drawing.rng.randint(ready if not given else 0, min(u[0] for u in loads))
        whole = full(graph.tensor[name].shape)
        wanted += _buffers(drawing, uses, name, whole, (first, max(u[1] for u in loads)), fetch=True)
    else:
        for slot, end, box in theirs:
            wanted += _buffers(drawing, uses, name, box, (slot, end), fetch=True)
        for slot, boxes in walked:
            wanted += chunks(drawing, name, slot, boxes)
    return wanted


def _of_result(drawing: Drawing, uses: Uses, name: str) -> list[SharedBuffer]:
    """Buffers of what cores alone make: from the first step to the last, or by way of a home."""
    mine, loads = uses.made[name], _loads(uses, name)
    output = name in drawing.graph.output_tensors
    if loads and drawing.chance(0.5) and (not output or len(mine) == 1):
        live = (mine[0][0], max([mine[-1][0] + 1, *(u[1] for u in loads)]))
        return _buffers(drawing, uses, name, full(drawing.graph.tensor[name].shape), live, store=output)
    wanted: list[SharedBuffer] = []
    for slot, box in mine:
        wanted += _buffers(drawing, uses, name, box, (slot, slot + 1), store=True)
    for slot, end, box in loads:
        first = (
            drawing.rng.randint(max(s for s, _ in mine) + 1, slot)
            if drawing.chance(0.3) and mine[-1][0] < slot
            else slot
        )
        wanted += _buffers(drawing, uses, name, box, (first, end), fetch=True)
    return wanted


def _loads(uses: Uses, name: str) -> list[tuple[int, int, Box]]:
    """(first slot, end, hull) of each step that loads or streams a tensor."""
    streams = ((slot, slot + 1, hull_of(boxes)) for slot, boxes in uses.streams.get(name, []))
    return [*uses.reads.get(name, []), *streams]


def _buffers(
    drawing: Drawing, uses: Uses, name: str, box: Box, live: tuple[int, int], *, fetch: bool = False,
    store: bool = False,
) -> list[SharedBuffer]:  # fmt: skip
    """Tiles of weights lie in one buffer; everything else may lie in several. Addresses are still missing."""
    here = drawing.machine.levels.exchange.name
    return [
        SharedBuffer(name, part, here, -1, volume(part) * drawing.itemsize(name), live, fetch, store)
        for part in ([box] if name in uses.streams else _parts(drawing, box))
    ]


def _parts(drawing: Drawing, box: Box) -> list[Box]:
    """The box, or a few that divide it along one dimension."""
    wide = [d for d, span in enumerate(box) if span.size > 1]
    if not wide or drawing.chance(0.6):
        return [box]
    dim = drawing.rng.choice(wide)
    span = box[dim]
    inside = range(span.lo + 1, span.hi)
    cuts = [span.lo, *sorted(drawing.rng.sample(inside, min(len(inside), drawing.rng.randint(1, 2)))), span.hi]
    return [(*box[:dim], Span(lo, hi), *box[dim + 1 :]) for lo, hi in pairwise(cuts)]
