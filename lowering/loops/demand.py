"""Stores that nothing reads are cut off.

TVM's schedule computes all of a private buffer for each tile where several loops write a dimension together, like
digits, where padding is read, and where it could not bind a reduction; see :mod:`girih.lowering.schedule.prim_func`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...ir.semantics.box_arrays import cover_digits
from .nest_tiles import NestTiles
from .tile_boxes import AccessedBoxes, accessed_boxes, hull


def demand(nests: Sequence[NestTiles], private: Mapping[str, tuple[int, ...]]) -> list[NestTiles]:
    """The nests; those that write ``private`` buffers (of these shapes) do what later ones of the tile read."""
    wanted: dict[str, AccessedBoxes] = {}
    narrowed: list[NestTiles] = []
    for nest in reversed(nests):
        needed = _narrowed(nest, wanted[nest.buffer]) if nest.buffer in wanted else nest
        narrowed.append(needed)
        for load in needed.loads:
            if load.buffer in private:
                read = replace(needed, buffer=load.buffer, index=load.index, operands=())
                part = accessed_boxes([read], private)[load.buffer]
                wanted[load.buffer] = hull(wanted[load.buffer], part) if load.buffer in wanted else part
    return narrowed[::-1]


def _narrowed(nest: NestTiles, wanted: AccessedBoxes) -> NestTiles:
    dims = [d for d, affine in enumerate(nest.index) if any(affine.coeffs)]
    if not dims:
        return nest
    points = np.stack([np.stack([first, end], axis=1) for first, end in zip(nest.low, nest.high, strict=True)], axis=1)
    extents = [int(end.max(initial=1)) for end in nest.high]
    for dim in dims:
        affine = nest.index[dim]
        terms = sorted(((c, loop) for loop, c in enumerate(affine.coeffs) if c), reverse=True)
        cover_digits(points, terms, extents, wanted.low[:, dim] - affine.const, wanted.high[:, dim] - affine.const)
    present = nest.present & wanted.present & (points[:, :, 0] < points[:, :, 1]).all(axis=1)
    points = np.where(present[:, None, None], points, 0)
    loops = range(len(nest.high))
    low, high = (tuple(points[:, loop, end] for loop in loops) for end in (0, 1))
    return replace(nest, low=low, high=high, present=present)
