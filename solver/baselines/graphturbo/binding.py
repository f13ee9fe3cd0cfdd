"""Core binding: which dimensions of an instance's result the cores share (Zhao et al., algorithm 4, "plain")."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from ....ir.plan import Split


def divisors(number: int) -> list[int]:
    """All divisors, the largest first."""
    return [d for d in range(number, 0, -1) if number % d == 0]


def bind(extents: Sequence[int], cores: int) -> tuple[Split, ...]:
    """As many cores as divide each dimension evenly, from the outermost dimension to the innermost.

    The published algorithm also carries bindings from consumers to producers, and moves a result to the shared memory
    where the two disagree. Here whatever leaves a segment is in the shared memory in any case, so each segment has its
    plain binding, which never uses fewer cores.
    """
    splits: list[Split] = []
    remaining_cores = cores
    for dim, extent in enumerate(extents):
        parts = gcd(extent, remaining_cores)
        if parts > 1:
            splits.append(Split(dim, parts))
            remaining_cores //= parts
    return tuple(splits)
