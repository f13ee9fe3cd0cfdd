"""What a search has cost, counted without a clock, and whether its timeout pays for another step.

A search is one sequence of steps, and nothing in it but its end depends on the timeout: a longer one goes on where a
shorter one ends, so that it cannot find less. Counts, not seconds, so that a busy machine ends at the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from ..cpsat.log import Record
from ..subproblem.plan_work import PlanWork


@dataclass(frozen=True)
class PlanRate:
    """Seconds for each slot of a plan and for each product of tiles in it."""

    slot: float
    product: float

    def seconds(self, work: PlanWork) -> float:
        """About what this much work takes."""
        return self.slot * work.slots + self.product * work.products


COUNTED_ROOT = 0.01
"""Seconds for each operator with which segments end that was priced, however many columns it has, beside
:data:`COUNTED_COLUMN`. All seconds here are of `stcp920`, one process and an idle host unless it says otherwise."""
COUNTED_COLUMN = 0.0006
"""Seconds for each column of segmentation. With both, 6 s are counted for Conformer, 3 for ViT, 4 for ResNet-50 and
MobileNet-V2, and 24 for DenseNet-121, which took 4, 2, 5, 8 and 35."""
COUNTED_GROUP = 0.0006
"""Seconds for each chain of segments that is priced as a group: DenseNet-121 on `stcp920` with half of its memory took
0.0006 with the paths of its groups, a transformer of 96 layers 0.0001 without."""
COUNTED_BUILT = PlanRate(slot=0.0033, product=0.00002)
"""Of plans that are built, with both of their predictions, and without the searches for it. Each slot of Conformer,
MobileNet-V2 and ResNet-50 is counted as 0.0034 s, of ViT and BERT at 512 positions as 0.0037, and of AlexNet as 0.0077.
On a slower host they took 0.006, 0.006, 0.009, 0.006, 0.010 and 0.028. Rates of products are chosen lower than that
asks for, so that 15 s pay for what they paid for of ViT before products were counted."""
COUNTED_REPREDICTED = PlanRate(slot=0.0009, product=0.00002)
"""Of plans that are only predicted again. Each slot of Conformer, MobileNet-V2 and ResNet-50 is counted as 0.001 s, of
ViT and BERT as 0.0013, and of AlexNet as 0.0038. On that host they took 0.0020, 0.0021, 0.0023, 0.0021, 0.0055 and
0.012."""
COUNTED_SEARCH = 9.0
"""Seconds for each deterministic second of CP-SAT. Those of residency, which are most, took 8 to 12, of addresses 22
(while residency's were searched, too), and of tiles 3."""
COUNTED_PREDICTION = 0.0035
"""Seconds for each operator that is predicted to choose tiles for each other, each time: these networks took 0.0023 to
0.0043, and MobileNet-V2 on `ascend310`, which stages, 0.006 on a slower host."""


@dataclass(frozen=True)
class WorkCounters:
    """What is counted, each as a function that tells how many there were so far.

    ``roots``, ``columns`` and ``groups``: priced by segmentation; ``built``: plans; ``repredicted``: plans that were
    only predicted again; ``predicted_operators``: to choose tiles for each other.
    """

    roots: Callable[[], int]
    columns: Callable[[], int]
    groups: Callable[[], int]
    built: Callable[[], PlanWork]
    repredicted: Callable[[], PlanWork]
    predicted_operators: Callable[[], int]

    def seconds(self, record: Record) -> float:
        """About what it took to come to a record, without its parts."""
        columns = COUNTED_ROOT * self.roots() + COUNTED_COLUMN * self.columns() + COUNTED_GROUP * self.groups()
        plans = COUNTED_BUILT.seconds(self.built()) + COUNTED_REPREDICTED.seconds(self.repredicted())
        searched = COUNTED_SEARCH * sum(run.deterministic_seconds for run in record.own_runs)
        return columns + plans + searched + COUNTED_PREDICTION * self.predicted_operators()


class Spending:
    """Keeps the account of one search with a ``timeout`` in seconds.

    A step is expected to cost as much as the costliest of its kind before it, the first of a kind as the costliest of
    any kind. The first iteration with searches, or with longer ones, may cost more than that.
    """

    def __init__(self, record: Record, counters: WorkCounters, timeout: float) -> None:
        self._record = record
        self._counters = counters
        self._timeout = timeout
        self._elsewhere = 0.0
        self._most: dict[str, float] = {}
        self.refused: dict[str, None] = {}
        """The kinds of steps that the timeout did not pay for, in the order in which they were refused."""

    @property
    def spent(self) -> float:
        """Seconds, counted."""
        return self._counters.seconds(self._record) + self._elsewhere

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
