"""Tasks that are equal to others: layers, sub-batches and tiles that repeat have the same instructions again.

Two sets of tasks are equal if one is the other with all numbers greater by the same, and tasks at the same place have
the same queue and cost. What is a better order of one is likely to be one of the other; whether it may be one, the
dependences say, and whether it is better, the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...ir.isa.timing import Cost
from .list_schedule import OrderProblem


class EqualTasks:
    """The tasks of a program by queue and cost."""

    def __init__(self, problem: OrderProblem) -> None:
        numbers: dict[tuple[int, Cost], int] = {}
        kinds = zip(problem.queue, problem.tasks.cost, strict=True)
        self._kind = np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], dtype=np.int64)
        self._count = np.bincount(self._kind, minlength=1)

    def copies(self, tasks: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Tasks that are equal to these, in the same order: of all that share none with them or with each other, those
        with the least numbers."""
        pattern = np.array(tasks, dtype=np.int64)
        kinds = self._kind[pattern]
        rarest = int(np.argmin(self._count[kinds]))
        free = np.ones(len(self._kind), dtype=np.bool_)
        free[pattern] = False
        low, high = int(pattern.min()), len(self._kind) - int(pattern.max())
        for first in np.flatnonzero(self._kind == kinds[rarest]).tolist():
            distance = first - tasks[rarest]
            if not -low <= distance < high:
                continue
            others = pattern + distance
            if free[others].all() and np.array_equal(self._kind[others], kinds):
                free[others] = False
                yield tuple(others.tolist())
