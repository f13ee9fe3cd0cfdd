"""The cycles of one resource, added up by operator, and the rows of the breakdown that follow from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter

from ...ir.bounds.unavoidable_work import ResourceWork
from .breakdown import CAUSES, BreakdownRow, WaitReason

_MOST_REASONS = 5
"""Waits by operator that a row has at most."""

Wait = tuple[str, str, str]
"""Cause of a wait, and the operator and the engine that it is attributed to."""


class Ledger:
    """By operator: cycles in ``parts`` (peak, rounding, fill, issue, slowed, boundary) and ``waits``.

    All are summed over units; ``busy`` has the cycles of each instance apart.
    """

    def __init__(self, resource: str, units: int) -> None:
        self.resource = resource
        self.units = units
        self.parts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.busy: list[dict[str, float]] = [defaultdict(float) for _ in range(units)]
        self.waits: dict[str, dict[Wait, float]] = defaultdict(lambda: defaultdict(float))

    def row(
        self, ops: Sequence[str], work: ResourceWork | None, segment: int | None = None, op: str = ""
    ) -> BreakdownRow:
        """The row of some operators; ``work`` is what the lower bound says of the resource."""
        count = self.units

        def part(name: str) -> float:
            return sum(self.parts[o][name] for o in ops if o in self.parts) / count

        waits = dict.fromkeys(CAUSES, 0.0)
        reasons: dict[Wait, float] = defaultdict(float)
        for o in ops:
            for wait, cycles in self.waits.get(o, {}).items():
                waits[wait[0]] += cycles / count
                reasons[wait] += cycles / count
        longest = sorted(reasons.items(), key=itemgetter(1), reverse=True)[:_MOST_REASONS]
        busy = [sum(by_op.get(o, 0.0) for o in ops) for by_op in self.busy]

        def unavoidable(name: str, cycles: Mapping[str, float]) -> float:
            return sum(min(cycles[o], self.parts[o][name] / count) for o in ops if o in cycles)

        # What no plan can avoid counts as work; by doing more than that, an operator may fill some rows and columns.
        unfilled = 0.0 if work is None else unavoidable("rounding", work.rounded)
        filled = 0.0 if work is None else unavoidable("fill", work.filled)
        peak = part("peak") + unfilled + filled
        useful = None if work is None else sum(work.by_op.get(o, 0.0) for o in ops)
        return BreakdownRow(
            resource=self.resource,
            units=count,
            segment=segment,
            op=op,
            cycles=sum(busy) / count + sum(waits.values()),
            work=useful,
            extra=None if useful is None else peak - useful,
            peak=peak,
            rounding=part("rounding") - unfilled,
            fill=part("fill") - filled,
            issue=part("issue"),
            slowed=part("slowed"),
            busy=sum(busy) / count,
            busiest=max(busy),
            waits=waits,
            boundary=part("boundary"),
            reasons=tuple(WaitReason(*wait, cycles) for wait, cycles in longest),
        )
