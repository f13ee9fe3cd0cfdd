"""The operators that no engine of tiles runs."""

from __future__ import annotations

from ...compilation import Compilation
from ...report import Report
from ..view import View


def hosts_view(report: Report, compilation: Compilation) -> View:
    """Each with the reason."""
    rows = [
        {"name": h.name, "origin": ", ".join(h.origin), "engine": h.engine, "reason": h.reason} for h in report.hosts
    ]
    caption = (
        "Operators that no matrix or vector engine runs: the host or the scalar engine of the cluster computes them in "
        "main memory."
    )
    return View("hosts", "On the host or scalar engine", caption, {"rows": rows})
