"""What a search has cost, counted without a clock, and whether its timeout pays for another step.

A search is one sequence of steps, and nothing in it but its end depends on the timeout: a longer one goes on where a
shorter one ends, so that it cannot find less. Counts, not seconds, so that a busy machine ends at the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from ..cpsat.log import Record

COUNTED_ROOT = 0.03
"""Seconds for each operator with which segments end that was priced, however many columns it has, beside
:data:`COUNTED_COLUMN`: 0.002 to 0.075 fit MobileNet-V2, ResNet-50, DenseNet-121, ViT and Conformer on seven
machines. This and the next figure are of runs of up to 24 operators."""
COUNTED_COLUMN = 0.0006
"""Seconds for each column of segmentation: these networks took 0.0004 to 0.0007 beside :data:`COUNTED_ROOT`, and from
0.4 to 1.5 times the sum of both. Later, whole networks on an idle host took 4 s where 4 were counted (ViT), 10 where it
were 7 (Conformer), 18 where it were 5 (MobileNet-V2), and 77 where it were 29 (DenseNet-121)."""
COUNTED_PLAN = 0.01
"""Seconds for each operator of each plan, besides what is counted below: searches of a timeout of 60 s for seven
networks of 55 to 324 operators on `stcp920` took from 0.6 to 1.4 times what was counted, with 0.0125 here."""
COUNTED_SEARCH = 9.0
"""Seconds for each deterministic second of CP-SAT. Those of residency, which are most, took 8 to 12, of addresses 22
(while residency's were searched, too), and of tiles 3."""
COUNTED_PREDICTION = 0.005
"""Seconds for each operator that is predicted to choose tiles for each other, each time: MobileNet-V2, Conformer
and ViT on `stcp920`, and MobileNet-V2 on `gaudi`, took 0.0024 to 0.0031, ResNet-50 on `stcp920` 0.006, and MobileNet-V2
on `ascend310`, which stages, 0.006."""


@dataclass(frozen=True)
class Rates:
    """What is counted: ``ops`` are the operators of the network, ``roots`` and ``columns`` tell how many segmentation
    has priced, and ``predicted`` how many operators were predicted to choose their tiles."""

    ops: int
    roots: Callable[[], int]
    columns: Callable[[], int]
    predicted: Callable[[], int]

    def seconds(self, record: Record) -> float:
        """About what it took to come to a record, without its parts."""
        plans = sum(run.model == "plan" for run in record.own_runs)
        searched = sum(run.deterministic_seconds for run in record.own_runs)
        columns = COUNTED_ROOT * self.roots() + COUNTED_COLUMN * self.columns()
        predicted = COUNTED_PREDICTION * self.predicted()
        return columns + predicted + COUNTED_PLAN * plans * self.ops + COUNTED_SEARCH * searched


class Spending:
    """Keeps the account of one search with a ``timeout`` in seconds.

    A step is expected to cost as much as the costliest of its kind before it, the first of a kind as the costliest of
    any kind. The first iteration with searches, or with longer ones, may cost more than that.
    """

    def __init__(self, record: Record, rates: Rates, timeout: float) -> None:
        self._record = record
        self._rates = rates
        self._timeout = timeout
        self._elsewhere = 0.0
        self._most: dict[str, float] = {}
        self.refused: dict[str, None] = {}
        """The kinds of steps that the timeout did not pay for, in the order in which they were refused."""

    @property
    def spent(self) -> float:
        """Seconds, counted."""
        return self._rates.seconds(self._record) + self._elsewhere

    def pays(self, kind: str) -> bool:
        """Whether the timeout pays for another step of a kind; after a refusal it pays for nothing more."""
        expected = self._most.get(kind, max(self._most.values(), default=0.0))
        if not self.refused and self.spent + expected >= self._timeout:
            self.refused[kind] = None
        return not self.refused

    def goes_on(self, kind: str) -> bool:
        """Whether the timeout is not used up; for steps of a kind that end by themselves once it is."""
        if not self.refused and self.spent >= self._timeout:
            self.refused[kind] = None
        return not self.refused

    @contextmanager
    def step(self, kind: str) -> Generator[None]:
        """What is done here counts as a step of the kind."""
        before = self.spent
        try:
            yield
        finally:
            self._most[kind] = max(self._most.get(kind, 0.0), self.spent - before)

    def add(self, seconds: float) -> None:
        """What a search for another machine has cost."""
        self._elsewhere += seconds
