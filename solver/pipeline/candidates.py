"""The multi-buffering degrees that may be chosen for the scratch buffers and the weights of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from ...ir.machine import Machine
from ..switches import ALL_ON, Disabled
from ..tiling.problem import WEIGHT_DEPTHS
from .problem import Footprint

SCRATCH_DEPTHS = (1, 2, 3, 4, 6, 8)
"""Versions of scratch; chosen: more than three help while the vector engine is with the operator before."""


@dataclass(frozen=True)
class DegreeCandidate:
    """Versions of scratch and of weights, and the bytes of all of them."""

    scratch: int
    weights: int
    bytes: int


def degrees(
    machine: Machine, footprint: Footprint, held: int, disabled: Disabled = ALL_ON
) -> Iterator[DegreeCandidate]:
    """All degrees that fit. The vector operator before holds ``held`` bytes of scratch.

    The two operators overlap only if their buffers lie apart, as their evaluation assumes: degrees of scratch for
    which there is no room beside the other's count only if none has room.
    """
    single = "multi-buffering" in disabled
    scratch = (1,)
    if footprint.scratch.versioned and not single:
        depths = WEIGHT_DEPTHS if "deep-scratch" in disabled else SCRATCH_DEPTHS
        room = machine.levels.sums.capacity - footprint.scratch.single
        version = footprint.scratch.versioned
        scratch = _fitting(depths, version, room - held) or _fitting(depths, version, room)
    weights = (1,)
    if footprint.weights and not single:
        weights = _fitting(WEIGHT_DEPTHS, footprint.weights, machine.levels.weights.capacity)
    for s, w in product(scratch, weights):
        yield DegreeCandidate(s, w, footprint.scratch.total(s) + w * footprint.weights)


def _fitting(depths: tuple[int, ...], version: int, room: int) -> tuple[int, ...]:
    return tuple(depth for depth in depths if depth * version <= room)
