"""The operators that no engine runs."""

from __future__ import annotations

from ...compilation import Compilation
from ...report import Report
from ..view import View


def hosts_view(report: Report, compilation: Compilation) -> View:
    """Each with the reason."""
    rows = [{"name": h.name, "origin": ", ".join(h.origin), "reason": h.reason} for h in report.hosts]
    caption = "Operators that no engine of the machine runs: the host computes them in main memory, while engines wait."
    return View("hosts", "On the host", caption, {"rows": rows})
