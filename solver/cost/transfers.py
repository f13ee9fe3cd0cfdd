"""What the cores bring in and send out, cut into portions: which copies there are, whatever they have to wait for.

All that is found here depends on boxes alone, so each answer is remembered: equal layers, and one plan after the other,
ask for the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ir.box import Box
from ...ir.graph import DTYPES
from ...ir.semantics.dma_chunks import in_turn, portions, receivers
from .instructions import Transfers


@dataclass(frozen=True)
class Group:
    """The ``cores`` that load the same ``box`` of a tensor, by one broadcast for each of its ``portions``."""

    box: Box
    cores: tuple[int, ...]
    portions: tuple[Box, ...]


@dataclass(frozen=True)
class Load:
    """All copies of one tensor to local memories; ``turns``: how many portions its largest box has."""

    groups: tuple[Group, ...]

    @cached_property
    def turns(self) -> int:
        return max((len(group.portions) for group in self.groups), default=0)


class Copies:
    """The copies of one machine's cores; ``transfers`` tells what each of them takes."""

    def __init__(self, transfers: Transfers) -> None:
        self.transfers = transfers
        self._loads: dict[tuple[tuple[Box | None, ...], str], Load] = {}
        self._portions: dict[tuple[Box, str], tuple[Box, ...]] = {}
        self._orders: dict[tuple[int, ...], list[tuple[int, int]]] = {}

    def load(self, boxes: tuple[Box | None, ...], dtype: str) -> Load:
        """How a tensor comes to the cores, each of which wants its box (``None``: nothing)."""
        key = (boxes, dtype)
        if key not in self._loads:
            found = receivers(boxes).items()
            self._loads[key] = Load(tuple(Group(b, tuple(cores), self.portions(b, dtype)) for b, cores in found))
        return self._loads[key]

    def portions(self, box: Box, dtype: str) -> tuple[Box, ...]:
        """See :func:`girih.ir.semantics.dma_chunks.portions`."""
        key = (box, dtype)
        if key not in self._portions:
            self._portions[key] = tuple(portions(box, DTYPES[dtype]))
        return self._portions[key]

    def order(self, loads: Sequence[Load]) -> list[tuple[int, int]]:
        """Which load's next portion is copied when: see :func:`girih.ir.semantics.dma_chunks.in_turn`."""
        key = tuple(load.turns for load in loads)
        if key not in self._orders:
            self._orders[key] = in_turn(key)
        return self._orders[key]
