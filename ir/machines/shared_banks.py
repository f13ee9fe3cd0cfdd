"""Cores that load the same at one time meet on the banks that hold it, if these give less than the cores take.

Banks that take turns by an interleave serve together what is spread over all of them. Cores that load the same weights
get what the few banks that hold these serve: 48 KB are in 12 blocks of 4 KiB, and thus in 12 banks of 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..machine import Level, Machine, Memory

Bytes: TypeAlias = "float | NDArray[np.float64] | NDArray[np.int64]"
"""Of one thing or of many."""


@dataclass(frozen=True)
class ReachedBanks:
    """``banks`` that take turns by a ``block`` of so many bytes and serve ``served`` bytes a cycle each.

    Without an interleave, ``block`` is 0: what lies in one bank is not known before there are addresses.
    """

    banks: int
    block: int
    served: float

    @staticmethod
    def from_memory(memory: Memory) -> ReachedBanks:
        return ReachedBanks(memory.banks, memory.interleave or 0, float(memory.bytes_per_cycle))

    def rate(self, size: Bytes) -> Bytes:
        """Bytes a cycle that are read of a range of ``size`` bytes which begins with a block, all parts of it alike.

        The fullest bank sets the pace: it holds a block of each round over all banks.
        """
        if not self.block:
            return self.served * self.banks
        size = np.maximum(1, size)
        rounds, rest = np.divmod(size, self.banks * self.block)
        return size / (rounds * self.block + np.minimum(rest, self.block)) * self.served


def bytes_for_all_banks(machine: Machine, source: Level, target: Level) -> int | None:
    """How many bytes of a shared memory cores have to load at one time to be served by all of its banks.

    ``None`` if it does not matter: where the banks of the ``source`` do not take turns, where one engine brings what
    several cores want, and where one bank gives what all of them together take.
    """
    memory = source.memory
    if machine.cores == 1 or not memory.interleave or machine.moves("broadcast", source, target):
        return None
    read = [x.bytes_per_cycle for x in machine.links if memory.name in x.memories and x.direction != "write"]
    load_rate = min([machine.cores * machine.mover("copy", source, target).bytes_per_cycle, *read])
    if min(load_rate, memory.bytes_per_cycle * memory.banks) <= memory.bytes_per_cycle:
        return None
    return memory.banks * memory.interleave
