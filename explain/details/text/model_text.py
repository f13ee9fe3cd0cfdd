"""One constraint model as text."""

from __future__ import annotations

from ...convergence import Convergence
from ...model_answers import gap
from ...units import plural
from ..model_details import ModelDetails, ModelRunRow
from .tables import count, entries, pairs, paragraph, table, title

_MOST_POINTS = 12
"""Points of a curve in the text, evenly chosen."""
_MOST_RUNS = 20
"""Runs in the text, the last ones; the JSON has them all."""


def model_text(model: ModelDetails, width: int) -> list[str]:
    """What it decides, its answer, what that means, and its runs."""
    row, rows = model.row, list[tuple[str, str]]()
    unit = row.unit or "no unit"
    if model.formulation is not None:
        f = model.formulation
        rows += [("decides", f.question), ("minimises", f.objective), ("leaves out", f.relaxed)]
        rows.append(("in full", f.source))
    rows += [
        (
            "answer",
            f"{row.status}: objective {count(row.objective)}, bound {count(row.bound)} ({unit})",
        ),
        ("gap", f"{_share(row.gap)} from objective to bound, as a share of the objective"),
        ("means", model.meaning),
        ("size", _size(model)),
        ("effort", f"{plural(row.runs, 'run')}, {row.deterministic_seconds:.2f} s of search by CP-SAT's own clock"),
    ]
    lines = [*title(f"Model {model.name}", width), *pairs(rows, width)]
    if model.runs:
        lines += title(
            f"Runs in order: objective and bound in {unit} or as noted; work: seconds of search so far, without a "
            "clock; plan: predicted cycles of the plan with this answer",
            width,
        )
        last = model.runs[-_MOST_RUNS:]
        cells = [
            (count(r.objective), count(r.bound), _share(r.gap), f"{r.work:.2f}", count(r.plan), _note(r, row.unit))
            for r in last
        ]
        lines += entries("objective|bound|gap|work|plan|status", cells, width)
        if len(last) < len(model.runs):
            lines += paragraph(f"and {len(model.runs) - len(last)} before them; --json has them all", width)
    for curve in model.convergence:
        lines += _convergence(curve, width)
    if model.cuts:
        lines += title("Cuts: what lower models refused, so that this one decided again", width)
        lines += [line for cut in model.cuts for line in paragraph(cut, width, "  ")]
    return lines


def _size(model: ModelDetails) -> str:
    largest = max(model.convergence, key=lambda curve: curve.variables, default=None)
    if largest is None or not largest.variables:
        return "no constraint model in the log: rules, a heuristic that met the bound, or enumeration answered"
    solved = plural(sum(curve.searches for curve in model.convergence), "model")
    return f"{largest.variables:,} variables, {largest.constraints:,} constraints: the largest of {solved} for CP-SAT"


def _convergence(curve: Convergence, width: int) -> list[str]:
    """The points of the last run with several of them: how incumbent and bound came together."""
    last = next((p.run for p in reversed(curve.points) if sum(q.run == p.run for q in curve.points) > 1), None)
    points = [p for p in curve.points if p.run == last]
    if not points:
        return []
    step = -(-len(points) // _MOST_POINTS)
    shown = [*points[:-1:step], points[-1]]
    cells = [(f"{p.work:.2f}", count(p.incumbent), count(p.bound), _share(gap(p.incumbent, p.bound))) for p in shown]
    lines = title(f"Convergence of the last search, in {curve.unit}; work: of all models since the beginning", width)
    return [*lines, *table("work|incumbent|bound|gap", cells, width)]


def _note(run: ModelRunRow, unit: str) -> str:
    other = f"in {run.unit}" if run.unit != unit and run.objective is not None else ""
    return ", ".join(part for part in (run.status, run.note, other) if part)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
