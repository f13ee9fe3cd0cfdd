"""One stage of an operator in a cell, and the views of tensors that it accesses."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.box import Affine

ACTIVATIONS_SCOPE, SUMS_SCOPE, WEIGHTS_SCOPE, EXCHANGE_SCOPE = "global.l1", "local.im", "global.l1w", "global.llb"
"""The storage scopes of TIR, by the level that is meant: the same for every machine, because templates name them.

To TVM, what begins with ``global`` is the same for all threads, with ``local`` each thread's own.
"""


@dataclass(frozen=True)
class View:
    """The box of a tensor that a cell works on; ``strides`` in bytes, ``scope`` is where it lies."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    scope: str
    private: bool


@dataclass(frozen=True)
class ViewRead:
    """``views[view][index...]``, or ``fill`` outside of the view (``None``: never outside)."""

    view: int
    index: tuple[Affine, ...]
    fill: float | None


@dataclass(frozen=True)
class LoopSpec:
    """One loop of a stage: how many points, and whether the stage combines over them."""

    extent: int
    reduce: bool


@dataclass(frozen=True)
class StageSpec:
    """The points of one stage in the cell: ``views[write][index...] = combine(func(*operands))``.

    ``name`` is that of its block in TIR.
    """

    name: str
    loops: tuple[LoopSpec, ...]
    write: int
    index: tuple[Affine, ...]
    func: str
    operands: tuple[ViewRead | float, ...]
    combine: str | None
    start: ViewRead | None
    """What a combination adds to."""
