"""The plan's decisions for one operator in one cell: what a schedule template applies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TilePlan:
    """How the result of a cell is cut into tiles, and what each tile does.

    ``sizes``: the tile's extent in each dimension of the result; ``order``: the dimensions, the outermost loop first.
    ``reduce``: extents into which the reduce loops of the contraction on the matrix engine are cut, in their order.
    ``degrees``: for each buffer of the accumulator or weight memory, by its name in TIR, how many versions of it
    successive tiles take in turn (its multi-buffering degree); one that is not named has one.
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    reduce: tuple[int, ...] = ()
    degrees: tuple[tuple[str, int], ...] = ()
