"""What the residency model decides, and when slots begin if so decided."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

STALL_WEIGHT = 16
"""Cycles of traffic with main memory that one cycle of the makespan is worth. Chosen, not measured: the makespan has to
dominate, and traffic decides among decisions that are about equally fast."""


class NoFetch(Enum):
    """Why a use of an item needs no fetch."""

    RETAINED = "retained"
    """The data is still in the shared memory since the use before."""
    RESIDENT = "resident"
    """The data is part of an intermediate tensor that never left the shared memory."""
    CIRCULAR = "circular"
    """A circular buffer brings the data."""


Source = int | NoFetch
"""The slot in which the fetch for a use is issued, or why there is none."""


@dataclass(frozen=True)
class Decisions:
    """``resident``: by intermediate, whether it stays in the shared memory for its life. ``source[i][k]``: for use
    ``k`` of item ``i``. ``circular``: by streamed operand and slot, the number of the circular buffer that is used."""

    resident: tuple[bool, ...]
    source: tuple[tuple[Source, ...], ...]
    circular: dict[tuple[str, int], int]


@dataclass(frozen=True)
class ResidencyTiming:
    """In cycles: ``begin`` of each slot and of what follows the last, the ``end`` of everything, and the ``traffic`` of
    the link."""

    begin: tuple[int, ...]
    end: int
    traffic: int

    @property
    def objective(self) -> int:
        """What the residency model minimises."""
        return STALL_WEIGHT * self.end + self.traffic
