"""Where to look next: what could save most, at most how much, and the command that shows more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

from ...ir.machine import Machine
from ..report_summary import ReportSummary
from ..units import printable
from .waterfall import Cause, WaterfallRow

_MOST_STEPS = 3
"""Causes that are looked into at most."""
_LEAST = 0.01
"""Share of the cycles from which on a cause is worth a step."""

_NEAR = 0.9
"""Share of the cycles from which on the lower bound itself is what to look at."""


@dataclass(frozen=True)
class NextStep:
    """Something to change. It saves at most ``cycles``, what its cause costs (``None``: not known).

    ``command`` shows more, or does it; FILE stands for the compiled network.
    """

    text: str
    cycles: int | None
    command: str


def next_steps(
    rows: Sequence[WaterfallRow], resource: str, summary: ReportSummary, machine: Machine
) -> tuple[NextStep, ...]:
    """The causes that cost ``resource`` most, first; and last, more time for the search if that can help."""
    ranked = sorted((row for row in rows if row.cause in _ADVICE), key=lambda row: -row.cycles)
    worth = [row for row in ranked if row.cycles >= _LEAST * summary.cycles]
    steps = [_step(row, resource, summary, machine) for row in worth[:_MOST_STEPS]]
    if summary.lower_bound_cycles >= _NEAR * summary.cycles:
        bound = f"The bound: {summary.lower_bound_reason}. Only less work or a faster machine saves more."
        steps.insert(0, NextStep(bound, None, "girih targets NAME --toml"))
    if summary.more_time_helps:
        search = "The search: a longer timeout may find a better plan."
        steps.append(NextStep(search, None, "girih compile ... --solver-timeout SECONDS"))
    return tuple(steps)


_ADVICE: dict[Cause, str] = {
    "extra": "fewer instances of a segment compute and move fewer halos twice; they take more {local}",
    "rounding": "another batch, or other widths of layers, can fill {unit} of {resource} better",
    "contention": "larger tiles need fewer instructions and transfers; they take more {local}",
    "main_memory": "a larger {shared} keeps more on chip and fetches earlier, a faster {main} fetches sooner",
    "shared_memory": "a larger {local} loads earlier and keeps longer, a faster {shared} loads sooner",
    "core": "deeper buffers let {matrix} and {vector} work at the same time; they take more {accumulator}",
    "other_cores": "a larger batch can be cut into parts for every core",
}

"""What helps against each cause, as a rule; shared_work is no waste."""
_OF_THE_CLUSTER: dict[Cause, str] = {
    "rounding": "longer rows of what is moved can fill bursts better: larger portions, or another layout",
    "other_cores": "while the cores compute, {resource} idles: a larger {shared} lets it fetch further ahead",
}
"""The same where the busiest resource is a link, or an engine of the cluster."""


def _step(row: WaterfallRow, resource: str, summary: ReportSummary, machine: Machine) -> NextStep:
    matrix, vector = machine.engine_for("matrix"), machine.engine_for("vector")
    cluster = resource not in (engine.name for engine in machine.engines if engine.scope == "core")
    advice = (_OF_THE_CLUSTER.get(row.cause) if cluster else None) or _ADVICE[row.cause]
    advice = advice.format(
        resource=resource,
        unit=f"the {matrix.rows} rows and {matrix.columns} columns" if resource == matrix.name else "the lanes",
        matrix=matrix.name,
        vector=vector.name,
        **{role: machine.role(role).name for role in ("main", "shared", "local", "accumulator")},
    )
    option, most = "--tables", ""
    if row.operators:
        first = row.operators[0]
        option = f"--operator {quote(printable(first.op))}"
        most = f", {first.cycles:,} of them in {first.op}"
    cost = f"{row.title}: {row.cycles:,} cycles ({row.cycles / summary.cycles:.1%} of the run){most}"
    return NextStep(f"{cost}. {advice[0].upper()}{advice[1:]}.", row.cycles, f"girih explain FILE {option}")
