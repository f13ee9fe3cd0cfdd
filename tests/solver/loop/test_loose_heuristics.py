"""Where heuristics are loose, and the timeout does not pay for the models, single operators compete."""

from __future__ import annotations

import pytest

from girih.ir.load_machine import load_machine
from girih.solver import plan
from girih.solver.loop import incumbent, search
from girih.solver.options import Options
from girih.solver.subproblem import time_budget
from tests.support import graphs

TINY = load_machine("tiny")


@pytest.mark.parametrize(("loose", "seconds", "tried"), [(0.5, 0.0, True), (1e9, 0.0, False), (0.5, 1e9, False)])
def test_single_operators_compete(monkeypatch: pytest.MonkeyPatch, loose: float, seconds: float, tried: bool) -> None:
    monkeypatch.setattr(time_budget, "FREE_KINDS", 0)
    monkeypatch.setattr(search, "LEAST_ENUMERATION_SECONDS", 1e9)
    monkeypatch.setattr(search, "SINGLE_SECONDS", seconds)
    monkeypatch.setattr(incumbent, "LOOSE", loose)
    planned = plan(graphs.chain(3), TINY, Options(timeout=5.0))
    plans = [run for run in planned.log.runs if run.model == "plan"]
    assert len(plans) == 1 + tried
    assert any("the constraint models" in what for what in planned.log.unpaid)
    assert planned.plan.cycles_predicted <= min(run.objective for run in plans if run.objective is not None)
