"""Convergence: points of all runs on one axis of work."""

from __future__ import annotations

from girih.explain.convergence import Convergence, ConvergencePoint, convergence
from girih.solver.effort import SearchPoint
from girih.solver.options import ModelRun, SolveLog

SEARCH = (SearchPoint(0.0, 40.0, 5.0), SearchPoint(0.25, 30.0, 6.0))
PLAN = (SearchPoint(0.0, 90.0, 50.0),)


def run(model: str, objective: float | None, work: float, *points: SearchPoint, unit: str = "cycles") -> ModelRun:
    size = (1, 3, 7) if len(points) > 1 else (0, 0, 0)
    return ModelRun(
        model, "feasible", objective, None if objective is None else 10.0, 1.0, work, unit, "", False, False, points,
        *size,
    )  # fmt: skip


def log(*runs: ModelRun) -> SolveLog:
    return SolveLog(runs, 1.0)


def test_points_of_all_runs_are_on_one_axis() -> None:
    plan, tiling, residency = convergence(
        log(
            run("tiling", 8.0, 1.0),
            run("residency", 30.0, 0.25, *SEARCH),
            run("plan", 90.0, 0.0, *PLAN),
            run("residency", 30.0, 0.25, *SEARCH),
            run("plan", 95.0, 0.0, *PLAN),
        )
    )
    assert plan.points == (ConvergencePoint(1.25, 90.0, 50.0, 0), ConvergencePoint(1.5, 90.0, 50.0, 1))
    assert tiling == Convergence("tiling", "cycles", (ConvergencePoint(1.0, 8.0, 10.0, 0),), 0, 0, 0)
    points = (
        ConvergencePoint(1.0, 40.0, 5.0, 0),
        ConvergencePoint(1.25, 30.0, 6.0, 0),
        ConvergencePoint(1.25, 40.0, 5.0, 1),
        ConvergencePoint(1.5, 30.0, 6.0, 1),
    )
    assert residency == Convergence("residency", "cycles", points, 2, 3, 7)


def test_each_unit_has_an_axis_of_its_own() -> None:
    drawn = convergence(log(run("banks:L1", 5.0, 0.5, unit="bytes"), run("banks:L1", 2.0, 0.5, unit="cycles")))
    assert [(c.unit, c.points[0].work, c.points[0].run) for c in drawn] == [("bytes", 0.5, 0), ("cycles", 1.0, 0)]


def test_what_no_search_answered_is_left_out() -> None:
    fixed = ModelRun("segmentation", "fixed", 4.0, None, 0.0, 0.0, "segments")
    cut = ModelRun("banks", "infeasible", None, None, 0.0, 0.0, "", "cut: too large")
    assert convergence(log(fixed, cut)) == ()
    assert convergence(log()) == ()
