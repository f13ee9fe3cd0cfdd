"""What each constraint model answered, and how it came to that."""

from __future__ import annotations

from ...compilation import Compilation
from ...report import Report
from ..view import View


def convergence_view(report: Report, compilation: Compilation) -> View:
    """The models' answers, and incumbents and bounds against work."""
    curves = [
        {
            "model": c.model,
            "unit": c.unit,
            "work": [p.work for p in c.points],
            "incumbent": [p.incumbent for p in c.points],
            "bound": [p.bound for p in c.points],
            "run": [p.run for p in c.points],
            "searches": c.searches,
            "variables": c.variables,
            "constraints": c.constraints,
        }
        for c in report.convergence
    ]
    models = [
        {
            "name": m.model,
            "status": m.status,
            "objective": m.objective,
            "bound": m.bound,
            "gap": m.gap,
            "unit": m.unit,
            "runs": m.runs,
            "work": m.deterministic_seconds,
            "notes": list(m.notes),
        }
        for m in report.models
    ]
    caption = (
        "How each model came to its answer: the best solution so far and the bound that no solution passes, "
        "against the work of the search in deterministic seconds, which CP-SAT counts without a clock. Where "
        "the two meet, the answer is proven optimal."
    )
    summary = report.summary
    data = {"curves": curves, "models": models, "status": summary.solver_status, "reason": summary.solver_reason}
    return View("convergence", "How the models converged", caption, data)
