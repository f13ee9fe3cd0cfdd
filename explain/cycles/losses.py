"""The largest losses of a resource as a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.machine import Machine
from ..units import share
from .breakdown import BreakdownRow

_WAITS = {
    "fetch_weights": "waits for weights of {op} from {constants}",
    "fetch_data": "waits for data of {op} from {main}",
    "load_weights": "waits for weights of {op} from {shared}",
    "load_data": "waits for data of {op} from {shared}",
    "store": "waits until results of {op} are in {shared}",
    "spill": "waits until results of {op} are in {main}",
    "engine": "waits until {engine} is done with {op}",
    "cores": "waits until {cores} are done with {op}",
    "host": "waits until the host or the scalar engine is done with {op}",
}
_BUSY = {
    "extra": "computes or moves what the lower bound does not count",
    "rounding": "rounds up to rows, columns, lanes or bursts",
    "fill": "fills and drains the array again",
    "issue": "issues instructions",
    "slowed": "shares links and banks",
}
_ALONE = 0.9
"""An operator to which this share of a wait is attributed is named alone."""
_WORTH = 0.005
"""Smaller shares of the cycles would read as 0 %."""
_MOSTLY = 0.4
"""One to which this share is attributed is named with others, and below that none is."""


def of_the_cluster(resource: str, machine: Machine) -> bool:
    """Whether a resource is a link, or an engine of the cluster, which the cores share."""
    return all(engine.name != resource or engine.scope != "core" for engine in machine.engines)


def losses(row: BreakdownRow, machine: Machine, most: int = 2) -> str:
    """The largest losses as shares of the row's cycles, joined by commas; empty if there are none."""
    ranked = [(_cycles(row, name), text) for name, text in _BUSY.items()]
    ranked += [(cycles, _wait(row, cause, machine)) for cause, cycles in row.waits.items() if cycles]
    ranked.sort(key=lambda loss: -loss[0])
    worth = [loss for loss in ranked[:most] if loss[0] >= _WORTH * row.cycles > 0]
    return ", ".join(f"{share(cycles, row.cycles)} {text}" for cycles, text in worth)


def waits(row: BreakdownRow, machine: Machine, most: int = 2) -> tuple[str, ...]:
    """The longest waits as shares of the row's cycles, the longest first."""
    ranked = sorted(row.waits.items(), key=lambda wait: -wait[1])
    return tuple(
        f"{share(cycles, row.cycles)} {_wait(row, cause, machine)}" for cause, cycles in ranked[:most] if cycles > 0
    )


def largest_losses(rows: Sequence[BreakdownRow], machine: Machine, most: int = 3) -> tuple[str, ...]:
    """A sentence about each of the operators that lose the most cycles, of ``rows`` for all operators of a run."""
    total = sum(row.cycles for row in rows)
    ranked = sorted((row for row in rows if row.lost >= 0.5), key=lambda row: -row.lost)
    return tuple(_sentence(row, total, machine) for row in ranked[:most])


def _sentence(row: BreakdownRow, total: float, machine: Machine) -> str:
    lost = f"{row.op} loses {row.lost:,.0f} of its {row.cycles:,.0f} cycles, {share(row.lost, total)} of the run"
    reasons = losses(row, machine)
    return f"{lost}: {reasons}" if reasons else lost


def _cycles(row: BreakdownRow, name: str) -> float:
    return row.extra or 0.0 if name == "extra" else float(getattr(row, name))


def _wait(row: BreakdownRow, cause: str, machine: Machine) -> str:
    """A wait, with the operator that most of it is attributed to."""
    levels = machine.levels
    main, constants, shared = levels.home.name, levels.constants.name, levels.exchange.name
    reasons = [reason for reason in row.reasons if reason.cause == cause]
    op, engine = "several operators", "another engine"
    if reasons:
        engine, part = reasons[0].engine, reasons[0].cycles / row.waits[cause]
        op = op if part < _MOSTLY else reasons[0].op if part >= _ALONE else f"{reasons[0].op} and others"
    return _WAITS[cause].format(
        op=op, engine=engine, main=main, constants=constants, shared=shared,
        cores="other cores" if row.units > 1 else "the cores",
    )  # fmt: skip
