"""The waterfall from the lower bound to the cycles of the run."""

from __future__ import annotations

from ...compilation import Compilation
from ...report import Report
from ..view import View


def waterfall_view(report: Report, compilation: Compilation) -> View:
    """A bar for each cause."""
    resource = report.breakdown.bounding
    rows = [
        {
            "title": row.title,
            "cause": row.cause,
            "note": row.note,
            "cycles": row.cycles,
            "operators": [{"name": o.op, "cycles": o.cycles} for o in row.operators],
        }
        for row in report.waterfall
    ]
    caption = (
        f"Each bar adds the cycles that {resource}, the resource with the most work, loses by one cause, from "
        "the lower bound on the left to the cycles of the run on the right. The operators that lose most by "
        "it stand beside it."
    )
    return View("waterfall", "From the bound to the cycles of the run", caption, {"rows": rows, "resource": resource})
