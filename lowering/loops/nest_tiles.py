"""A perfect loop nest in all tiles at once: what differs from tile to tile is an array with a number for each.

Tiles of one operator run the same statements; the tile loops only move where these begin, and cut their loops at the
borders. Numbers that depend on tile loops are therefore arrays over the tiles, and a pass over a nest treats all tiles
in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ...ir.box import Affine, Span
from ...ir.semantics.box_arrays import Bool, Int
from .perfect_nest import Load, PerfectNest

Number = TypeVar("Number", np.int64, np.bool_)


@dataclass(frozen=True)
class TileAffine:
    """Σ coefficient · loop + ``const``, where the constant, of shape (tiles), may differ from tile to tile."""

    coeffs: tuple[int, ...]
    const: Int

    def moved(self, low: Sequence[Int]) -> TileAffine:
        """The same with each loop counted from ``low``."""
        return replace(self, const=self.const + sum(c * at for c, at in zip(self.coeffs, low, strict=True) if c))

    def limits(self, low: Sequence[Int], high: Sequence[Int]) -> tuple[Int, Int]:
        """The least and the greatest value in each tile, over loops from ``low`` to ``high``."""
        least = greatest = self.const
        for c, first, end in zip(self.coeffs, low, high, strict=True):
            if c:
                a, b = (first, end - 1) if c > 0 else (end - 1, first)
                least, greatest = least + c * a, greatest + c * b
        return least, greatest

    def scattered(self, tiles: Int, count: int) -> TileAffine:
        """The same among ``count`` tiles, where its own are number ``tiles``."""
        return TileAffine(self.coeffs, scattered(self.const, tiles, count))

    def at(self, tile: int, kept: Sequence[int]) -> Affine:
        """In one tile, over the ``kept`` loops; the others have the one point 0."""
        return Affine(tuple(self.coeffs[a] for a in kept) or (0,), int(self.const[tile]))


def scattered(values: NDArray[Number], tiles: Int, count: int) -> NDArray[Number]:
    """Values of some ``tiles`` among ``count``; zeros elsewhere."""
    out = np.zeros(count, dtype=values.dtype)
    out[tiles] = values
    return out


@dataclass(frozen=True)
class TileLoad:
    """``buffer[index...]``; where a condition fails (each must be >= 0) it yields ``fill``."""

    buffer: str
    index: tuple[TileAffine, ...]
    conditions: tuple[TileAffine, ...] = ()
    fill: float | None = None


@dataclass(frozen=True)
class NestTiles:
    """``buffer[index...] = func(*operands)`` in each tile, combined with the old value if ``combine`` is set.

    The loops run from ``low`` to ``high``; ``conditions`` (each >= 0) guard the store. Tiles that are not ``present``
    do not run it. For ``instruction`` and ``axes`` see :class:`~.perfect_nest.PerfectNest`.
    """

    low: tuple[Int, ...]
    high: tuple[Int, ...]
    buffer: str
    index: tuple[TileAffine, ...]
    func: str
    operands: tuple[TileLoad | float, ...]
    combine: str | None
    conditions: tuple[TileAffine, ...]
    present: Bool
    instruction: str = ""
    axes: tuple[str, ...] = ()

    @property
    def loads(self) -> tuple[TileLoad, ...]:
        return tuple(o for o in self.operands if isinstance(o, TileLoad))

    def mapped(self, change: Callable[[TileAffine], TileAffine]) -> NestTiles:
        """With every affine changed."""
        return replace(
            self,
            index=tuple(map(change, self.index)),
            operands=tuple(
                replace(o, index=tuple(map(change, o.index)), conditions=tuple(map(change, o.conditions)))
                if isinstance(o, TileLoad)
                else o
                for o in self.operands
            ),
            conditions=tuple(map(change, self.conditions)),
        )

    def selected(self, tiles: Int) -> NestTiles:
        """The same in some of the tiles."""
        return replace(
            self.mapped(lambda affine: TileAffine(affine.coeffs, affine.const[tiles])),
            low=tuple(bound[tiles] for bound in self.low),
            high=tuple(bound[tiles] for bound in self.high),
            present=self.present[tiles],
        )

    def scattered(self, tiles: Int, count: int) -> NestTiles:
        """The same among ``count`` tiles, where its own are number ``tiles``."""
        return replace(
            self.mapped(lambda affine: affine.scattered(tiles, count)),
            low=tuple(scattered(bound, tiles, count) for bound in self.low),
            high=tuple(scattered(bound, tiles, count) for bound in self.high),
            present=scattered(self.present, tiles, count),
        )

    def at(self, tile: int) -> PerfectNest:
        """The nest of one tile: without loops of one point, and without conditions that always hold there.

        All loops start at 0 (see :mod:`girih.lowering.loops.shift`).
        """
        extents = [int(bound[tile]) for bound in self.high]
        box = tuple(Span(0, extent) for extent in extents)
        kept = [a for a, extent in enumerate(extents) if extent > 1]

        def affine(value: TileAffine) -> Affine:
            return value.at(tile, kept)

        def open_conditions(conditions: tuple[TileAffine, ...]) -> tuple[Affine, ...]:
            every = (c for c in conditions if Affine(c.coeffs, int(c.const[tile])).over(box).lo < 0)
            return tuple(dict.fromkeys(map(affine, every)))

        return PerfectNest(
            extents=tuple(extents[a] for a in kept) or (1,),
            buffer=self.buffer,
            index=tuple(map(affine, self.index)),
            func=self.func,
            operands=tuple(
                Load(o.buffer, tuple(map(affine, o.index)), open_conditions(o.conditions), o.fill)
                if isinstance(o, TileLoad)
                else o
                for o in self.operands
            ),
            combine=self.combine,
            conditions=open_conditions(self.conditions),
            instruction=self.instruction,
            axes=tuple(self.axes[a] for a in kept) if any(self.axes) else (),
        )
