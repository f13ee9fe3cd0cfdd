"""A search does not stop at a prediction: what meets the lower bound by prediction is simulated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import girih
from girih.models import build
from girih.solver.baselines.graphturbo import build as graphturbo
from girih.solver.subproblem import plan_builder
from girih.solver.timeline.predict import predict


@pytest.mark.parametrize("strategy", ["solver", "graphturbo"])
def test_a_timeline_that_leaves_things_out_proves_nothing(monkeypatch: pytest.MonkeyPatch, strategy: Any) -> None:
    def too_early(*arguments: Any) -> Any:
        timeline = predict(*arguments)
        return replace(timeline, cycles=timeline.cycles // 2)

    monkeypatch.setattr(plan_builder, "predict", too_early)
    monkeypatch.setattr(graphturbo, "predict", too_early)
    compiled = girih.compile(
        build("tiny-cnn"), target="tiny", batch=2, strategy=strategy, solver_timeout=6, cache=False
    )
    simulated = compiled.run().cycles
    plan = compiled.plan
    assert plan.lower_bound_cycles <= plan.cycles_predicted < plan.cycles == plan.cycles_simulated == simulated
    assert f", {simulated:,} simulated" in str(plan)
    assert compiled.log.status != "optimal"
    plans = [run for run in compiled.log.runs if run.model == "plan"]
    assert any("simulated" in run.note for run in plans)
    assert all(run.status == "feasible" for run in plans)
    # The search went on behind the first plan that seemed to meet the bound.
    assert len(plans) > 1 or strategy != "solver"
    again = girih.compile(build("tiny-cnn"), target="tiny", batch=2, strategy=strategy, solver_timeout=6, cache=False)
    assert again.plan == compiled.plan
