"""Segmentations that do without segments of the best plan.

A segmentation is optimal for estimates. Where these mislead, iterations end with the same segments again and again,
while time is left: what else there is must be asked for. First one segment is excluded at a time
(:func:`exclude_one_at_a_time`), then one after the other and for good (:func:`exclude_for_good`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace

from ...ir.errors import InfeasibleError
from ...ir.plan import Plan
from ..segmentation.solve import BendersCut, Segmentation
from ..subproblem.time_budget import MOST_DIVERSIONS, Iteration
from .benders import Decomposition
from .changes.resegment import bare, longest_first

FRUITLESS = 6
"""Segmentations in a row without a better plan, after which the search is exhausted; chosen."""


@dataclass(frozen=True)
class Diversions:
    """What the search provides: ``pays`` tells whether the timeout pays for another ``step``, in which an iteration may
    search for as long as ``budget`` says."""

    decomposition: Decomposition
    pays: Callable[[], bool]
    step: Callable[[], AbstractContextManager[None]]
    budget: Callable[[], Iteration]

    def longest_segments(self) -> list[BendersCut]:
        """Cuts that each exclude a segment of the best plan, that with the most predicted cycles first."""
        plan = self.best
        segments = bare(self.decomposition.subproblem.graph, plan.segments)
        return [BendersCut(segments[s].ops, segments[s].instances, segments[s].cores) for s in longest_first(plan)]

    @property
    def best(self) -> Plan:
        """The best plan; there is one."""
        best = self.decomposition.incumbent.best
        assert best is not None
        return best.plan


def exclude_one_at_a_time(diversions: Diversions) -> None:
    """Segmentations without one segment of the best plan at a time, the longest first."""
    decomposition = diversions.decomposition
    excluded: set[BendersCut] = set()
    while len(excluded) < MOST_DIVERSIONS:
        column = next((c for c in diversions.longest_segments() if c not in excluded), None)
        if column is None or not diversions.pays():
            return
        excluded.add(column)
        with decomposition.without(column), suppress(InfeasibleError), diversions.step():
            attempt = decomposition.iteration(diversions.budget())
            if attempt is not None:
                decomposition.learn(attempt)


def exclude_for_good(diversions: Diversions) -> None:
    """Segmentations that are ever farther from the first.

    What is excluded stays excluded for the rest of the round, and the next to go is the longest segment of the answer
    without it. It ends when nothing is left, or with :data:`FRUITLESS` segmentations in a row without a better plan.
    """
    decomposition = diversions.decomposition
    best, fruitless = diversions.best, 0
    remaining = [c for c in diversions.longest_segments() if c not in decomposition.cuts.columns]
    while remaining and fruitless < FRUITLESS and diversions.pays():
        decomposition.cuts = replace(decomposition.cuts, columns=(*decomposition.cuts.columns, remaining.pop(0)))
        fruitless += 1
        try:
            with diversions.step():
                attempt = decomposition.iteration(diversions.budget())
        except InfeasibleError:
            break
        if attempt is not None:
            remaining = _longest_columns(attempt.segmentation)
        if diversions.best is not best:
            best, fruitless = diversions.best, 0


def _longest_columns(segmentation: Segmentation) -> list[BendersCut]:
    """Cuts that each exclude a segment, that with the most estimated cycles first."""
    pairs = zip(segmentation.columns, segmentation.segments, strict=True)
    longest = sorted(pairs, key=lambda pair: -pair[0].cycles)
    return [BendersCut(segment.ops, segment.instances, segment.cores) for _, segment in longest]
