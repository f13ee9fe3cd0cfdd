"""One constraint model as text."""

from __future__ import annotations

from ...units import plural
from ..model_details import ModelDetails
from .tables import count, pairs, paragraph, table, title

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
        (
            "effort",
            f"{plural(row.runs, 'run')}, {row.deterministic_seconds:.2f} s of search (CP-SAT's count, no clock)",
        ),
    ]
    lines = [*title(f"Model {model.name}", width), *pairs(rows, width)]
    if model.runs:
        lines += title(
            f"Runs in order: objective and bound in {unit}; work: seconds of search so far, without a "
            "clock; plan: predicted cycles of the plan with this answer",
            width,
        )
        last = model.runs[-_MOST_RUNS:]
        cells = [
            (r.status, count(r.objective), count(r.bound), _share(r.gap), f"{r.work:.2f}", count(r.plan), r.note)
            for r in last
        ]
        lines += table("status|objective|bound|gap|work|plan|note", cells, width)
        if len(last) < len(model.runs):
            lines += paragraph(f"and {len(model.runs) - len(last)} before them; --json has them all", width)
    if model.cuts:
        lines += title("Cuts: what lower models refused, so that this one decided again", width)
        lines += [line for cut in model.cuts for line in paragraph(cut, width, "  ")]
    return lines


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
