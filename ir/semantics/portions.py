"""What a plan's transfers mean: the portions that a box is copied in, who receives them, and who issues a broadcast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from ..box import Box
from .cell import Cell, tile_boxes

Wanted = TypeVar("Wanted")

EMPTY = Cell({}, {}, {})
"""What a core does that no cell runs on."""


def portions(box: Box, extents: tuple[int, ...]) -> list[Box]:
    """``box`` in portions of these ``extents``, in the order of their copies: row-major."""
    return tile_boxes(box, extents, tuple(range(len(box))))


def on_cores(cells: Sequence[Cell], cell_cores: Sequence[int], cores: int) -> tuple[Cell, ...]:
    """What each of so many cores runs of an instance; ``cell_cores``: the core of each of its ``cells``.

    The host's operators have an empty cell, which runs on no core.
    """
    placed = [EMPTY] * cores
    for cell, core in zip(cells, cell_cores, strict=False):
        placed[core] = cell
    return tuple(placed)


def receivers(wanted: Iterable[Wanted | None], broadcast: bool) -> list[tuple[Wanted, list[int]]]:
    """What is copied, each with the cores that one copy of it goes to.

    ``wanted``: a box, or a box and where it goes, for core 0, 1 … (``None``: nothing). What several want alike is one
    ``broadcast``, if the machine has them, and a copy for each of them if not.
    """
    cores: dict[tuple[Wanted, int], list[int]] = {}
    for core, want in enumerate(wanted):
        if want is not None:
            cores.setdefault((want, 0 if broadcast else core), []).append(core)
    return [(want, receiving) for (want, _), receiving in cores.items()]


def interleaved(counts: Sequence[int]) -> list[tuple[int, int]]:
    """(which, portion) for several boxes of ``counts`` portions: those of one spread evenly over the others'."""
    return sorted(
        ((position, portion) for position, number in enumerate(counts) for portion in range(number)),
        key=lambda turn: (turn[1] / counts[turn[0]], turn[0]),
    )


class BroadcastTurns:
    """Who issues the broadcasts of one operand in a segment, one after the other; each group of receivers has turns."""

    def __init__(self, issuers: Sequence[int]) -> None:
        self._issuers = issuers
        self._counts: dict[tuple[int, ...], int] = {}

    def issuer(self, cores: Sequence[int]) -> int:
        """The core that issues the next copy to these ``cores``; to one core alone it is that core."""
        count = self._counts.get(tuple(cores), 0)
        self._counts[tuple(cores)] = count + 1
        return cores[self._issuers[count % len(self._issuers)] % len(cores)]
