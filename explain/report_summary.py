"""The whole of a report in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

from .units import plural, printable


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
    scalar_operators: int
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
    def milliseconds(self) -> float:
        """Of the run, at the machine's clock."""
        return self.seconds_at_clock * 1e3

    @property
    def elsewhere(self) -> str:
        """How many operators have kernels that no engine of tiles runs, and where they run."""
        scalar = f", {self.scalar_operators} on the scalar engine" if self.scalar_operators else ""
        return f"{self.host_operators} on the host{scalar}"

    @property
    def line(self) -> str:
        """The summary line with which every long text begins and ends."""
        ratio = "" if self.ratio is None else f", {self.ratio:.2f} x the lower bound"
        return printable(
            f"{self.network} on {self.machine} ({self.strategy}): {self.cycles:,} cycles{ratio}; "
            f"{plural(self.operators, 'operator')} in {plural(self.segments, 'segment')}, "
            f"{self.elsewhere}"
        )
