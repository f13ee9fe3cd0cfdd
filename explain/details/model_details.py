"""One constraint model: what it decides, what it answered, how close that is to its bound, and how it came there."""

from __future__ import annotations

from dataclasses import dataclass

from ..compilation import Compilation
from ..convergence import Convergence, convergence
from ..model_answers import WHOLE_PLAN, ModelRow, gap, model_rows
from .formulations import Formulation, formulation


@dataclass(frozen=True)
class ModelRunRow:
    """One search of the model, in order; ``work`` is what CP-SAT counted up to its end, in deterministic seconds.

    ``plan`` is the cycles of the next whole plan, which contains the answer; ``None`` if no plan followed.
    """

    status: str
    objective: float | None
    bound: float | None
    gap: float | None
    unit: str
    work: float
    note: str
    plan: float | None


@dataclass(frozen=True)
class ModelDetails:
    """All about one model: its formulation, its row in the report, its runs in order, and what its gap means.

    ``convergence`` has, for each unit of its objective, incumbents and bounds against work, and the size of its largest
    constraint model.
    """

    name: str
    formulation: Formulation | None
    row: ModelRow
    runs: tuple[ModelRunRow, ...]
    convergence: tuple[Convergence, ...]
    cuts: tuple[str, ...]
    meaning: str


def model_details(compilation: Compilation, name: str) -> ModelDetails:
    """All about a model that answered or ran."""
    log = compilation.log
    row = next(r for r in model_rows(compilation.plan, log) if r.model == name)
    rows: list[ModelRunRow] = []
    work = 0.0
    for number, run in enumerate(log.runs):
        if run.model != name:
            continue
        work += run.deterministic_seconds
        plan = next((r.objective for r in log.runs[number + 1 :] if r.model == WHOLE_PLAN), None)
        distance = gap(run.objective, run.bound)
        rows.append(ModelRunRow(run.status, run.objective, run.bound, distance, run.unit, work, run.note, plan))
    cuts = tuple(note for note in row.notes if note.startswith("cut"))
    curves = tuple(curve for curve in convergence(log) if curve.model == name)
    return ModelDetails(name, formulation(name), row, tuple(rows), curves, cuts, _meaning(row, log.more_time_helps))


def _meaning(row: ModelRow, more_time: bool) -> str:
    """What the status and the gap tell, as a sentence."""
    if row.status == "fixed":
        return "the strategy decides this by rules, without a search"
    if row.status == "optimal":
        return "no answer of this model is better, over its candidates and at its costs; the plan may still be improved"
    if row.status == "feasible":
        distance = "an unknown distance" if row.gap is None else f"at most {row.gap:.1%}"
        longer = "; a longer --solver-timeout lets it search on" if more_time else ""
        return f"the answer is {distance} above the best one of this model{longer}"
    if row.status == "infeasible":
        return "it refused what the models above decided, which came back to them as a cut"
    return f"the search ended as {row.status}: the answer is the best one so far"
