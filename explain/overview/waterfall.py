"""The waterfall: how the lower bound becomes the cycles of the run, cause by cause, to the cycle.

It is the cycle breakdown (:mod:`..cycles.breakdown`) of the bounding resource, the one with the most work, in a few
causes: each cycle of the run beyond the lower bound is in exactly one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Literal

from ...ir.machine import Machine
from ..cycles.breakdown import BreakdownRow, CycleBreakdown
from ..cycles.losses import of_the_cluster

Cause = Literal[
    "bound", "shared_work", "extra", "rounding", "contention", "main_memory", "shared_memory", "core", "other_cores"
]

_MOST_OPERATORS = 3
"""Operators that a row names at most."""

_PARTS: Mapping[Cause, tuple[str, ...]] = {
    "extra": ("extra",),
    "rounding": ("rounding", "fill"),
    "contention": ("issue", "slowed"),
}
_WAITS: Mapping[Cause, tuple[str, ...]] = {
    "main_memory": ("fetch_weights", "fetch_data", "spill"),
    "shared_memory": ("load_weights", "load_data", "store"),
    "core": ("engine",),
    "other_cores": ("cores", "host"),
}
_CAUSES: tuple[Cause, ...] = ("shared_work", *_PARTS, *_WAITS)
_IN_BOUND: tuple[Cause, ...] = (*_WAITS, "contention", "rounding", "extra")
"""What a bound beyond the work of a resource may count, in the order in which it is taken to."""


@dataclass(frozen=True)
class OperatorCycles:
    """Cycles that one operator loses by a cause; ``awaits`` is another operator that most wait for, if any."""

    op: str
    cycles: int
    awaits: str = ""


@dataclass(frozen=True)
class WaterfallRow:
    """One step from the lower bound to the cycles of the run.

    ``cycles`` of the first row, ``bound``, are the lower bound; those of the others are added to it, and all together
    are the cycles of the run. They can be negative: where a plan does less of the bounding resource's work than the
    bound reckons with. ``note`` says what the cause is; ``operators`` are those that lose most by it, most first.

    shared_work: another engine could take over work of this one, as the bound reckons. extra: the resource does more
    than the bound counts. rounding: rows, columns, lanes or bursts are not full, or the array is filled again.
    contention: instructions are issued, and links and banks shared. The others are waits, by what they are for.
    """

    cause: Cause
    title: str
    note: str
    cycles: int
    operators: tuple[OperatorCycles, ...]


def waterfall(breakdown: CycleBreakdown, machine: Machine, bound: int, cycles: int) -> tuple[WaterfallRow, ...]:
    """The rows from the lower ``bound`` to the ``cycles`` of the run, without causes that have no cycle."""
    total = breakdown.total(breakdown.bounding)
    exact: dict[Cause, float] = {cause: cause_cycles(total, cause) for cause in _CAUSES}
    # A bound of two engines counts less than all work; one of two phases, or with what comes before and after the work,
    # counts waits and instructions that no plan avoids.
    difference = (total.work or 0.0) - bound
    exact["shared_work"] = difference
    for cause in _IN_BOUND:
        in_bound = min(max(0.0, -exact["shared_work"]), exact[cause])
        exact[cause] -= in_bound
        exact["shared_work"] += in_bound
    # What the bound counts of a cause belongs to no operator in particular: it is taken off all of them alike.
    before = {cause: cause_cycles(total, cause) for cause in _CAUSES}
    beyond = {cause: exact[cause] / before[cause] if before[cause] > 0 else 1.0 for cause in _CAUSES}
    rounded = _rounded(exact, cycles - bound)
    names = titles(total, machine)
    rows = [
        WaterfallRow(
            cause, *names[cause], rounded[cause], _losers(breakdown.operators, cause, beyond[cause], rounded[cause])
        )
        for cause in _CAUSES
        if rounded[cause]
    ]
    return (WaterfallRow("bound", "lower bound", "no schedule takes fewer cycles", bound, ()), *rows)


def cause_cycles(row: BreakdownRow, cause: Cause) -> float:
    """The cycles of a row of the breakdown that are lost by a cause."""
    parts = sum(float(getattr(row, part) or 0.0) for part in _PARTS.get(cause, ()))
    return parts + sum(row.waits[wait] for wait in _WAITS.get(cause, ()))


def _rounded(exact: Mapping[Cause, float], total: int) -> dict[Cause, int]:
    """Whole numbers that add up to ``total``: those with the largest remainders are rounded up."""
    whole = {cause: floor(value) for cause, value in exact.items()}
    missing = total - sum(whole.values())
    ranked = sorted(exact, key=lambda cause: (whole[cause] - exact[cause], _CAUSES.index(cause)))
    share, rest = divmod(missing, len(ranked))
    return {cause: whole[cause] + share + (rank < rest) for rank, cause in enumerate(ranked)}


def _losers(operators: Sequence[BreakdownRow], cause: Cause, beyond: float, most: int) -> tuple[OperatorCycles, ...]:
    """The operators that lose most by a cause, of whose cycles the share ``beyond`` is beyond the bound.

    None loses more than ``most``, the cycles of the cause, of which others may have fewer than none.
    """
    ranked = sorted(operators, key=lambda row: -cause_cycles(row, cause))[:_MOST_OPERATORS]
    rows = (
        OperatorCycles(row.op, min(round(beyond * cause_cycles(row, cause)), most), _awaited(row, cause))
        for row in ranked
    )
    return tuple(row for row in rows if row.cycles > 0)


def _awaited(row: BreakdownRow, cause: Cause) -> str:
    """The other operator that more than half of these waits are attributed to; empty if there is none."""
    waits = [reason for reason in row.reasons if reason.cause in _WAITS.get(cause, ()) and reason.op != row.op]
    longest = max(waits, key=lambda reason: reason.cycles, default=None)
    return longest.op if longest is not None and 2 * longest.cycles > cause_cycles(row, cause) else ""


def titles(total: BreakdownRow, machine: Machine) -> dict[Cause, tuple[str, str]]:
    """Title and note of each cause, in the terms of the machine and of the bounding resource."""
    name, homes, shared = total.resource, " and ".join(machine.levels.homes), machine.levels.exchange.name
    matrix = name == machine.engine_for("matrix").name
    vector = name == machine.engine_for("vector").name
    part = "array" if matrix else "lanes" if vector else "bursts"
    rounding = f"instructions end in {part} that are not full"
    if matrix:
        rounding = "rows and columns of the array are not full, or it is filled again"
    others = f"{name} waits for other cores, which have more to do, or for the host or scalar engine"
    if of_the_cluster(name, machine):
        others = f"{name} idles while the cores, the host or scalar engine compute"
    return {
        "shared_work": ("work to share", f"work of {name} that the bound lets another engine do meanwhile"),
        "extra": (
            "extra work",
            f"{name} does more than the bound counts: halos, padding, data moved again",
        ),
        "rounding": (f"{part} not full", rounding),
        "contention": ("issue and sharing", "instructions are issued, and links and banks shared"),
        "main_memory": (f"waits for {homes}", f"{name} waits for transfers to or from main memory"),
        "shared_memory": (f"waits for {shared}", f"{name} waits for transfers between shared and local memory"),
        "core": ("waits in the core", f"{name} waits for another engine of the same core"),
        "other_cores": ("waits for cores", others),
    }
