"""What each tile accesses of each buffer, and its nests in coordinates that begin there.

Two tiles that differ only in where they lie then have equal nests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...ir.semantics.box_arrays import Bool, Int
from .nest_tiles import NestTiles, TileAffine


@dataclass(frozen=True)
class AccessedBoxes:
    """The box of a buffer that each tile accesses, in bounds: ``low`` and ``high`` of shape (tiles, dimensions).

    Tiles that do not access it are not ``present``.
    """

    low: Int
    high: Int
    present: Bool

    @property
    def extents(self) -> Int:
        return np.where(self.present[:, None], self.high - self.low, 0)


def accessed_boxes(nests: Sequence[NestTiles], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, AccessedBoxes]:
    """The boxes of all buffers in ``shapes`` that the nests access."""
    boxes: dict[str, AccessedBoxes] = {}
    for nest in nests:
        for buffer, index in ((nest.buffer, nest.index), *((load.buffer, load.index) for load in nest.loads)):
            part = _accessed(nest, index, shapes[buffer])
            boxes[buffer] = hull(boxes[buffer], part) if buffer in boxes else part
    return boxes


def _accessed(nest: NestTiles, index: Sequence[TileAffine], shape: tuple[int, ...]) -> AccessedBoxes:
    low = np.empty((len(nest.present), len(shape)), dtype=np.int64)
    high = np.empty_like(low)
    for dim, (affine, bound) in enumerate(zip(index, shape, strict=True)):
        least, greatest = affine.limits(nest.low, nest.high)
        np.maximum(least, 0, out=low[:, dim])
        np.minimum(greatest + 1, bound, out=high[:, dim])
    return AccessedBoxes(low, high, nest.present & (low < high).all(axis=1))


def hull(a: AccessedBoxes, b: AccessedBoxes) -> AccessedBoxes:
    """The smallest boxes that contain both."""
    both, only_b = a.present & b.present, b.present & ~a.present
    low = np.where(only_b[:, None], b.low, np.where(both[:, None], np.minimum(a.low, b.low), a.low))
    high = np.where(only_b[:, None], b.high, np.where(both[:, None], np.maximum(a.high, b.high), a.high))
    return AccessedBoxes(low, high, a.present | b.present)


def relative(nest: NestTiles, boxes: Mapping[str, AccessedBoxes]) -> NestTiles:
    """The nest with every index counted from the corner of the tile's box of the buffer."""

    def inside(buffer: str, index: tuple[TileAffine, ...]) -> tuple[TileAffine, ...]:
        low = boxes[buffer].low
        return tuple(TileAffine(i.coeffs, i.const - low[:, dim]) for dim, i in enumerate(index))

    return replace(
        nest,
        index=inside(nest.buffer, nest.index),
        operands=tuple(
            o if isinstance(o, float | int) else replace(o, index=inside(o.buffer, o.index)) for o in nest.operands
        ),
    )
