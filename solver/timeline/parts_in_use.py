"""Until when parts of a buffer are in use by an operator that reads it tile by tile.

What comes to some bytes next waits for the tiles that read them, and for no later ones: where softmax goes through the
scores of one head after the other, values can be loaded over those of the first head while it is with the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from ...ir.semantics.box_arrays import Boxes

PARTS = 16
"""Of a buffer, equally large; chosen, not measured."""

PartsInUse = tuple[tuple[int, int, float], ...]
"""Bytes of a buffer, counted from its first: (from, up to, in use until)."""


def parts_in_use(reads: Boxes, shape: Sequence[int], item: int, until: Sequence[float]) -> PartsInUse:
    """Of a dense buffer with this ``shape`` of elements of ``item`` bytes; tile i is done with ``reads[i]`` then.

    Of what a tile reads, all bytes from the first to the last count.
    """
    ends = np.unique(item * prod(shape) * np.arange(PARTS + 1, dtype=np.int64) // PARTS)
    low, high = ends[:-1], ends[1:]
    strides = np.array([item * prod(shape[d + 1 :]) for d in range(len(shape))], dtype=np.int64)
    first = (reads.spans[:, :, 0] @ strides)[:, None]
    last = ((reads.spans[:, :, 1] - 1) @ strides + item)[:, None]
    read = reads.present[:, None] & (first < high) & (last > low)
    times: NDArray[np.float64] = np.where(read, np.array(until)[:, None], 0.0).max(axis=0)
    return tuple(zip(low.tolist(), high.tolist(), times.tolist(), strict=True))
