"""Without its search, a model answers by its hint: nothing of it is searched, and the plan is still valid."""

from __future__ import annotations

import pytest

from girih.frontend import import_onnx
from girih.frontend.for_machine import fitted
from girih.ir.checks.check_plan import check_plan
from girih.ir.load_machine import load_machine
from girih.models import build
from girih.solver import plan
from girih.solver.cpsat.backend import NO_SEARCH, Model, solve
from girih.solver.options import Options
from girih.solver.subproblem.time_budget import SEARCHED
from girih.solver.switches import checked

TINY = load_machine("tiny")
GRAPH = fitted(import_onnx(build("tiny-cnn"), batch=4), TINY, divides=True)


def searches(*disabled: str) -> dict[str, int]:
    planned = plan(GRAPH, TINY, Options(5.0, disabled=checked(disabled)))
    check_plan(planned.plan, GRAPH, TINY)
    counted: dict[str, int] = {}
    for run in planned.log.runs:
        name = run.model.partition(":")[0]
        counted[name] = counted.get(name, 0) + run.searches
    return counted


@pytest.mark.parametrize("model", ["tiling", "residency"])
def test_a_model_without_its_search(model: str) -> None:
    assert searches()[model] > 0
    assert not searches(f"{model}-model")[model]


def test_nothing_is_searched_without_a_budget() -> None:
    model = Model()
    model.minimize(model.bool("x"))
    solution = solve(model, budget=NO_SEARCH)
    assert solution.status == "unknown" and not solution.effort.searches and not solution.found


def test_no_model_is_built_where_none_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    begin = Model.__init__

    def noted(self: Model, name: str = "") -> None:
        built.append(name)
        begin(self, name)

    monkeypatch.setattr(Model, "__init__", noted)
    searches()
    assert {"tiling", "residency"} <= {name.partition(" ")[0] for name in built}
    built.clear()
    searches(*SEARCHED)
    assert built == []
