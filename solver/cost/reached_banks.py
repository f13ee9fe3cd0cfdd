"""What the banks of a memory give to cores that read the same range of it at one time.

Banks that take turns by an interleave serve together what is spread over all of them. Cores that load the same weights
meet on the few banks that hold these: 48 KB are in 12 blocks of 4 KiB, and 32 cores get of them what 12 banks serve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...ir.machine import Memory

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
    def of(memory: Memory) -> ReachedBanks:
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
