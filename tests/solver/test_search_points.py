"""Incumbents and bounds that the models log: they only improve within a run, and end with its answer."""

from __future__ import annotations

from itertools import pairwise

import pytest

from girih.frontend import import_onnx
from girih.ir.load_machine import load_machine
from girih.models import build
from girih.solver import plan
from girih.solver.options import Options
from tests.support.cpsat import unhurried


def test_points_of_each_run_improve_up_to_its_answer() -> None:
    graph = import_onnx(build("tiny-transformer").SerializeToString(deterministic=True), batch=1)
    with unhurried():
        # Less does not pay for searches after the round of hints.
        log = plan(graph, load_machine("tiny"), Options(timeout=15.0)).log
    logged = [run for run in log.runs if run.points and run.model != "plan"]
    assert {"tiling", "residency"} <= {run.model for run in logged if run.searches}
    for run in logged:
        for before, after in pairwise(run.points):
            assert before.work <= after.work
            assert before.incumbent is not None and after.incumbent is not None
            assert before.bound is not None and after.bound is not None
            assert before.incumbent >= after.incumbent and before.bound <= after.bound
        last = run.points[-1]
        assert (last.incumbent, last.bound) == pytest.approx((run.objective, run.bound)), run.model
        assert last.work == pytest.approx(run.deterministic_seconds)
        assert (run.variables > 0, run.constraints > 0) == (run.searches > 0,) * 2
    plans = [run.points[-1].incumbent for run in log.runs if run.model == "plan"]
    assert len(plans) > 1 and plans == sorted(plans, key=lambda cycles: -(cycles or 0))
