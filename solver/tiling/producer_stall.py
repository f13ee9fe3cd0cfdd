"""How long the matrix engine waits for the vector operator that makes its input, by the shape of its tiles.

A matrix operator can begin when the input of its first tile is there, and must not run ahead of the rest. Its producer,
alone on the vector engine, delivers tile by tile in its own order, and only after its last tile does the vector engine
turn to the results of the consumer: until then, there is room for ``d`` of them. With L cycles of the producer, the
share h_i of its tiles that must be done before tile i of the consumer, and a consumer that takes T cycles, V of the
vector engine, for n tiles:

    wait = max(L h_i - T i / n for each i, L - T d / n, L + V - T)

Not every tile is looked at, but those with which something new is read, see :func:`_milestones`. An operator between
them that makes nothing for the consumer only keeps the vector engine: all h_i are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ...ir.box import Box, Span
from ...ir.graph import Graph, Op
from ...ir.semantics.box_arrays import op_boxes_many, stack
from ..cost.tile_walk import last_tiles
from .candidates import Shape


@dataclass(frozen=True)
class Lead:
    """A producer: the ``cycles`` that it takes for ``box`` of its result, in tiles of ``sizes`` in ``order``.

    Without a box it is no producer: it only keeps the vector engine busy. ``scratch``: bytes of its private buffers.
    """

    cycles: int
    box: Box = ()
    sizes: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    scratch: int = 0

    def share(self, spans: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of the tiles, the share that is done when ``spans[i]`` (dimensions x (lo, hi)) is there, for each i."""
        tiles = prod(-(-span.size // size) for span, size in zip(self.box, self.sizes, strict=True))
        return (last_tiles(spans, self.box, self.sizes, self.order) + 1) / tiles


@dataclass(frozen=True)
class Overlap:
    """How a consumer overlaps with a producer that takes ``cycles``.

    By shape of the consumer's tiles (rows) and for some of them (columns): ``need``, the share of the producer that has
    to be done, and ``place``, that of the consumer which comes before. By shape: ``tiles``; ``vector``, busy cycles.
    """

    cycles: int
    need: NDArray[np.float64]
    place: NDArray[np.float64]
    tiles: NDArray[np.float64]
    vector: NDArray[np.float64]

    def wait(self, time: NDArray[np.float64], depth: int) -> NDArray[np.float64]:
        """Cycles that the consumer waits if it takes ``time`` with each of the shapes."""
        needed = (self.cycles * self.need - time[:, np.newaxis] * self.place).max(axis=1)
        room = self.cycles - time * np.minimum(depth / self.tiles, 1.0)
        return np.maximum.reduce([needed, room, self.cycles + self.vector - time])


def producer_overlap(lead: Lead, op: Op, graph: Graph, box: Box, shapes: Sequence[Shape]) -> Overlap:
    """Of ``op``, for ``box`` of its result."""
    assert op.contraction is not None
    tiles = np.array([shape.tiles for shape in shapes], dtype=np.float64)
    vector = np.array([shape.work.vector for shape in shapes], dtype=np.float64)
    if not lead.box:
        return Overlap(lead.cycles, np.zeros((len(shapes), 1)), np.zeros((len(shapes), 1)), tiles, vector)
    looked = [_milestones(box, shape) for shape in shapes]
    boxes = [_tile(box, shape, i) for shape, milestones in zip(shapes, looked, strict=True) for i in milestones]
    _, parts = op_boxes_many(op, graph.tensor, stack(boxes, len(box)))
    read = parts[op.stages[op.contraction].reads[0].tensor]
    shares = np.where(read.present, lead.share(read.spans), 0.0).tolist()
    most = max(map(len, looked))
    need, place = np.zeros((len(shapes), most)), np.zeros((len(shapes), most))
    done = 0
    for row, (shape, milestones) in enumerate(zip(shapes, looked, strict=True)):
        need[row, : len(milestones)] = shares[done : done + len(milestones)]
        place[row, : len(milestones)] = [i / shape.tiles for i in milestones]
        done += len(milestones)
    return Overlap(lead.cycles, need, place, tiles, vector)


def _counts(box: Box, shape: Shape) -> list[int]:
    """How many tiles there are in each dimension, outermost loop first."""
    return [-(-box[d].size // shape.sizes[d]) for d in shape.order]


def _milestones(box: Box, shape: Shape) -> list[int]:
    """The first tile, and the last one of each loop's first pass over what is inside it; likewise half-way through the
    outermost loop, and at its last iteration."""
    counts = [n for n in _counts(box, shape) if n > 1]
    inner = [prod(counts[i:]) for i in range(1, len(counts) + 1)]
    starts = sorted({0, counts[0] // 2 * inner[0], (counts[0] - 1) * inner[0]}) if counts else [0]
    return sorted({s + i for s in starts for i in (0, *(n - 1 for n in inner))} | {shape.tiles - 1})


def _tile(box: Box, shape: Shape, number: int) -> Box:
    """Tile ``number`` of a walk."""
    spans = list(box)
    for d, n in zip(reversed(shape.order), reversed(_counts(box, shape)), strict=True):
        number, place = divmod(number, n)
        low = box[d].lo + place * shape.sizes[d]
        spans[d] = Span(low, min(low + shape.sizes[d], box[d].hi))
    return tuple(spans)
