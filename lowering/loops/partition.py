"""Loop partition: a condition that looks at one loop becomes the bounds of that loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .nest_tiles import NestTiles, TileAffine


def partition(nest: NestTiles) -> NestTiles:
    """The nest over the points where its conditions on single loops hold; tiles without such points do not run it.

    Conditions on several loops stay.
    """
    low, high = list(nest.low), list(nest.high)
    present = nest.present
    kept: list[TileAffine] = []
    for condition in nest.conditions:
        used = [a for a, c in enumerate(condition.coeffs) if c]
        if not used:
            present = present & (condition.const >= 0)
        elif len(used) == 1:
            (axis,) = used
            c = condition.coeffs[axis]
            if c > 0:
                low[axis] = np.maximum(low[axis], -(condition.const // c))
            else:
                high[axis] = np.minimum(high[axis], condition.const // -c + 1)
        else:
            kept.append(condition)
    for first, end in zip(low, high, strict=True):
        present = present & (first < end)
    return replace(nest, low=tuple(low), high=tuple(high), conditions=tuple(kept), present=present)
