"""The answer to "why does my schedule look like this?", as one frozen noun."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..ir.codec import to_json
from ..ir.errors import UsageError
from ..ir.files import write_text
from .cycles.breakdown import CycleBreakdown
from .memory_use import MemoryRow, TrafficRow
from .model_answers import ModelRow
from .plan_tables import HostRow, OperatorRow, SegmentRow
from .text import render
from .units import plural, printable

_FORMATS = ("", ".txt", ".md", ".json")


@dataclass(frozen=True)
class ReportSummary:
    """The whole in a few numbers. ``ratio`` is cycles over the lower bound.

    Of the predicted cycles, no core computes during ``cycles_waiting`` (for data) and ``cycles_ending`` (the last
    results are stored). ``cycles`` and ``seconds_at_clock`` are of the run. ``solver_status`` is what ended the search
    (``solver/options.py`` has the values), and ``solver_reason`` says so as a sentence; ``gap`` is the distance from
    the cycles of the plan to the lower bound as a share of the former: of ``cycles_simulated``, where the search had
    the plan simulated, or else the predicted ones. ``solver_seconds`` is wall time, ``None`` where the log is from a
    file; ``plans`` is the number of complete plans.
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
    cycles_simulated: int | None
    cycles_waiting: int
    cycles_ending: int
    cycles: int
    lower_bound_cycles: int
    lower_bound_reason: str
    ratio: float | None
    seconds_at_clock: float
    plans: int
    solver_status: str
    solver_reason: str
    more_time_helps: bool
    gap: float | None
    solver_seconds: float | None

    @property
    def line(self) -> str:
        """The summary line with which every long text begins and ends."""
        ratio = "" if self.ratio is None else f", {self.ratio:.2f} x the lower bound"
        return printable(
            f"{self.network} on {self.machine} ({self.strategy}): {self.cycles:,} cycles{ratio}; "
            f"{plural(self.operators, 'operator')} in {plural(self.segments, 'segment')}, "
            f"{self.host_operators} on the host"
        )


@dataclass(frozen=True)
class Report:
    """Tables about one compiled network; rows are documented where they are defined.

    ``breakdown`` is the cycle breakdown of the run, ``verdict`` a sentence about each of the operators that lose
    most cycles.
    ``warnings`` are sentences about what of the machine stays unused, and what to change.
    """

    summary: ReportSummary
    warnings: tuple[str, ...]
    models: tuple[ModelRow, ...]
    breakdown: CycleBreakdown
    verdict: tuple[str, ...]
    segments: tuple[SegmentRow, ...]
    memories: tuple[MemoryRow, ...]
    traffic: tuple[TrafficRow, ...]
    operators: tuple[OperatorRow, ...]
    hosts: tuple[HostRow, ...]

    def __str__(self) -> str:
        return render(vars(self))

    def to_json(self) -> bytes:
        """Canonical JSON."""
        return to_json(self)

    def save(self, path: str | Path) -> None:
        """Write the report: JSON to ``*.json``, text to ``*.txt``, ``*.md`` or a name without a suffix."""
        suffix = Path(path).suffix
        if suffix not in _FORMATS:
            raise UsageError(f"cannot tell the format of a report from {path}; end the name in .txt or .json")
        write_text(path, self.to_json().decode() if suffix == ".json" else f"{self}\n")
