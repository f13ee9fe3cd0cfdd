"""How long the matrix engine waits for the vector operator that makes its input, by the shape of its tiles.

A matrix operator can begin when the input of its first tile is there, and must not run ahead of the rest. Its producer,
alone on the vector engine, delivers tile by tile in its own order, and only after its last tile does the vector engine
turn to the results of the consumer: until then, there is room for ``d`` of them. With L cycles of the producer, the
share h of its tiles that the first tile of the consumer reads, and a consumer that takes T cycles, V of the vector
engine, for n tiles in c passes over all rows (one for each set of columns):

    wait = max(L h, L - T d / n, L - T (1 - h) / c, L + V - T)

An operator between them that makes nothing for the consumer only keeps the vector engine: h is 0, and c does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..ir.box import Box, Span
from ..ir.boxes import op_boxes_many, stack
from ..ir.graph import Graph, Op
from .tile_space import Shape
from .walk import last_tile


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
        return (last_tile(spans, self.box, self.sizes, self.order) + 1) / tiles


@dataclass(frozen=True)
class Overlap:
    """How a consumer overlaps with a producer that takes ``cycles``. By shape of the consumer's tiles: ``head``, the
    share of the producer that the first tile needs; ``early``, that of the consumer that needs no more than what is
    there before the producer's last tile; ``tiles``; ``vector``, busy cycles."""

    cycles: int
    head: NDArray[np.float64]
    early: NDArray[np.float64]
    tiles: NDArray[np.float64]
    vector: NDArray[np.float64]

    def wait(self, time: NDArray[np.float64], depth: int) -> NDArray[np.float64]:
        """Cycles that the consumer waits if it takes ``time`` with each of the shapes."""
        ahead = time * np.minimum(depth / self.tiles, self.early)
        return np.maximum.reduce([self.cycles * self.head, self.cycles - ahead, self.cycles + self.vector - time])


def overlap(lead: Lead, op: Op, graph: Graph, box: Box, shapes: Sequence[Shape], chosen: set[int]) -> Overlap:
    """Of ``op``, for ``box`` of its result; ``chosen``: dimensions that choose columns of the stationary operand."""
    assert op.anchor is not None
    tiles = np.array([shape.tiles for shape in shapes], dtype=np.float64)
    vector = np.array([shape.work.vector for shape in shapes], dtype=np.float64)
    if not lead.box:
        return Overlap(lead.cycles, np.zeros(len(shapes)), np.ones(len(shapes)), tiles, vector)
    first = [tuple(Span(s.lo, min(s.lo + n, s.hi)) for s, n in zip(box, shape.sizes, strict=True)) for shape in shapes]
    _, parts = op_boxes_many(op, graph.tensor, stack(first, len(box)))
    read = parts[op.stages[op.anchor].reads[0].tensor]
    head = np.where(read.present, lead.share(read.spans), 0.0)
    passes = np.array([_passes(box, shape, chosen) for shape in shapes], dtype=np.float64)
    return Overlap(lead.cycles, head, (1 - head) / passes, tiles, vector)


def _passes(box: Box, shape: Shape, chosen: set[int]) -> int:
    """How often a shape's walk goes over all rows."""
    counts = [-(-span.size // size) for span, size in zip(box, shape.sizes, strict=True)]
    rows = next((i for i, d in enumerate(shape.order) if d not in chosen and counts[d] > 1), len(shape.order))
    return prod(counts[d] for d in shape.order[:rows] if d in chosen)
