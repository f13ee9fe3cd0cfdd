"""How what a core loads or stores is cut into copies, so that the first tiles need not wait for the last bytes.

The outermost dimensions are cut: each chunk is as contiguous as the whole, and tiles mostly come in that order. What
several cores load alike is copied once, to all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..box import Box, shape_of, volume
from .cell import tile_boxes

MOST_CHUNKS = 8
"""Chunks of a box at most; with each doubling, what has to be waited for halves, and less is gained."""
LEAST_CHUNK_BYTES = 1 << 13
"""Of a chunk, about: the latency of a copy must not outweigh what is gained."""


def chunk_sizes(box: Box, itemsize: int) -> tuple[int, ...]:
    """The extents of the chunks of ``box``; the last in a dimension may be smaller."""
    left = max(1, min(MOST_CHUNKS, volume(box) * itemsize // LEAST_CHUNK_BYTES))
    sizes: list[int] = []
    for extent in shape_of(box):
        size = -(-extent // min(left, max(1, extent)))
        sizes.append(max(1, size))
        left //= -(-extent // sizes[-1]) or 1
        left = max(1, left)
    return tuple(sizes)


def dma_chunks(box: Box, itemsize: int) -> list[Box]:
    """``box`` in chunks, in the order of their copies."""
    return tile_boxes(box, chunk_sizes(box, itemsize), tuple(range(len(box))))


def receivers(boxes: Iterable[Box | None]) -> dict[Box, list[int]]:
    """The cores that load each box, in one copy or broadcast; ``boxes``: what core 0, 1 … wants (``None``: nothing)."""
    cores: dict[Box, list[int]] = {}
    for core, box in enumerate(boxes):
        if box is not None:
            cores.setdefault(box, []).append(core)
    return cores


def interleaved(counts: Sequence[int]) -> list[tuple[int, int]]:
    """(which, chunk) for several boxes of ``counts`` chunks: those of one box spread evenly over the others'."""
    return sorted(
        ((position, chunk) for position, number in enumerate(counts) for chunk in range(number)),
        key=lambda turn: (turn[1] / counts[turn[0]], turn[0]),
    )
