"""What of a lowering is kept for the next one: the instructions of an operator in a cell, by what they follow from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..ir.codec import from_json, sha256, to_json
from .emission.kernel import EmittedKernel
from .emission.vector import Emitted, StationaryFetch
from .loops.tile_boxes import AccessedBoxes
from .schedule.cell_spec import CellSpec
from .schedule.tile_plan import TilePlan


class KernelStore(Protocol):
    """Entries by key, which is the SHA-256 of operator, cell and tile; the store adds machine and compiler to it."""

    def get(self, key: str) -> bytes | None:
        """The content of an entry, or ``None``."""
        ...

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Keep entries."""
        ...


@dataclass(frozen=True)
class TileClasses:
    """All tiles of an operator in a cell: tile i runs ``kernels[class_of[i]]``, and ``boxes`` says where it lies.

    ``versions[buffer][i]`` is the version that tile i takes of a multi-buffered buffer.
    """

    kernels: tuple[EmittedKernel, ...]
    class_of: tuple[int, ...]
    boxes: dict[str, AccessedBoxes]
    versions: dict[str, np.ndarray]


@dataclass(frozen=True)
class _Step:
    """An instruction or a copy; JSON has no choice of two."""

    emitted: Emitted | None = None
    fetch: StationaryFetch | None = None


@dataclass(frozen=True)
class _Boxes:
    low: np.ndarray
    high: np.ndarray
    present: np.ndarray


@dataclass(frozen=True)
class _Entry:
    kernels: tuple[tuple[_Step, ...], ...]
    class_of: tuple[int, ...]
    boxes: dict[str, _Boxes]
    versions: dict[str, np.ndarray]


def kernel_key(spec: CellSpec, plan: TilePlan) -> str:
    """What the tiles of an operator follow from, besides machine and compiler."""
    return sha256((spec, plan))


def encoded(tiles: TileClasses) -> bytes:
    """An entry of a store."""
    steps = tuple(
        tuple(_Step(fetch=s) if isinstance(s, StationaryFetch) else _Step(emitted=s) for s in kernel.steps)
        for kernel in tiles.kernels
    )
    boxes = {name: _Boxes(box.low, box.high, box.present.astype(np.uint8)) for name, box in tiles.boxes.items()}
    return to_json(_Entry(steps, tiles.class_of, boxes, tiles.versions))


def decoded(data: bytes) -> TileClasses:
    """Read back what :func:`encoded` wrote; raises :class:`~girih.ir.errors.UsageError` for anything else."""
    entry = from_json(data, _Entry)
    kernels = tuple(
        EmittedKernel(tuple(s for step in steps if (s := step.emitted or step.fetch) is not None))
        for steps in entry.kernels
    )
    boxes = {n: AccessedBoxes(box.low, box.high, box.present.astype(np.bool_)) for n, box in entry.boxes.items()}
    return TileClasses(kernels, entry.class_of, boxes, entry.versions)
