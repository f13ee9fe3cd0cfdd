"""The answer to "why does my schedule look like this?", as one frozen noun."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..ir.codec import to_json
from ..ir.errors import UsageError
from ..ir.files import write_text
from ..ir.graph import Graph
from ..ir.machine import Machine
from ..ir.plan import Plan
from ..ir.program import Program
from ..ir.semantics.rematerialise import followed
from ..ir.trace import Trace
from .cycle_breakdown import Spent, spent
from .loads import loads
from .losses import verdict
from .memory import MemoryRow, TrafficRow, memory_rows, traffic_rows
from .schedule import (  # fmt: skip
    HostRow,
    OperatorRow,
    RecomputedRow,
    SegmentRow,
    ending,
    host_rows,
    operator_rows,
    recomputed_rows,
    segment_rows,
    waiting,
)
from .solves import WHOLE, Log, ModelRow, model_rows
from .units import plural


@dataclass(frozen=True)
class Summary:
    """The whole in a few numbers. ``ratio`` is cycles over the lower bound.

    Of the predicted cycles no core computes during ``cycles_waiting`` (for data) and ``cycles_ending`` (the last
    results are stored).
    ``operators`` are those of the network: what runs twice counts once. ``cycles`` are those of the run, which
    ``seconds_at_clock`` are of, too. ``solver_seconds`` is wall time, ``plans`` the number of whole plans that were
    made.
    """

    network: str
    machine: str
    strategy: str
    clusters_used: int
    batch: int | None
    segments: int
    steps: int
    operators: int
    host_operators: int
    instructions: int
    cycles_predicted: int
    cycles_waiting: int
    cycles_ending: int
    cycles: int
    lower_bound_cycles: int
    lower_bound_reason: str
    ratio: float | None
    seconds_at_clock: float
    plans: int
    solver_status: str
    solver_seconds: float

    @property
    def line(self) -> str:
        """The summary line with which every long text begins and ends."""
        ratio = "" if self.ratio is None else f", {self.ratio:.2f} x the lower bound"
        return (
            f"{self.network} on {self.machine} ({self.strategy}): {self.cycles:,} cycles{ratio}; "
            f"{plural(self.operators, 'operator')} in {plural(self.segments, 'segment')}, "
            f"{self.host_operators} on the host"
        )


@dataclass(frozen=True)
class Report:
    """Tables about one compiled network; rows are documented where they are defined.

    ``verdict`` is a sentence about the segment that loses most.
    """

    summary: Summary
    models: tuple[ModelRow, ...]
    spent: Spent
    verdict: str
    segments: tuple[SegmentRow, ...]
    memories: tuple[MemoryRow, ...]
    traffic: tuple[TrafficRow, ...]
    operators: tuple[OperatorRow, ...]
    recomputed: tuple[RecomputedRow, ...]
    hosts: tuple[HostRow, ...]

    def __str__(self) -> str:
        from .text import render

        return render(self)

    def to_json(self) -> bytes:
        """Canonical JSON."""
        return to_json(self)

    def save(self, path: str | Path) -> None:
        """Write the report: JSON to ``*.json``, text to ``*.txt``, ``*.md`` or a name without a suffix."""
        suffix = Path(path).suffix
        if suffix not in _FORMATS:
            raise UsageError(f"cannot tell the format of a report from {path}; end the name in .txt or .json")
        write_text(path, self.to_json().decode() if suffix == ".json" else f"{self}\n")


_FORMATS = ("", ".txt", ".md", ".json")


def report(graph: Graph, plan: Plan, program: Program, machine: Machine, log: Log, trace: Trace) -> Report:
    """Explain a compilation and a run of its program, which may have been in time alone."""
    account = spent(graph, plan, program, machine, trace)
    network, graph = graph, followed(graph, plan)
    load = loads(graph, plan, program, machine)
    worst = max(account.of(account.bounding), key=lambda row: row.lost)
    summary = Summary(
        network=graph.name,
        machine=machine.name,
        strategy=plan.strategy,
        clusters_used=graph.replicas,
        batch=graph.batch,
        segments=len(plan.segments),
        steps=len(plan.steps),
        operators=len(network.ops),
        host_operators=sum(1 for op in graph.ops if op.host),
        instructions=program.instructions,
        cycles_predicted=plan.cycles_predicted,
        cycles_waiting=sum(waiting(plan).values()),
        cycles_ending=ending(plan),
        cycles=trace.cycles,
        lower_bound_cycles=plan.lower_bound_cycles,
        lower_bound_reason=plan.lower_bound_reason,
        ratio=trace.cycles / plan.lower_bound_cycles if plan.lower_bound_cycles else None,
        seconds_at_clock=trace.cycles / machine.frequency,
        plans=sum(1 for run in log.runs if run.model == WHOLE),
        solver_status=log.status,
        solver_seconds=log.seconds,
    )
    return Report(
        summary=summary,
        models=model_rows(plan, log),
        spent=account,
        verdict=verdict(worst, plan.segments[worst.segment or 0].ops, machine),
        segments=segment_rows(plan, load),
        memories=memory_rows(plan, machine),
        traffic=traffic_rows(graph, plan, machine),
        operators=operator_rows(graph, plan, program, load),
        recomputed=recomputed_rows(plan),
        hosts=host_rows(graph),
    )
