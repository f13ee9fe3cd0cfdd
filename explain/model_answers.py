"""The answer of each constraint model, with its bound and gap, and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..ir.plan import Plan

WHOLE_PLAN = "plan"
"""The name in a log of a whole plan, the answer of all models in one round."""


class Point(Protocol):
    """What a search knew after so much work, in CP-SAT's deterministic seconds."""

    @property
    def work(self) -> float: ...
    @property
    def incumbent(self) -> float | None: ...
    @property
    def bound(self) -> float | None: ...


class Run(Protocol):
    """One answer of one model, as a solve log keeps it."""

    @property
    def model(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def objective(self) -> float | None: ...
    @property
    def bound(self) -> float | None: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def deterministic_seconds(self) -> float: ...
    @property
    def unit(self) -> str: ...
    @property
    def note(self) -> str: ...
    @property
    def points(self) -> Sequence[Point]: ...
    @property
    def searches(self) -> int: ...
    @property
    def variables(self) -> int: ...
    @property
    def constraints(self) -> int: ...


class Log(Protocol):
    """All runs of all models, in order."""

    @property
    def runs(self) -> Sequence[Run]: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def more_time_helps(self) -> bool: ...


@dataclass(frozen=True)
class ModelRow:
    """The answer of one model that the plan contains, and all the runs that led to it.

    ``gap`` is the distance from objective to bound as a share of the objective; values are ``None`` where the model
    has none. ``seconds`` is the wall time of all its ``runs``, ``None`` where the log is from a file, and
    ``deterministic_seconds`` what CP-SAT counted of their work; ``notes`` tell what was special in them.
    """

    model: str
    status: str
    objective: float | None
    bound: float | None
    gap: float | None
    unit: str
    runs: int
    seconds: float | None
    deterministic_seconds: float
    notes: tuple[str, ...]


def gap(objective: float | None, bound: float | None) -> float | None:
    """``|objective - bound|`` as a share of ``|objective|``; ``None`` where either is unknown."""
    if objective is None or bound is None:
        return None
    return 0.0 if objective == bound else abs(objective - bound) / max(abs(objective), 1e-9)


def gained(plan: Plan, log: Log) -> str:
    """How many cycles the search took off the first plan, and when it had the best; empty if no plan was searched for.

    Predictions are compared with predictions, or simulations with simulations where the first plan was simulated, and
    the sentence says which: a plan that is predicted to be the faster one may be simulated to be the slower one.
    """
    plans = [run for run in log.runs if run.model == WHOLE_PLAN and run.objective]
    if not plans or not plans[0].objective:
        return ""
    first, simulated = round(plans[0].objective), _is_simulated(plans[0])
    best = plan.cycles_simulated if simulated else plan.cycles_predicted
    if best is None:
        best = plan.cycles_predicted
        return f"the first plan took {first:,} cycles by a simulation, the best {best:,} by a prediction"
    known = (plan.cycles_predicted, plan.cycles_simulated)
    seconds = next((run.seconds for run in plans if run.objective == known[_is_simulated(run)]), None)
    after = "" if seconds is None else f", after {seconds:.1f} s"
    if best == first:
        return f"the first plan is the best{after}"
    change = f"{abs(first - best) / first:.1%} {'fewer' if best < first else 'more: simulations decided'}"
    how = "simulated" if simulated else "predicted"
    return f"{first:,} {how} cycles of the first plan became {best:,}, {change}{after}"


def _is_simulated(run: Run) -> bool:
    """Whether the cycles of a whole plan in a log are those of a simulation, and no prediction."""
    return ", simulated" in run.note


def model_rows(plan: Plan, log: Log) -> tuple[ModelRow, ...]:
    """One row for each model: first those whose answers are in the plan, then those that only ran."""
    answers = {s.model: (s.status, s.objective, s.bound, s.unit) for s in plan.solved}
    for run in log.runs:
        if run.model != WHOLE_PLAN:
            answers.setdefault(run.model, (run.status, run.objective, run.bound, run.unit))
    rows: list[ModelRow] = []
    for model, (status, objective, bound, unit) in answers.items():
        runs = [r for r in log.runs if r.model == model]
        timed = [r.seconds for r in runs if r.seconds is not None]
        seconds = sum(timed) if len(timed) == len(runs) else None
        work = sum(r.deterministic_seconds for r in runs)
        # Cuts first: they say why the model decided otherwise than it would alone.
        notes = tuple(sorted(dict.fromkeys(r.note for r in runs if r.note), key=lambda n: not n.startswith("cut")))
        distance = gap(objective, bound)
        rows.append(ModelRow(model, status, objective, bound, distance, unit, len(runs), seconds, work, notes))
    return tuple(rows)
