"""Without its search, a model answers by its hint: nothing of it is searched, and the plan is still valid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from girih.frontend import import_onnx
from girih.frontend.for_machine import fitted
from girih.ir.checks.check_plan import check_plan
from girih.ir.load_machine import load_machine
from girih.models import build
from girih.solver import plan
from girih.solver.banks.model import find, improve
from girih.solver.banks.problem import BufferRequest, bank_problem
from girih.solver.cpsat.backend import NO_SEARCH, Budget, Model, solve
from girih.solver.cpsat.log import Record
from girih.solver.options import Options
from girih.solver.segmentation import solve as segmentation
from girih.solver.segmentation.model import SegmentationModel
from girih.solver.segmentation.problem import SegmentationProblem
from girih.solver.segmentation.solve import segment
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
def test_a_model_without_its_search(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    # However busy the machine is.
    monkeypatch.setattr(Record, "seconds", 0.0)
    assert searches()[model] > 0
    assert not searches(f"{model}-model")[model]


def test_nothing_is_searched_without_a_budget() -> None:
    model = Model()
    model.minimize(model.bool("x"))
    solution = solve(model, budget=NO_SEARCH)
    assert solution.status == "unknown" and not solution.effort.searches and not solution.has_solution


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


def test_no_packing_is_searched_without_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a budget, both look for a packing by a model."""
    requests = tuple(BufferRequest(f"b{i}", 32 * (1 + i % 3), (i, i + 4)) for i in range(10))
    problem = bank_problem(requests, replace(TINY.memories[-1], capacity=256, alignment=32), ((0, 1, 1.0),))
    assert find(problem, Budget(10.0), 0)[1] is not None and improve(problem, [0] * 10, Budget(10.0), 0)[1] is not None
    monkeypatch.setattr(Model, "__init__", None)
    assert find(problem, NO_SEARCH, 0) == improve(problem, [0] * 10, NO_SEARCH, 0) == (None, None)


def test_no_segmentation_is_searched_without_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the bound proves nothing, the answer is that of the first search of paths, and no model is built."""
    search, built = SegmentationProblem.search, 0

    def unproven(self: SegmentationProblem, **_: bool) -> object:
        bounds, best = search(self)
        assert bounds is not None
        return replace(bounds, bound=bounds.bound / 2), best

    class Counted(SegmentationModel):
        def __init__(self, *given: Any) -> None:
            nonlocal built
            built += 1
            super().__init__(*given)

    proven = segment(GRAPH, TINY, budget=Budget(5.0, 0.1))
    monkeypatch.setattr(SegmentationProblem, "search", unproven)
    monkeypatch.setattr(segmentation, "SegmentationModel", Counted)
    assert segment(GRAPH, TINY, budget=NO_SEARCH).segments == proven.segments and not built
    assert segment(GRAPH, TINY, budget=Budget(5.0, 0.1)).segments == proven.segments and built == 1
