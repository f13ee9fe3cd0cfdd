"""Which operands of concatenations are made, or loaded, where the concatenation lies: as many as there is room for.

Nothing is copied then, so the vector engine has less to do, and what waits for the whole waits less. But the common
buffer has the extent of its largest part. Where halos make parts much larger than the whole, a buffer for all of them
takes more than buffers one after the other would. So a chain of concatenations falls into pieces: a part lies inside
only if the buffer does not grow by more than one part in so many of the whole, the most that fits.

This is a rule, and no decision by cycles: the buffer is held from its first part on, and what is loaded to its place
comes in shorter pieces, which may cost more than the copy that is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...ir.box import Box, volume
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment
from ...ir.semantics.cell import Cell, Cells, count
from ...ir.semantics.concat_aliasing import (
    ConcatAlias,
    allocation_extents,
    concat_aliases,
    possible_aliases,
    root_aliases,
)
from ...ir.semantics.in_place import replaced
from ..cost.local_buffers import data_buffers, in_place_groups

GROWTHS = (None, 1 / 4, 1 / 8, 1 / 16, 0.0)
"""By how much of itself a buffer may grow for the halos of its parts, from the first that fits; ``None``: any. Chosen,
not measured."""


def with_inside(graph: Graph, cells: Cells, machine: Machine, segment: Segment) -> Segment:
    """The segment with the most tensors inside others that fit the local memory; it must have its tiles."""
    bare = replace(segment, aliased=())
    if graph.op[segment.ops[0]].host is not None:
        return bare
    possible = possible_aliases(graph, [graph.op[name] for name in segment.ops])
    if not possible:
        return bare
    middle = cells.cell(bare, count(bare.instances) // 2, count(bare.cores) // 2)
    attempts: set[tuple[str, ...]] = {()}
    for growth in GROWTHS:
        candidate = replace(bare, aliased=_within(possible, middle, growth))
        if candidate.aliased in attempts:
            continue
        attempts.add(candidate.aliased)
        if _peak(graph, cells, machine, candidate) <= machine.levels.activations.capacity:
            return candidate
    return bare


def _within(possible: Mapping[str, ConcatAlias], cell: Cell, growth: float | None) -> tuple[str, ...]:
    """Of what is found, that for which no buffer grows more; beginning with the last concatenation."""
    chosen: dict[str, ConcatAlias] = {}
    for name, where in reversed(list(possible.items())):
        if name not in cell.tensors or where.parent not in cell.tensors:
            continue
        more = {**chosen, name: where}
        if growth is None or _largest(more, cell.tensors, where.parent) <= growth:
            chosen = more
    return tuple(name for name in possible if name in chosen)


def _largest(possible: Mapping[str, ConcatAlias], boxes: Mapping[str, Box], name: str) -> float:
    """By how much the buffer in which ``name`` lies is larger than its outermost tensor, as a share of that."""
    if name in possible:
        name = root_aliases(possible)[name].parent
    return volume(allocation_extents(possible, boxes)[name]) / volume(boxes[name]) - 1


def _peak(graph: Graph, cells: Cells, machine: Machine, segment: Segment) -> int:
    """The most bytes of data in use at once."""
    before = replaced(graph, [graph.op[name] for name in segment.ops], concat_aliases(graph, segment))
    load = [0] * len(segment.ops)
    for group in in_place_groups(data_buffers(graph, cells, machine, 0, segment), before):
        for position in range(group[0].live[0], group[-1].live[1]):
            load[position] += max(b.bytes for b in group)
    return max(load)
