"""The cycle breakdown: where the cycles of a run went, by engine and link, by segment and operator.

For an engine, averaged over the cores that have one, and for each segment or operator:

    cycles = peak + rounding + fill + issue + slowed + waits          peak = work + extra

- *peak*: what it executed, at its peak rate. *work* of it is what the lower bound counts, *extra* the rest: halos that
  are computed twice, products with padding, and whatever else the bound knows to be avoidable.
- *rounding*: rows and columns of the array, lanes and bursts that are not full. Rows and columns that no plan can fill
  are *work*, and so part of the *peak*.
- *fill*: the array is filled and drained for blocks beyond those that every plan has, such as again for each part of a
  reduction. What no plan can avoid is *work*, and so part of the *peak*.
- *issue*: issuing instructions.
- *slowed*: by how much instructions took longer than alone, because they shared links and banks.
- *waits*: the engine was idle, by cause, as :mod:`.critical_path` attributes each cycle. While other cores compute and
  the core does, too, the cause is its own engines.

A wait counts for the operator of the instruction that waits, but while other cores compute, or after an engine's last
instruction, for the operator that it is attributed to: there a core has less to do than others.

*work* is that of plans that leave to the matrix engine what it can run; of other plans, *extra* of this engine can be
negative. The work of the busiest resource is the lower bound, unless that has two phases
(:mod:`...ir.bounds.two_phase`): what the second phase adds is nobody's work, and so in the waits; or unless plans that
multiply on the vector engine, too, may have less (:mod:`...ir.bounds.engine_split`): then the bound is below the work.

Links have rows as engines have, because the lower bound may be that of a link. A link is busy while a transfer over it
is in flight; concurrent transfers share those cycles, and their issue is in *slowed*.

Reference: CPI stacks (Eyerman et al., ASPLOS 2006).
"""

from __future__ import annotations

from dataclasses import dataclass

CAUSES = {
    "fetch_weights": "constants are fetched from where they have their homes",
    "fetch_data": "inputs or spilled results are fetched from main memory",
    "load_weights": "stationary operands are loaded into the weight memory",
    "load_data": "a core's operands are loaded from shared memory",
    "store": "results are stored in shared memory",
    "spill": "results are stored in main memory",
    "engine": "an engine of the same core computes, or its result is not yet visible",
    "cores": "other cores compute, and this one has nothing to do",
    "host": "the host or the scalar engine computes",
}
"""What an engine can wait for."""


@dataclass(frozen=True)
class WaitReason:
    """Cycles of a wait, mean of the cores, that are attributed to an instruction of ``op`` on ``engine``."""

    cause: str
    op: str
    engine: str
    cycles: float


@dataclass(frozen=True)
class BreakdownRow:
    """The cycles of a resource, mean of its ``units``: in one segment, in one operator, or in all of them.

    ``segment`` is ``None`` for all of them, ``op`` is empty for all operators of a segment. ``work`` and ``extra`` are
    ``None`` where the lower bound knows nothing of the engine. ``busy`` are the cycles in which it ran instructions,
    ``busiest`` those of the core with the most. ``reasons`` are the longest waits. Of the waits, ``boundary`` are fill
    and drain, at the boundaries of segments and instances: before the first instruction, after the last, and from one
    operator to one that does not follow it in its segment.
    """

    resource: str
    units: int
    segment: int | None
    op: str
    cycles: float
    work: float | None
    extra: float | None
    peak: float
    rounding: float
    fill: float
    issue: float
    slowed: float
    busy: float
    busiest: float
    waits: dict[str, float]
    boundary: float
    reasons: tuple[WaitReason, ...]

    @property
    def lost(self) -> float:
        """Cycles beyond the work that the lower bound counts."""
        return self.cycles - (self.work or 0.0)


@dataclass(frozen=True)
class CycleBreakdown:
    """``bounding`` is the resource with the most *work*; ``totals`` has a row for each resource.

    ``segments`` has a row for each resource and segment, ``operators`` one for each operator and the bounding resource.
    """

    bounding: str
    totals: tuple[BreakdownRow, ...]
    segments: tuple[BreakdownRow, ...]
    operators: tuple[BreakdownRow, ...]

    def segments_of(self, resource: str) -> tuple[BreakdownRow, ...]:
        """One row for each segment."""
        return tuple(row for row in self.segments if row.resource == resource)

    def total(self, resource: str) -> BreakdownRow:
        """The row of a resource over the whole run; raises ``StopIteration`` if there is none."""
        return next(row for row in self.totals if row.resource == resource)
