"""The verdict: what the schedule takes, what limits it, and where to look next."""

from __future__ import annotations

from ...compilation import Compilation
from ...report import Report
from ..view import View


def verdict_view(report: Report, compilation: Compilation) -> View:
    """Two sentences, the main figures, what could save most, and the warnings."""
    summary = report.summary
    data = {
        "sentences": list(report.verdict),
        "cycles": summary.cycles,
        "predicted": summary.cycles_predicted,
        "bound": summary.lower_bound_cycles,
        "ratio": summary.ratio,
        "seconds": summary.seconds_at_clock,
        "batch": summary.batch,
        "operators": summary.operators,
        "segments": summary.segments,
        "hosts": summary.elsewhere,
        "instructions": summary.instructions,
        "steps": [{"text": step.text, "cycles": step.cycles, "command": step.command} for step in report.next_steps],
        "losses": list(report.largest_losses),
        "warnings": list(report.warnings),
    }
    return View("verdict", "Verdict", "", data)
