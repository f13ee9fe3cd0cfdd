"""What the cores bring in and send out, cut into DMA chunks: which copies there are, whatever they have to wait for.

All that is found here depends on boxes alone, so each answer is remembered: equal layers, and one plan after the other,
ask for the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ir.box import Box
from ...ir.graph import DTYPES
from ...ir.semantics.dma_chunks import dma_chunks, interleaved, receivers
from .instructions import Transfers


@dataclass(frozen=True)
class SharedLoad:
    """The ``cores`` that load the same ``box`` of a tensor, by one broadcast for each of its ``chunks``."""

    box: Box
    cores: tuple[int, ...]
    chunks: tuple[Box, ...]


@dataclass(frozen=True)
class TensorLoad:
    """All copies of one tensor to local memories; ``turns``: how many chunks its largest box has."""

    groups: tuple[SharedLoad, ...]

    @cached_property
    def turns(self) -> int:
        return max((len(group.chunks) for group in self.groups), default=0)


class Copies:
    """The copies of one machine's cores; ``transfers`` tells what each of them takes."""

    def __init__(self, transfers: Transfers) -> None:
        self.transfers = transfers
        self._loads: dict[tuple[tuple[Box | None, ...], str], TensorLoad] = {}
        self._chunks: dict[tuple[Box, str], tuple[Box, ...]] = {}
        self._orders: dict[tuple[int, ...], list[tuple[int, int]]] = {}

    def load(self, boxes: tuple[Box | None, ...], dtype: str) -> TensorLoad:
        """How a tensor comes to the cores, each of which wants its box (``None``: nothing)."""
        key = (boxes, dtype)
        if key not in self._loads:
            self._loads[key] = TensorLoad(
                tuple(SharedLoad(b, tuple(cores), self.chunks(b, dtype)) for b, cores in receivers(boxes).items())
            )
        return self._loads[key]

    def chunks(self, box: Box, dtype: str) -> tuple[Box, ...]:
        """See :func:`girih.ir.semantics.dma_chunks.dma_chunks`."""
        key = (box, dtype)
        if key not in self._chunks:
            self._chunks[key] = tuple(dma_chunks(box, DTYPES[dtype]))
        return self._chunks[key]

    def order(self, loads: Sequence[TensorLoad]) -> list[tuple[int, int]]:
        """Which load's next chunk is copied when: see :func:`girih.ir.semantics.dma_chunks.interleaved`."""
        key = tuple(load.turns for load in loads)
        if key not in self._orders:
            self._orders[key] = interleaved(key)
        return self._orders[key]
