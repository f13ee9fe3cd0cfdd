"""The verdict: what the schedule takes, what limits it, and what the machine leaves unused."""

from __future__ import annotations

from ...compilation import Compilation
from ...report import Report
from ..view import View


def verdict_view(report: Report, compilation: Compilation) -> View:
    """Headline, the main figures and the warnings."""
    summary = report.summary
    figures = {
        "cycles": summary.cycles,
        "bound": summary.lower_bound_cycles,
        "ratio": summary.ratio,
        "seconds": summary.seconds_at_clock,
    }
    data = {"sentences": list(report.verdict), "figures": figures, "warnings": list(report.warnings)}
    return View("verdict", "Verdict", "", data)
