"""All operators as a table, which can be sorted and filtered."""

from __future__ import annotations

from ...compilation import Compilation
from ...report import Report
from ..view import View


def operators_view(report: Report, compilation: Compilation) -> View:
    """The rows are those of the page; here is only what the columns are about."""
    resource = report.breakdown.bounding
    caption = (
        f"Cycles are those of the run that count for the operator on {resource}, and add up to the run; lost "
        "are those beyond the work that the lower bound counts; predicted are the plan's. Tiles are of the "
        "result, and of the reduced axes. Press a heading to sort by it."
    )
    return View("operators", "Operators", caption, {"resource": resource})
