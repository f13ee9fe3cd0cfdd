"""A search that the wall clock ended is never lost: whatever model it was of, the log of the plan says "timeout"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from girih.ir.errors import InfeasibleError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.solver import plan
from girih.solver.banks import model as banks_model
from girih.solver.banks import solve as banks
from girih.solver.banks.first_fit import Item
from girih.solver.cpsat.backend import Budget, Model, Solution, Watch
from girih.solver.effort import NO_EFFORT, Effort, InfeasibleSearchError
from girih.solver.options import Options, Planned
from girih.solver.residency import buffers, neighbourhood, repair
from girih.solver.segmentation import solve as segmentation
from girih.solver.segmentation.problem import SegmentationProblem
from girih.solver.subproblem import tiling_alternatives
from girih.solver.subproblem.tiling_alternatives import TiledSegment, TilingAlternatives
from girih.solver.tiling import solve as tiling
from tests.support import graphs
from tests.support.cpsat import unhurried

MACHINE = load_machine("tiny")
OPTIONS = Options(timeout=1.0)
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def no_real_clock() -> Iterator[None]:
    with unhurried():
        yield


def above(items: Sequence[Item], capacity: int) -> list[int]:
    """A packing that does not fit."""
    return [capacity for _ in items]


def no_heuristic_segments(patch: Patch) -> None:
    search = SegmentationProblem.search
    patch.setattr(SegmentationProblem, "search", lambda self, **_: (search(self)[0], None))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


def no_delayed_fetches(patch: Patch) -> None:
    """Neither first fit nor delays give addresses: the last resort is to search them for the shortest lifetimes."""
    patch.setattr(repair, "pack", above)
    patch.setattr(repair._Packing, "place", lambda *_: None)  # pyright: ignore[reportPrivateUsage, reportUnknownLambdaType]


def nothing(patch: Patch) -> None:
    """The model is solved anyway."""


Case = tuple[Any, Callable[[Patch], None]]


def chain() -> Graph:
    return graphs.chain(2, dtype="float32")


CASES: dict[str, Case] = {
    "segmentation": (segmentation, no_heuristic_segments),
    "tiling": (tiling, nothing),
    "residency": (neighbourhood, nothing),
    "repair": (banks_model, no_delayed_fetches),
    "banks": (banks_model, lambda patch: patch.setattr(banks, "pack", above)),
}
"""By model with a search: the module that solves it, and what makes its heuristics leave something to solve."""


def ended_by_the_clock(patch: Patch, module: Any, *, found: bool) -> list[Solution]:
    """Have the clock end each search of a module, with the answer of the search or without any; the list grows."""
    solve, solutions = module.solve, list[Solution]()

    def timed_out(model: Model, *, budget: Budget, seed: int = 0, watch: Watch | None = None) -> Solution:
        solution = solve(model, budget=budget, seed=seed, watch=watch)
        effort = replace(solution.effort, timed_out=True)
        solutions.append(replace(solution, effort=effort) if found else Solution("unknown", None, None, effort))
        return solutions[-1]

    patch.setattr(module, "solve", timed_out)
    return solutions


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_every_model(monkeypatch: Patch, name: str, found: bool) -> None:
    module, unsolved = CASES[name]
    unsolved(monkeypatch)
    solutions = ended_by_the_clock(monkeypatch, module, found=found)
    planned = plan(chain(), MACHINE, OPTIONS)
    assert solutions and planned.log.status == "timeout"


@pytest.mark.parametrize("name", ["segmentation", "repair", "banks"])
def test_without_the_clock(monkeypatch: Patch, name: str) -> None:
    """What makes the heuristics leave something to solve is not what the log tells."""
    _, unsolved = CASES[name]
    unsolved(monkeypatch)
    assert plan(chain(), MACHINE, OPTIONS).log.is_reproducible


def test_clock_that_ends_one_of_several_searches_for_a_packing(monkeypatch: Patch) -> None:
    """The answer is of the last search, the effort of all."""
    efforts = iter([Effort(1.0, 0.5, True), Effort(2.0, 0.25)])
    solve = banks_model.solve

    def first_times_out(model: Model, *, budget: Budget, seed: int = 0) -> Solution:
        effort = next(efforts)
        return Solution("unknown", None, None, effort) if effort.timed_out else replace(
            solve(model, budget=budget, seed=seed), effort=effort
        )  # fmt: skip

    monkeypatch.setattr(banks_model, "solve", first_times_out)
    monkeypatch.setattr(banks, "pack", above)
    requests = tuple(banks.BufferRequest(f"r{i}", 100, (0, 1)) for i in range(4))
    memory = replace(MACHINE.levels.activations.memory, capacity=1 << 16, banks=1)
    answer = banks.place(requests, memory, budget=Budget(10.0))
    assert isinstance(answer, banks.Placement) and answer.effort == Effort(3.0, 0.75, True)


def test_alternative_tiles_that_are_not_chosen(monkeypatch: Patch) -> None:
    """Without the clock they might have been better."""
    tiled = TilingAlternatives._tiled  # pyright: ignore[reportPrivateUsage]

    def others_time_out(self: TilingAlternatives, *args: Any, stalls: bool, engines: bool = False) -> Any:
        way = tiled(self, *args, stalls=stalls, engines=engines)
        if not stalls or not isinstance(way, list):
            return way
        return [
            TiledSegment(t.segment, tuple(replace(c, effort=Effort(1.0, 0.0, True)) for c in t.choices)) for t in way
        ]

    monkeypatch.setattr(TilingAlternatives, "_tiled", others_time_out)
    monkeypatch.setattr(tiling_alternatives.TilingAlternatives, "quickest", lambda _, fallback, *__: fallback)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    planned = plan(chain(), MACHINE, Options(timeout=1.0))
    assert planned.log.status == "timeout"
    assert ("tiling", "timeout") in {(run.model, run.status) for run in planned.log.runs}


def test_residency_that_leaves_too_little_main_memory(monkeypatch: Patch) -> None:
    """Another answer might have fitted."""

    def too_small(*_: Any) -> Any:
        raise InfeasibleError("main memory is too small")

    solutions = ended_by_the_clock(monkeypatch, neighbourhood, found=True)
    monkeypatch.setattr(buffers, "main_buffers", too_small)
    planned: Planned = plan(chain(), MACHINE, Options(timeout=1.0))
    assert solutions and planned.log.status == "timeout"


def test_segmentation_that_finds_nothing_in_time(monkeypatch: Patch) -> None:
    no_heuristic_segments(monkeypatch)
    ended_by_the_clock(monkeypatch, segmentation, found=False)
    with pytest.raises(InfeasibleSearchError) as caught:
        segmentation.segment(chain(), MACHINE)
    assert caught.value.effort.timed_out


def test_budget_of_residency_that_the_clock_used_up(monkeypatch: Patch) -> None:
    """Nothing is searched any more, though there is deterministic time left."""
    monkeypatch.setattr(neighbourhood._Search, "_seconds_left", 0.0)  # pyright: ignore[reportPrivateUsage]
    assert plan(chain(), MACHINE, Options(timeout=1.0)).log.status == "timeout"


def test_efforts_add_up() -> None:
    assert Effort(1.0, 2.0) + Effort(0.5, 0.25, True) == Effort(1.5, 2.25, True)
    assert sum((Effort(1.0), Effort(2.0)), NO_EFFORT) == Effort(3.0)
