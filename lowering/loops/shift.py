"""Loop shift: every loop starts at zero, and indices and conditions begin where the loop did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .nest_tiles import NestTiles


def shift(nest: NestTiles) -> NestTiles:
    """The same points, counted from zero."""
    moved = nest.mapped(lambda affine: affine.moved(nest.low))
    high = tuple(end - first for first, end in zip(nest.low, nest.high, strict=True))
    return replace(moved, low=tuple(np.zeros_like(first) for first in nest.low), high=high)
