"""How much each engine and link idles, and what it waits for."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.machine import Machine
from ..cycles.breakdown import CycleBreakdown
from ..cycles.losses import waits


@dataclass(frozen=True)
class IdleRow:
    """An engine (mean of its ``units``, one a core or one in all) or a link.

    ``busy`` and ``idle`` are shares of the cycles of the run; ``reasons`` are the largest waits, as shares of the run,
    most first.
    """

    resource: str
    units: int
    busy: float
    idle: float
    reasons: tuple[str, ...]


def idle_rows(breakdown: CycleBreakdown, machine: Machine) -> tuple[IdleRow, ...]:
    """One row for each engine and link that the breakdown knows, but hosts and scalar engines without any kernel."""
    kernels = {e.name for e in machine.engines if {"host", "scalar"} & {*e.classes}}
    rows: list[IdleRow] = []
    for row in (row for row in breakdown.totals if row.busy or row.resource not in kernels):
        busy = row.busy / row.cycles if row.cycles else 0.0
        rows.append(IdleRow(row.resource, row.units, busy, 1.0 - busy if row.cycles else 0.0, waits(row, machine)))
    return tuple(rows)
