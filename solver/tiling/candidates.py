"""What the tile of an operator can be: candidate sizes, with the exact work and the exact buffers of each.

Tiles follow memory: in the dimensions that do not choose the columns of the stationary operand, a tile is one element
of some outer dimensions, a part of one dimension, and all of the inner ones; so it is in those that do. Parts need not
divide: they come from cutting an extent into nearly equal pieces, of columns in multiples of the array's. What a tile
needs of private buffers, and what is computed twice because tiles overlap in them, follows from its boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product, zip_longest
from math import prod

import numpy as np

from ...ir.box import Box, Span, shape_of, volume
from ...ir.graph import DTYPES, FLOATS, Graph, Op, contraction_axes
from ...ir.semantics.box_arrays import Boxes, Int, op_boxes_many, stack
from ...ir.semantics.region import OpBoxes, op_boxes
from ...ir.semantics.tile_alignment import aligned_size
from ..cost.local_buffers import ROW_VERSIONS, row_room, rows_by_tile
from ..cost.operator import EngineWork, OpCost
from ..cost.scratch import ScratchBytes, scratch_lower_bound, tile_rooms
from ..switches import ALL_ON, Disabled

MOST_TILES_OF_CANDIDATE = 512
"""Candidates with more tiles are only considered if nothing with fewer fits. Chosen, not measured."""
MOST_PARTS = 128
"""An extent is cut into so many nearly equal parts at most. Chosen, not measured."""
MOST_CHANNEL_PARTS = 4
"""Of the innermost reduced loop, the channels of a convolution, with all others in each. Chosen, not measured."""


@dataclass(frozen=True)
class Shape:
    """A tile of the output: ``sizes`` and ``order`` as in a plan's tile.

    ``tiles``: how many. ``changes``: how often the columns of the stationary operand change in that order, and
    ``sets`` how many different ones there are. ``work``: of all tiles, with the reduction in one piece. ``scratch``:
    what the private buffers of the largest tile take. ``columns``: elements of the stationary operand for one point of
    the reduction. ``apart``: for each reduce axis, the cycles of the matrix engine if each position of it is a tile of
    the reduction (:meth:`..cost.operator.OpCost.apart`); no numbers where that saves nothing. ``rows``: bytes of a
    tile of the constant that is read by rows, if that comes tile by tile, and ``row_loads`` how often one comes.
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    tiles: int
    changes: int
    sets: int
    work: EngineWork
    scratch: ScratchBytes
    columns: int
    apart: tuple[int, ...] = ()
    rows: int = 0
    row_loads: int = 0


@dataclass(frozen=True)
class Reduction:
    """``sizes`` of the tiles of the reduce axes, their number, and the points of the largest.

    ``apart``: the axes of which each tile has one position of several, with how many there are.
    """

    sizes: tuple[int, ...]
    count: int
    points: int
    apart: tuple[tuple[int, int], ...] = ()


def useful_sizes(extent: int, unit: int = 1) -> list[int]:
    """Sizes of a part of ``extent``, largest first: nearly equal cuts, rounded up to multiples of ``unit``."""
    cuts = [*range(1, 13), 16, 24, 32, 48, 64, 96, MOST_PARTS]
    sizes = (-(-extent // parts) for parts in cuts if parts <= extent)
    return sorted({min(extent, -(-size // unit) * unit) for size in sizes}, reverse=True)


def chains(extents: Sequence[int], unit: int = 1) -> list[tuple[int, ...]]:
    """Tiles of some dimensions: ones, then a part, then everything; ``unit`` is for the innermost."""
    tiles: dict[tuple[int, ...], None] = {}
    last = len(extents) - 1
    for cut in range(len(extents)):
        for size in useful_sizes(extents[cut], unit if cut == last else 1):
            tiles.setdefault((*(1 for _ in range(cut)), size, *extents[cut + 1 :]))
    return list(tiles) or [()]


def reductions(op: Op, cost: OpCost, part: OpBoxes, also: tuple[int, ...] = ()) -> list[Reduction]:
    """Cuts of the reduction of the anchor, with that into tiles of sizes ``also``; one whole piece for what the vector
    engine runs."""
    if op.contraction is None:
        return [Reduction((), 1, 1)]
    points = part.points[op.contraction]
    extents = [points[a].size for a in contraction_axes(op.stages[op.contraction]).k]
    if cost.contraction is None:
        return [Reduction(tuple(extents), 1, prod(extents))]
    cuts = chains(extents)
    # Of two or more reduced loops, a part of the last one, whatever it is, and all of the others: of a convolution, a
    # part of the channels and all positions of the kernel, of which integers leave out those in padding one by one.
    in_parts = len(extents) > 1 and cost.dtypes[op.stages[op.contraction].reads[0].tensor] not in FLOATS
    shorter = (-(-extents[-1] // parts) for parts in range(2, MOST_CHANNEL_PARTS + 1)) if in_parts else ()
    cuts = list(dict.fromkeys([*cuts, *((*extents[:-1], size) for size in shorter)]))
    if also and also not in cuts:
        cuts.append(also)
    return [_reduction(extents, sizes) for sizes in cuts]


def _reduction(extents: Sequence[int], sizes: tuple[int, ...]) -> Reduction:
    axes = list(zip(extents, sizes, strict=True))
    apart = tuple((axis, extent) for axis, (extent, size) in enumerate(axes) if size == 1 < extent)
    return Reduction(sizes, prod(-(-extent // size) for extent, size in axes), prod(sizes), apart)


def column_dims(op: Op, graph: Graph, cost: OpCost, box: Box) -> tuple[set[int], set[int]]:
    """(dimensions of the output that choose columns alone, those that choose anything of the stationary operand)."""
    if cost.contraction is None:
        return set(), set()
    roles = contraction_axes(op.stages[cost.contraction])
    whole = shape_of(op_boxes(op, graph.tensor, box).points[cost.contraction])
    columns: set[int] = set()
    chosen: set[int] = set()
    for d, span in enumerate(box):
        if span.size == 1:
            continue
        single = (*box[:d], Span(span.lo, span.lo + 1), *box[d + 1 :])
        shape = shape_of(op_boxes(op, graph.tensor, single).points[cost.contraction])
        shrunk = {a for a, (x, y) in enumerate(zip(shape, whole, strict=True)) if x < y}
        if shrunk & {*roles.n, *roles.batch}:
            chosen.add(d)
            if not shrunk & {*roles.m, *roles.batch}:
                columns.add(d)
    return columns, chosen


def largest(boxes: Sequence[Box]) -> Box:
    """The box with the most points; among equals the one in the middle, where nothing is cut off."""
    most = max(volume(b) for b in boxes)
    equal = [b for b in boxes if volume(b) == most]
    return equal[len(equal) // 2]


def tile_shapes(
    op: Op, graph: Graph, cost: OpCost, boxes: Sequence[Box], capacity: int, *, all_sizes: bool = False,
    also: tuple[int, ...] = (), disabled: Disabled = ALL_ON,
) -> list[Shape]:  # fmt: skip
    """The candidates for ``boxes`` of the output, judged by the largest, whose private buffers fit ``capacity`` bytes
    once.

    With ``all_sizes`` single elements and any number of tiles are considered too; tiles of the sizes ``also`` always.
    """
    box = largest(boxes)
    columns, chosen = column_dims(op, graph, cost, box)
    extents = shape_of(box)
    others = [tuple(dict.fromkeys(spans)) for spans in zip(*boxes, strict=True)]
    inner = [d for d in range(len(extents)) if d in columns]
    outer = [d for d in range(len(extents)) if d not in columns]
    # Heads inside of the rows, as in the context of an attention: a tile may be all rows of one head.
    rows = next((i for i, d in enumerate(outer) if d not in chosen and extents[d] > 1), len(outer))
    heads = [d for d in outer[rows:] if d in chosen] if "heads-in-rows" not in disabled else []
    outer = [d for d in outer if d not in heads]
    sizes: dict[tuple[int, ...], None] = {}
    unit = cost.matrix.columns if cost.contraction is not None else 1
    groups = [(outer, 1), (heads, 1), (inner, unit)]
    for parts in product(*(chains([extents[d] for d in dims], unit) for dims, unit in groups)):
        tile = [0] * len(extents)
        for (dims, _), part in zip(groups, parts, strict=True):
            for d, size in zip(dims, part, strict=True):
                # Tiles in the middle of a digit are right, and slow.
                tile[d] = size if size == extents[d] else aligned_size(op, d, size, box[d], others[d])
        if prod(-(-e // s) for e, s in zip(extents, tile, strict=True)) <= MOST_TILES_OF_CANDIDATE or all_sizes:
            sizes.setdefault(tuple(tile))
    if all_sizes:
        sizes.setdefault(tuple(1 for _ in extents))
    if also:
        sizes.setdefault(also)
    shapes = _evaluated(op, graph, cost, box, list(sizes), capacity, chosen)
    if "stationary-first" in disabled:
        return [s for s in shapes if s.order == tuple(range(len(extents)))]
    return shapes


def _evaluated(
    op: Op, graph: Graph, cost: OpCost, box: Box, sizes: list[tuple[int, ...]], capacity: int, chosen: set[int]
) -> list[Shape]:
    kinds = [_kinds(box, s) for s in sizes]
    owner = [i for i, of_size in enumerate(kinds) for _ in of_size]
    points, parts = op_boxes_many(op, graph.tensor, stack([b for of_size in kinds for b, _ in of_size], len(box)))
    versioned, single = _scratch(op, cost, parts, len(owner))
    cell = op_boxes(op, graph.tensor, box).tensors
    times = [n for of_size in kinds for _, n in of_size]
    by_rows = rows_by_tile(graph, cost.machine, op) if cost.contraction is not None else ""
    held = cost.bytes(by_rows, cell.get(by_rows)) if by_rows else 0
    room = row_room(graph, cost.machine, by_rows) if by_rows else 0
    following = _following(op, graph, by_rows, box) if held > room else set[int]()
    shapes: list[Shape] = []
    row = 0
    for i, size in enumerate(sizes):
        rows = range(row, row + len(kinds[i]))
        row += len(kinds[i])
        largest = ScratchBytes(*(int(scratch[rows.start : rows.stop].max()) for scratch in (versioned, single)))
        if largest.total(1) > capacity:
            largest = _tightest(op, cost, parts, rows, capacity)
            if largest.total(1) > capacity:
                continue
        tile_rows = 0
        if held > room:
            tile_rows = max(cost.bytes(by_rows, parts[by_rows].box(r)) for r in rows)
            if ROW_VERSIONS * tile_rows > room:
                continue
        work, columns = EngineWork(), 0
        apart: tuple[int, ...] = ()
        for r in rows:
            boxes = {n: b.box(r) for n, b in parts.items() if b.present[r]}
            part = OpBoxes(tuple(p.box(r) for p in points), boxes)
            work = work.plus(cost.work(part, cell), times[r])
            apart = _plus(apart, cost.apart(part, cell), times[r])
            columns = max(columns, _columns(cost, part))
        counts = tuple(-(-s.size // n) for s, n in zip(box, size, strict=True))
        for order in _orders(counts, chosen, following):
            again = prod(counts[d] for d in order[: _last(order, counts, following) + 1]) if tile_rows else 0
            changes = prod(counts[d] for d in order[: _last(order, counts, chosen) + 1])
            sets = prod(counts[d] for d in chosen)
            shapes.append(
                Shape(size, order, prod(counts), changes, sets, work, largest, columns, apart, tile_rows, again)
            )
    return shapes


def _plus(cycles: tuple[int, ...], more: tuple[int, ...], times: int) -> tuple[int, ...]:
    """Axis by axis, the cycles of tiles and those of ``times`` as many of another kind; no numbers count as 0."""
    return tuple(one + times * other for one, other in zip_longest(cycles, more, fillvalue=0))


def _scratch(op: Op, cost: OpCost, parts: Mapping[str, Boxes], tiles: int) -> tuple[Int, Int]:
    """Bytes of the versioned private buffers of each tile, and of all others."""
    alignment = cost.machine.levels.sums.alignment
    nothing = np.zeros(tiles, dtype=np.int64)
    sizes = {
        b.name: -(-(parts[b.name].volumes * DTYPES[b.dtype]) // alignment) * alignment
        for b in op.buffers
        if b.name in parts
    }
    versioned = sum((sizes.get(name, nothing) for name in cost.rooms.versioned), nothing)
    rooms = (reduce(np.maximum, (sizes.get(name, nothing) for name in room)) for room in cost.rooms.shared)
    return versioned, sum(rooms, nothing)


def _tightest(op: Op, cost: OpCost, parts: Mapping[str, Boxes], rows: range, capacity: int) -> ScratchBytes:
    """What the private buffers of these tiles take in rooms of their own, if those may fit ``capacity`` bytes."""
    alignment = cost.machine.levels.sums.alignment
    tiles = slice(rows.start, rows.stop)
    sizes = {b.name: int(parts[b.name].volumes[tiles].max()) * DTYPES[b.dtype] for b in op.buffers if b.name in parts}
    least = scratch_lower_bound(op, cost.engine, sizes, alignment)
    if least > capacity:
        return ScratchBytes(single=least)
    return tile_rooms(op, cost.engine, sizes, alignment).bytes(sizes, alignment)


def _kinds(box: Box, sizes: tuple[int, ...]) -> list[tuple[Box, int]]:
    """The kinds of tiles of a box (whole, or cut off at the end of some dimensions), and how many of each there are."""
    options: list[list[tuple[Span, int]]] = []
    for span, size in zip(box, sizes, strict=True):
        whole, rest = divmod(span.size, size)
        cuts: list[tuple[Span, int]] = []
        if whole:
            low = span.lo + size * ((whole - 1) // 2)
            cuts.append((Span(low, low + size), whole))
        if rest:
            cuts.append((Span(span.hi - rest, span.hi), 1))
        options.append(cuts)
    return [(tuple(s for s, _ in kind), prod(n for _, n in kind)) for kind in product(*options)]


def _columns(cost: OpCost, part: OpBoxes) -> int:
    """Elements of the stationary operand of a part for one point of its reduction."""
    if cost.contraction is None or cost.stationary is None or cost.stationary not in part.tensors:
        return 0
    axes = contraction_axes(cost.op.stages[cost.contraction]).k
    return -(
        -volume(part.tensors[cost.stationary]) // max(1, prod(part.points[cost.contraction][a].size for a in axes))
    )


def _following(op: Op, graph: Graph, name: str, box: Box) -> set[int]:
    """The dimensions of the output that choose the rows of a constant."""
    whole = op_boxes(op, graph.tensor, box).tensors[name]
    following: set[int] = set()
    for d, span in enumerate(box):
        single = (*box[:d], Span(span.lo, span.lo + 1), *box[d + 1 :])
        if span.size > 1 and op_boxes(op, graph.tensor, single).tensors[name] != whole:
            following.add(d)
    return following


def _orders(counts: tuple[int, ...], chosen: set[int], rows: set[int]) -> list[tuple[int, ...]]:
    """Row-major; and, where it differs, first what chooses the stationary operand, so that it is loaded seldom; or
    first what chooses ``rows`` of a constant that come tile by tile."""
    orders = _column_orders(counts, chosen)
    natural = tuple(range(len(counts)))
    first = (*(d for d in natural if d in rows), *(d for d in natural if d not in rows))
    kept = [[d for d in order if counts[d] > 1] for order in orders]
    return orders if not rows or [d for d in first if counts[d] > 1] in kept else [*orders, first]


def _column_orders(counts: tuple[int, ...], chosen: set[int]) -> list[tuple[int, ...]]:
    natural = tuple(range(len(counts)))
    cut = [d for d in natural if counts[d] > 1]
    stationary = (*(d for d in natural if d in chosen), *(d for d in natural if d not in chosen))
    same = [d for d in stationary if counts[d] > 1] == cut
    return [natural] if same else [natural, stationary]


def _last(order: tuple[int, ...], counts: tuple[int, ...], chosen: set[int]) -> int:
    """The position in ``order`` of the innermost loop that changes the stationary operand (-1: none)."""
    return max((i for i, d in enumerate(order) if d in chosen and counts[d] > 1), default=-1)
