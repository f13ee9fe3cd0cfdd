"""Which loops of a stage that writes the result are split, and by how much, so that its tiles are the plan's.

A dimension of the result is written by one loop, or by several like the digits of a number (``64*h + d``). Tiles of
size ``T`` split the leading digit whose coefficient divides ``T``; the digits above it are split one by one, those
below are whole. Where tiles end in the middle of a digit, the loops are split into parts that do not, several of which
make up a tile. A stage that writes only a part of the result, as in a concatenation, may begin in the middle of a tile:
its loop gets a lead, points in front that do nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ...ir.box import Affine
from ...ir.semantics.tile_alignment import aligned_part
from .cell_spec import CellSpec
from .stage_spec import StageSpec
from .tile_plan import TilePlan

Leads = tuple[tuple[int, ...], ...]
"""For each stage and each of its loops, the points in front that do nothing."""


@dataclass(frozen=True)
class TileSplit:
    """Loop ``loop`` of a stage is split by ``size``, for the tiles of dimension ``dim`` of the result."""

    dim: int
    loop: int
    size: int


@dataclass(frozen=True)
class WriterGrid:
    """The splits of a stage that writes the result, the outermost loop first, and the leads of its loops."""

    splits: tuple[TileSplit, ...]
    leads: tuple[int, ...]


def writer_grid(spec: CellSpec, stage: StageSpec, plan: TilePlan) -> WriterGrid:
    """The splits of ``stage``, which writes the result."""
    splits: list[TileSplit] = []
    leads = [0] * len(stage.loops)
    for dim in plan.order:
        size = plan.sizes[dim]
        if size < spec.views[spec.output].shape[dim]:
            splits += _splits(stage, dim, stage.index[dim], size, leads)
    return WriterGrid(tuple(splits), tuple(leads))


def _splits(stage: StageSpec, dim: int, index: Affine, size: int, leads: list[int]) -> list[TileSplit]:
    digits = sorted(((c, loop) for loop, c in enumerate(index.coeffs) if c), reverse=True)
    step = aligned_part([c for c, _ in digits], size)
    above = [(c, loop) for c, loop in digits if c > step]
    if above and index.const % step:
        step = gcd(step, index.const)
        above = [(c, loop) for c, loop in digits if c > step]
    splits = [TileSplit(dim, loop, 1) for _, loop in above if stage.loops[loop].extent > 1]
    if len(above) == len(digits):
        return splits
    coefficient, loop = digits[len(above)]
    if not above:
        leads[loop] = index.const % step // coefficient
    if step // coefficient < stage.loops[loop].extent + leads[loop]:
        splits.append(TileSplit(dim, loop, step // coefficient))
    return splits
