"""The slots in which a fetch may be issued: those that begin some prefetch distances before its use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from .problem import LARGEST_CHUNK, ResidencyProblem

DISTANCE = LARGEST_CHUNK
"""A prefetch distance of 1 is the time that so many bytes take from main memory: it hides the longest fetch."""
DISTANCES: tuple[tuple[int, tuple[float, ...]], ...] = (
    (500, (0, 0.125, 0.25, 0.5, 1, 2, 4, 8)),
    (1500, (0, 0.25, 0.5, 1, 2, 4, 8)),
)
FEW_DISTANCES = (0, 0.5, 1, 2, 5)
"""By number of uses, the prefetch distances that the model offers: each about twice the one before, and fewer where
uses are many, so that a model has some ten thousand fetch literals at most. Chosen, not measured."""

FetchCandidates = Callable[[int, int], Sequence[int]]
"""By item and use: slots in which its fetch may be issued, in order, that of the use last."""


def fetch_candidates(problem: ResidencyProblem, distances: Sequence[float]) -> FetchCandidates:
    """Slots that begin ``distances`` times what :data:`DISTANCE` bytes take before the use, in computation alone."""
    starts = np.concatenate([[0], np.cumsum(problem.cycles)])
    unit = DISTANCE / problem.rate

    @cache
    def choose(i: int, k: int) -> Sequence[int]:
        item = problem.items[i]
        slot = item.uses[k].slot
        least = max(item.ready, item.uses[k - 1].slot + 1 if k else 0)
        targets = np.searchsorted(starts, starts[slot] - np.array(distances) * unit, side="right") - 1
        return sorted({max(int(f), least) for f in targets} | {slot})

    return choose


def affordable(problem: ResidencyProblem) -> FetchCandidates:
    """The fetch slots that a model of this size can afford."""
    uses = sum(len(item.uses) for item in problem.items)
    return fetch_candidates(problem, next((choice for most, choice in DISTANCES if uses <= most), FEW_DISTANCES))
