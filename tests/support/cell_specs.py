"""Small operators in a cell, as specs: for tests of schedules."""

from __future__ import annotations

from girih.ir.box import Affine
from girih.lowering.schedule.cell_spec import CellSpec, byte_strides
from girih.lowering.schedule.stage_spec import (
    ACTIVATIONS_SCOPE,
    EXCHANGE_SCOPE,
    SUMS_SCOPE,
    LoopSpec,
    StageSpec,
    View,
    ViewRead,
)


def view(*shape: int, scope: str = ACTIVATIONS_SCOPE) -> View:
    return View(shape, byte_strides(shape, 4), "float32", scope, scope == SUMS_SCOPE)


def copy(name: str, shape: tuple[int, ...], source: int, target: int, index: tuple[Affine, ...]) -> StageSpec:
    """A stage that copies the element of each point to ``index``."""
    rank = len(shape)
    identity = tuple(Affine(tuple(int(a == d) for a in range(rank))) for d in range(rank))
    loops = tuple(LoopSpec(extent, False) for extent in shape)
    return StageSpec(name, loops, target, index, "copy", (ViewRead(source, identity, None),), None, None)


def plain(*shape: int) -> CellSpec:
    """A copy of an array."""
    index = tuple(Affine(tuple(int(a == d) for a in range(len(shape)))) for d in range(len(shape)))
    return CellSpec((view(*shape), view(*shape)), (copy("part0", shape, 0, 1, index),), 1, None)


def digits(high: int, low: int, const: int = 0, extent: int | None = None) -> CellSpec:
    """A copy of ``high`` rows of ``low`` elements to one dimension, from ``const`` on: ``low * h + l + const``."""
    views = view(high, low), view(extent or high * low + const)
    return CellSpec(views, (copy("part0", (high, low), 0, 1, (Affine((low, 1), const),)),), 1, None)


def product(m: int, k: int, n: int) -> CellSpec:
    """A product of matrices through a private accumulator, and a copy of it to the result."""
    i, j, c = Affine((1, 0, 0)), Affine((0, 1, 0)), Affine((0, 0, 1))
    loops = LoopSpec(m, False), LoopSpec(n, False), LoopSpec(k, True)
    operands = ViewRead(0, (i, c), None), ViewRead(1, (c, j), None)
    views = view(m, k), view(k, n, scope=EXCHANGE_SCOPE), view(m, n, scope=SUMS_SCOPE), view(m, n)
    first = StageSpec("part0", loops, 2, (i, j), "mul", operands, "sum", None)
    return CellSpec(views, (first, copy("part1", (m, n), 2, 3, (Affine((1, 0)), Affine((0, 1))))), 3, 0)


def row(extent: int, const: int) -> CellSpec:
    """A copy of a row into a longer one, from ``const`` on."""
    views = view(extent), view(extent + const)
    return CellSpec(views, (copy("part0", (extent,), 0, 1, (Affine((1,), const),)),), 1, None)
