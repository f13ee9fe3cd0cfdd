"""Fetch slots follow from what is kept: fetches are issued in the order of use, as soon as link and memory are free.

Slots are played in their order, by the clock of :mod:`.evaluation`. In each, what it uses and is not there comes first;
then, until the slot ends, what later slots use first. Nothing is issued before the link can serve it, so that it takes
no memory meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from .decisions import Decisions, NoFetch
from .evaluation import ItemFetch, circular_transfers, effects, fetch_of, held_bytes, stored_cycles
from .problem import ResidencyProblem

PASSED_OVER = (0, 9)
"""How many fetches that find no room may be passed over by later ones in each slot: both are tried. Chosen."""


def with_fetch_slots(
    problem: ResidencyProblem, room: NDArray[np.int64], decisions: Decisions, passed_over: int
) -> Decisions:
    """The decisions with all fetches as early as they can be; the bytes of all fit into ``room``.

    They must fit with each fetch in the slot of its use. ``passed_over``: see :data:`PASSED_OVER`.
    """
    late = tuple(
        tuple(s if isinstance(s, NoFetch) else use.slot for s, use in zip(row, item.uses, strict=True))
        for row, item in zip(decisions.source, problem.items, strict=True)
    )
    at_use = replace(decisions, source=late)
    return _Play(problem, room, at_use).decisions(passed_over)


class _Play:
    """The clock of the link and of the slots; ``decided``: with each fetch in the slot of its use."""

    def __init__(self, problem: ResidencyProblem, room: NDArray[np.int64], decided: Decisions) -> None:
        self.problem = problem
        self.decided = decided
        self.free = room - held_bytes(len(room), effects(problem, decided))
        self.source = [list(row) for row in decided.source]
        self.least = [0] * len(room)
        self.link = 0

    def decisions(self, passed_over: int) -> Decisions:
        """See :func:`with_fetch_slots`."""
        problem = self.problem
        stores, circular = stored_cycles(problem, self.decided.resident), circular_transfers(problem, self.decided)
        coming = self._coming()
        waiting: list[tuple[tuple[int, int, int], ItemFetch]] = []
        begin = 0
        for s, cycles in enumerate(problem.cycles):
            for fetch in coming.get(s, ()):
                heappush(waiting, (fetch.order, fetch))
            self.link = max(self.link, begin) + stores[s]
            while waiting and waiting[0][1].use == s:
                self._issue(s, heappop(waiting)[1])
            moved = sum(transfer.cycles for transfer in circular[s])
            end = max(begin + cycles, self.least[s])
            for transfer in circular[s]:
                end = max(end, self.link + transfer.before + cycles, self.link + moved + transfer.remaining)
            # The link is idle after the last chunk of a circular buffer, and late chunks delay the slot.
            last = end - moved - min((transfer.remaining for transfer in circular[s]), default=0)
            passed: list[ItemFetch] = []
            while waiting and self.link < last and len(passed) <= passed_over:
                fetch = heappop(waiting)[1]
                fits = bool((self.free[s : fetch.use] >= problem.items[fetch.i].bytes).all())
                if fits and (not moved or self.link + fetch.cycles <= last):
                    self._issue(s, fetch)
                else:
                    passed.append(fetch)
            for fetch in passed:
                heappush(waiting, (fetch.order, fetch))
            self.link += moved
            begin = end
        return replace(self.decided, source=tuple(tuple(row) for row in self.source))

    def _issue(self, slot: int, fetch: ItemFetch) -> None:
        self.link += fetch.cycles
        self.source[fetch.i][fetch.k] = slot
        self.free[slot : fetch.use] -= self.problem.items[fetch.i].bytes
        self.least[fetch.use] = max(self.least[fetch.use], self.link + fetch.remaining)

    def _coming(self) -> dict[int, list[ItemFetch]]:
        """All fetches, by the first slot in which they can be issued."""
        coming: defaultdict[int, list[ItemFetch]] = defaultdict(list)
        for i, (item, row) in enumerate(zip(self.problem.items, self.decided.source, strict=True)):
            for k, source in enumerate(row):
                if not isinstance(source, NoFetch):
                    coming[item.earliest(k)].append(fetch_of(self.problem, i, k))
        return coming
