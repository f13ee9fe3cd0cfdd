"""Incumbents and bounds of the models, and the best plan, against the work of the search."""

from __future__ import annotations

from dataclasses import dataclass

from .model_answers import WHOLE_PLAN, Log, Run


@dataclass(frozen=True)
class ConvergencePoint:
    """What was known after so much work: deterministic seconds of CP-SAT since the compilation began, over all models.

    ``incumbent`` and ``bound`` hold until the next point of the same ``run``; runs of one model count from 0. Values
    are ``None`` where there are none. Runs of a model answer different questions, so that only points of one run
    can be joined. Of the whole plan all points can be: they are the best plan so far and the lower bound.
    """

    work: float
    incumbent: float | None
    bound: float | None
    run: int


@dataclass(frozen=True)
class Convergence:
    """How one model, or the whole plan, came to its answers; values in ``unit``.

    ``searches``: how often CP-SAT ran, with ``variables`` and ``constraints`` in the largest of its models; 0 where
    heuristics or enumeration answered.
    """

    model: str
    unit: str
    points: tuple[ConvergencePoint, ...]
    searches: int
    variables: int
    constraints: int


def convergence(log: Log) -> tuple[Convergence, ...]:
    """The whole plan first, then each model in the order in which it first ran.

    A model that answered in several units is there once for each. Left out are runs without an objective and those
    that a rule decided. The log does not have the work of searches whose answers were never part of a plan.
    """
    runs: dict[tuple[str, str], list[Run]] = {}
    points: dict[tuple[str, str], list[ConvergencePoint]] = {}
    work = 0.0
    for run in log.runs:
        if run.status != "fixed" and not (run.objective is None and run.bound is None):
            key = run.model, run.unit
            points.setdefault(key, []).extend(_points(run, work, len(runs.setdefault(key, []))))
            runs[key].append(run)
        work += run.deterministic_seconds
    return tuple(
        Convergence(
            model,
            unit,
            tuple(points[model, unit]),
            sum(run.searches for run in runs[model, unit]),
            *max((run.variables, run.constraints) for run in runs[model, unit]),
        )
        for model, unit in sorted(runs, key=lambda key: key[0] != WHOLE_PLAN)
    )


def _points(run: Run, began: float, number: int) -> list[ConvergencePoint]:
    """The points of a run that began after so much work; its answer alone, if it was found without a search."""
    if run.points:
        return [ConvergencePoint(began + p.work, p.incumbent, p.bound, number) for p in run.points]
    return [ConvergencePoint(began + run.deterministic_seconds, run.objective, run.bound, number)]
