"""The data of model 4 that are not the tile walk itself: bytes of buffers, and what the vector engine did before."""

from __future__ import annotations

from dataclasses import dataclass

from ..cost.scratch import ScratchBytes


@dataclass(frozen=True)
class Footprint:
    """What the scratch buffers of an operator take, and bytes of one version of its weights; 0 where it has none."""

    scratch: ScratchBytes
    weights: int


@dataclass(frozen=True)
class PrecedingWork:
    """What keeps the vector engine right before a matrix operator: ``cycles`` that it takes, and after which of them
    the input of each tile is there (empty: the tiles wait for none of it)."""

    cycles: int
    ready: tuple[int, ...]


NO_PRECEDING_WORK = PrecedingWork(0, ())
