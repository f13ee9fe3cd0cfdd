"""Weights on their way to the matrix engine: where they may be cut, and circular buffers for those too large.

A constant that is only ever the stationary operand of the matrix engine is read tile by tile, in the order of the
tile walk. It may lie in several buffers (chunks) as long as each tile lies in one of them: so it is cut along one
dimension, where no tile of any core crosses the cut.

A *circular buffer* holds only two chunks at a time for each part of the operand that cores read side by side:

    chunk      0   1   2   3   4        in the order of the walk
    region     A   B   A   B   A        chunk 2 is fetched into A when the last tile of chunk 0 is done

A chunk is then a box of consecutive tiles of the walk. This works if no chunk is met twice, and all cores go from one
chunk to the next at the same step of the walk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....ir.box import Box, Span, overlap, volume
from ....ir.graph import DTYPES, Graph, Op, Tensor
from ....ir.plan import Segment, Tile, TileCut
from ....ir.semantics.box_arrays import Boxes, Int, op_boxes_many, stationary_walk, tile_walk
from ....ir.semantics.cell import Cells
from ....ir.semantics.region import not_followed
from ...cost.local_buffers import round_up
from .tensor_partition import hull_of

MOST_WEIGHT_CHUNKS = 400
"""Chunks that a circular buffer may fetch in one slot. Each becomes a buffer of the plan and a transfer; more would
only mean that the operator is tiled badly for it. Chosen, not measured."""


@dataclass(frozen=True)
class StationaryWalk:
    """The tiles of the stationary operand that one core meets: run ``i`` of equal tiles begins at step ``start[i]``."""

    boxes: Boxes
    start: Int
    length: int

    @cached_property
    def hull(self) -> Box | None:
        return self.boxes.hull()


@dataclass(frozen=True)
class ChunkFetch:
    """One fetch into a circular buffer: region ``ring_position % 2`` of the part ``part``."""

    ring_position: int
    part: int
    box: Box
    bytes: int


@dataclass(frozen=True)
class CircularBuffer:
    """All fetches of one operand in one slot, in order; ``bytes`` are those of the regions."""

    chunks: tuple[ChunkFetch, ...]
    bytes: int

    @property
    def traffic(self) -> int:
        """Bytes fetched."""
        return sum(v.bytes for v in self.chunks)

    @property
    def first_phase_bytes(self) -> int:
        """Bytes that must be there before the walk begins."""
        return sum(v.bytes for v in self.chunks if v.ring_position == 0)

    @property
    def ring_positions(self) -> int:
        return max(v.ring_position for v in self.chunks) + 1


class StationaryWalks:
    """The walks of all cores for an operator in an instance, computed on demand; equal operators share them."""

    def __init__(self, graph: Graph, cells: Cells) -> None:
        self.graph = graph
        self.cells = cells
        self._known: dict[tuple[int, TileCut, Box], StationaryWalk] = {}
        self._free: dict[int, frozenset[int]] = {}

    def by_core(self, segment: Segment, op: Op, instance: int) -> list[StationaryWalk]:
        """One walk for each core that runs ``op``."""
        walks: list[StationaryWalk] = []
        for cell in self.cells.row(segment, instance):
            if op.name in cell.ops:
                walks.append(self._walk(op, segment.tile[op.name], cell.ops[op.name].tensors[op.output]))
        return walks

    def _walk(self, op: Op, tile: Tile, box: Box) -> StationaryWalk:
        free = self._unrelated(op)
        # Where the operand does not follow, only the number of tiles counts: cores share their walks.
        box = tuple(Span(0, span.size) if d in free else span for d, span in enumerate(box))
        key = (self.cells.classes.class_of[op.name], tile.cut, box)
        if key not in self._known:
            assert op.contraction is not None
            points, _ = op_boxes_many(op, self.graph.tensor, tile_walk(box, tile.sizes, tile.order))
            tiles = stationary_walk(op, self.graph.tensor, points[op.contraction], tile.reduce)
            fresh = np.ones(len(tiles), dtype=np.bool_)
            fresh[1:] = (tiles.spans[1:] != tiles.spans[:-1]).any(axis=(1, 2))
            runs = np.flatnonzero(fresh & tiles.present)
            self._known[key] = StationaryWalk(tiles.select(runs), runs.astype(np.int64), len(tiles))
        return self._known[key]

    def _unrelated(self, op: Op) -> frozenset[int]:
        """The dimensions of the result that the stationary operand does not follow."""
        number = self.cells.classes.class_of[op.name]
        if number not in self._free:
            self._free[number] = not_followed(op, self.graph.tensor, op.stationary)
        return self._free[number]


def distinct(walks: Iterable[StationaryWalk]) -> list[StationaryWalk]:
    """Each walk once, in order: hundreds of instances share theirs, each of up to a hundred thousand tiles."""
    return list({id(walk): walk for walk in walks}.values())


def cut_points(walks: Iterable[StationaryWalk], dim: int, whole: Span) -> list[int]:
    """Where dimension ``dim`` may be cut, both ends of ``whole`` included: nowhere inside of a tile."""
    tiles = np.concatenate([walk.boxes.spans[walk.boxes.present][:, dim] for walk in walks])
    length = max(whole.hi, int(tiles.max(initial=0))) + 2
    # Walks come by the same tiles again and again: equal ones are counted, which sorts nothing.
    begun, ended = (np.bincount(at, minlength=length) for at in (tiles[:, 0] + 1, tiles[:, 1]))
    free = np.cumsum(begun - ended) == 0
    middle = np.flatnonzero(free[whole.lo + 1 : whole.hi]) + whole.lo + 1
    return [whole.lo, *(int(p) for p in middle), whole.hi]


def split_at(box: Box, dim: int, allowed: Sequence[int], limit: int) -> list[Box]:
    """``box`` cut along ``dim`` at some of the ``allowed`` places, into pieces of ``limit`` points where possible."""
    span = box[dim]
    row = volume(box) // max(1, span.size)
    places = [p for p in allowed if span.lo < p < span.hi] + [span.hi]
    pieces: list[Box] = []
    lo, last = span.lo, span.lo
    for place in places:
        if (place - lo) * row > limit and last > lo:
            pieces.append((*box[:dim], Span(lo, last), *box[dim + 1 :]))
            lo = last
        last = place
    pieces.append((*box[:dim], Span(lo, span.hi), *box[dim + 1 :]))
    return pieces


def burst_traffic(tensor: Tensor, box: Box, burst: int) -> int:
    """Bytes that a link moves for a box in main memory: whole bursts of each contiguous run."""
    size = DTYPES[tensor.dtype]
    run = size
    for span, extent in zip(reversed(box), reversed(tensor.shape), strict=True):
        run *= span.size
        if span.size < extent:
            break
    return volume(box) * size // run * round_up(run, burst)


def weight_chunks(tensor: Tensor, walks: Sequence[StationaryWalk], limit: int, burst: int = 1) -> list[Box]:
    """The operand cut into buffers of at most ``limit`` bytes if possible, along the dimension that does it best.

    ``walks`` are those of all cores and instances that read it, shared ones once (:func:`distinct`).

    Columns are put together to whole bursts of main memory where that saves at least a quarter of what it moves, also
    beyond the limit: 32 columns of one byte take the time of 64.
    """
    whole = hull_of(walk.hull for walk in walks)
    if whole is None:
        return []
    size = DTYPES[tensor.dtype]
    if volume(whole) * size <= limit:
        return [whole]
    options = [split_at(whole, d, cut_points(walks, d, whole[d]), limit // size) for d in range(len(whole))]
    best = min(options, key=lambda pieces: max(limit, max(volume(p) for p in pieces) * size))
    last = len(whole) - 1
    if best is not options[last]:
        return best
    full = split_at(whole, last, _burst_ends(cut_points(walks, last, whole[last]), size, burst), limit // size)
    moved, least = (sum(burst_traffic(tensor, piece, burst) for piece in pieces) for pieces in (best, full))
    return full if len(full) > 1 and 4 * least <= 3 * moved else best


def _burst_ends(places: Sequence[int], size: int, burst: int) -> list[int]:
    """The first and last of some places in a row of elements, and between them those at which bursts end."""
    kept = [places[0]]
    for place in places[1:-1]:
        if (place - kept[-1]) * size % burst == 0:
            kept.append(place)
    return [*kept, places[-1]]


def first_use(walk: StationaryWalk, box: Box) -> float | None:
    """The share of the walk, 0 to 1, that passes before its core needs a tile in ``box``; ``None`` if it needs none."""
    lows = np.array([s.lo for s in box])
    highs = np.array([s.hi for s in box])
    meets = np.all((walk.boxes.spans[:, :, 0] < highs) & (walk.boxes.spans[:, :, 1] > lows), axis=1)
    return int(walk.start[int(np.argmax(meets))]) / max(1, walk.length) if meets.any() else None


def circular_buffer(
    tensor: Tensor, walks: Sequence[StationaryWalk], limit: int, alignment: int = 1
) -> CircularBuffer | None:
    """The circular buffer with the fewest positions of at most ``limit`` bytes if possible, else ``None``."""
    size = DTYPES[tensor.dtype]
    parts = sorted({w.hull for w in walks if w.hull is not None})
    if not parts or any(overlap(a, b) for n, a in enumerate(parts) for b in parts[:n]):
        return None
    orders: dict[Box, list[Box]] = {}
    timings: list[Int] = []
    for walk in walks:
        part = walk.hull
        if part is None:
            continue
        order, starts = _pieces(walk, limit // size // len(parts))
        if orders.setdefault(part, order) != order or len(set(order)) < len(order) or len(order) > MOST_WEIGHT_CHUNKS:
            return None
        timings.append(np.append(starts, walk.length))
    if not _in_step(timings):
        return None
    fetches = sorted(
        (
            ChunkFetch(position, parts.index(part), box, round_up(volume(box) * size, alignment))
            for part, order in orders.items()
            for position, box in enumerate(order)
        ),
        key=lambda v: (v.ring_position, v.part),
    )
    regions: dict[tuple[int, int], int] = {}
    for v in fetches:
        regions[v.part, v.ring_position % 2] = max(regions.get((v.part, v.ring_position % 2), 0), v.bytes)
    return CircularBuffer(tuple(fetches), sum(regions.values()))


def _pieces(walk: StationaryWalk, most: int) -> tuple[list[Box], Int]:
    """Consecutive tiles that make a box, of at most ``most`` points if possible, and the steps at which they begin.

    First tiles along the innermost loop are put together, then rows of them, and so on.
    """
    spans, starts = walk.boxes.spans[walk.boxes.present], walk.start[walk.boxes.present]
    while True:
        sizes = np.prod(spans[:, :, 1] - spans[:, :, 0], axis=1)
        same = (spans[1:] == spans[:-1]).all(axis=2)
        touching = spans[1:, :, 0] == spans[:-1, :, 1]
        next_to = ((same | touching).all(axis=1) & (same.sum(axis=1) == same.shape[1] - 1)).tolist()
        along = np.argmin(same, axis=1).tolist()
        firsts, held, dim = [0], int(sizes[0]), -1
        for i, size in enumerate(sizes[1:].tolist()):
            if next_to[i] and dim in (-1, along[i]) and held + size <= most:
                held, dim = held + size, along[i]
            else:
                firsts.append(i + 1)
                held, dim = size, -1
        if len(firsts) == len(spans):
            return [tuple(Span(lo, hi) for lo, hi in box) for box in spans.tolist()], starts
        lasts = [*(f - 1 for f in firsts[1:]), len(spans) - 1]
        spans = np.stack([spans[firsts, :, 0], spans[lasts, :, 1]], axis=2)
        starts = starts[firsts]


def _in_step(timings: list[Int]) -> bool:
    """Whether all cores begin each position at the same step of the walk, or have ended by then.

    Of each core, where its positions begin, and where its walk ends.
    """
    begins = max(timings, key=len)
    return all(
        np.array_equal(of_core[:-1], begins[: len(of_core) - 1])
        and (len(of_core) == len(begins) or of_core[-1] <= begins[len(of_core) - 1])
        for of_core in timings
    )
