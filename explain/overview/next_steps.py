"""Where to look next: what could save most, at most how much, and the command that shows more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from ...ir.machine import Machine
from ..cycles.losses import of_the_cluster
from ..memory_use import FULL, MemoryRow
from ..report_summary import ReportSummary
from ..units import printable
from .waterfall import Cause, OperatorCycles, WaterfallRow

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
    rows: Sequence[WaterfallRow],
    resource: str,
    summary: ReportSummary,
    memories: Sequence[MemoryRow],
    machine: Machine,
) -> tuple[NextStep, ...]:
    """What may save most: another strategy, the causes that cost ``resource`` most, and more time for the search."""
    advice = _Advice(resource, {role: row for row in memories for role in machine.roles_of(row.memory)}, machine)
    ranked = sorted((row for row in rows if row.cause in _PLAIN), key=lambda row: -row.cycles)
    worth = [row for row in ranked if row.cycles >= _LEAST * summary.cycles]
    steps: list[NextStep] = []
    if summary.strategy != "solver":
        rules = (
            f"The strategy: {summary.strategy} decides by rules, and is there to be compared with; the solver searches."
        )
        steps.append(NextStep(rules, None, "girih compile ... --strategy solver"))
    if summary.lower_bound_cycles >= _NEAR * summary.cycles:
        bound = f"The bound: {summary.lower_bound_reason}. Only less work or a faster machine saves more."
        steps.append(NextStep(bound, None, "girih targets NAME --toml"))
    seen: set[str] = set()
    for row in worth[:_MOST_STEPS]:
        # One that no step leads to yet.
        loser = next((loser for loser in row.operators if _to_look_at(loser) not in seen), None)
        seen.update([_to_look_at(loser)] if loser else [])
        steps.append(_step(row, loser, advice.sentence(row.cause), summary))
    if summary.more_time_helps:
        search = "The search: a longer timeout may find a better plan."
        steps.append(NextStep(search, None, "girih compile ... --solver-timeout SECONDS"))
    return tuple(steps)


def _to_look_at(loser: OperatorCycles) -> str:
    """The operator whose schedule decides the loss: the one that is waited for."""
    return loser.awaits or loser.op


def _step(row: WaterfallRow, loser: OperatorCycles | None, advice: str, summary: ReportSummary) -> NextStep:
    cost, option = f"{row.title}: {row.cycles:,} cycles ({row.cycles / summary.cycles:.1%} of the run)", "--tables"
    if loser is not None:
        cost += f", {loser.cycles:,} of them in {loser.op}"
        cost += f", which waits for {loser.awaits}" if loser.awaits else ""
        option = f"--operator {quote(printable(_to_look_at(loser)))}"
    return NextStep(f"{cost}. {advice[0].upper()}{advice[1:]}.", row.cycles, f"girih explain FILE {option}")


_PLAIN: dict[Cause, str] = {
    "extra": "fewer instances of a segment compute and move fewer halos twice",
    "rounding": "another batch, or other widths of layers, may fill {unit} of {resource} better",
    "contention": "larger tiles need fewer instructions and transfers",
    "main_memory": "a faster {main} fetches sooner",
    "shared_memory": "a faster {shared} loads sooner, and deeper buffers load earlier",
    "core": "deeper buffers may let {matrix} and {vector} work at the same time",
    "other_cores": "a larger batch can be cut into parts for every core",
}
"""What helps against each cause, as a rule; shared_work is no waste."""
_OF_THE_CLUSTER: dict[Cause, str] = {
    "extra": "what was on the chip is moved again; the traffic table says which tensors, and why",
    "rounding": "longer rows of what is moved may fill bursts better: larger portions, or another layout",
    "other_cores": "while the cores compute, {resource} has nothing to do; faster cores, or more of them, take less",
}
"""The same where the busiest resource is a link, or an engine of the cluster."""
_WHERE_FULL: dict[Cause, tuple[str, str]] = {
    "extra": ("local", "they need more {local}, which is {share} full"),
    "contention": ("local", "they need more {local}, which is {share} full"),
    "main_memory": ("shared", "a larger {shared}, which is {share} full, may keep more on chip"),
    "shared_memory": ("local", "a larger {local}, which is {share} full, may load earlier and keep longer"),
    "core": ("accumulator", "they need more {accumulator}, which is {share} full"),
    "other_cores": ("shared", "a larger {shared}, which is {share} full, may let it fetch further ahead"),
}
"""By cause, a memory by its role, and what is said in addition if that is full: only then can a larger one help."""


@dataclass(frozen=True)
class _Advice:
    """What helps on a machine whose ``memories`` (by role) are so full, where ``resource`` is the busiest."""

    resource: str
    memories: Mapping[str, MemoryRow]
    machine: Machine

    def sentence(self, cause: Cause) -> str:
        """Without a full stop."""
        cluster = of_the_cluster(self.resource, self.machine)
        text = (_OF_THE_CLUSTER.get(cause) if cluster else None) or _PLAIN[cause]
        role, more = _WHERE_FULL.get(cause, ("", ""))
        # Halos of cells are a matter of local memory; what a link moves again, of the shared one.
        if cluster and cause == "extra":
            role, more = _WHERE_FULL["main_memory"]
        if cause == "other_cores" and not cluster:
            role = ""
        share = self.memories[role].share if role in self.memories else 0.0
        if share >= FULL:
            text = f"{text}; {more}"
        levels = self.machine.levels
        matrix, vector = self.machine.engine_for("matrix"), self.machine.engine_for("vector")
        return text.format(
            resource=self.resource,
            unit=f"the {matrix.rows} rows and {matrix.columns} columns"
            if self.resource == matrix.name
            else "the lanes",
            matrix=matrix.name,
            vector=vector.name,
            share=f"{share:.0%}",
            main=" or ".join(levels.homes),
            shared=levels.exchange.name,
            local=levels.activations.name,
            accumulator=levels.sums.name,
        )
