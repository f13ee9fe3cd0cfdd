"""A bound of one resource with what comes before its work and after it.

Let P be any set of works of a resource. None of them begins before the least of their heads, the resource is busy with
them for the sum of their cycles at least, and after the last of them there is the least of their tails (Carlier,
European Journal of Operational Research 11, 1982, of a single machine; several engines together, or a link that serves
several transfers at once, do no more than their peak rate either). So

    cycles >= min head(P) + work(P) + min tail(P)

and for given least head and tail, the best P are all works that have no less of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .latency_chains import Around


@dataclass(frozen=True)
class BusyBetween:
    """``work`` cycles of a resource, ``before`` them ``head`` and ``after`` them ``tail``."""

    head: float
    work: float
    tail: float

    @property
    def cycles(self) -> float:
        return self.head + self.work + self.tail


def busy_between(works: Sequence[tuple[float, Around]]) -> BusyBetween:
    """The largest of the bounds of all sets of works, each of which has its cycles."""
    largest = BusyBetween(0.0, 0.0, 0.0)
    if not works:
        return largest
    order = sorted(works, key=lambda work: -work[1].tail)
    cycles, heads, tails = (
        np.array(column) for column in zip(*((c, a.head, a.tail) for c, a in order), strict=True)
    )  # fmt: skip
    for head in np.unique(heads):
        inside = heads >= head
        done = np.cumsum(np.where(inside, cycles, 0.0))
        ends = np.where(inside, done + tails, 0.0)
        last = int(ends.argmax())
        largest = max(largest, BusyBetween(float(head), float(done[last]), float(tails[last])), key=lambda b: b.cycles)
    return largest
