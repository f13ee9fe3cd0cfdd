"""Iterations in which segmentation looks farther: with groups of segments that take turns, and with a path and a
residency that improve each other; what they win, and that they change nothing where they are off."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.codec import from_json, sha256, to_json
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan, Segment, Split
from girih.solver import plan
from girih.solver.loop import master, search
from girih.solver.loop.benders import MOST_CUTS, MOST_CUTS_FARTHER, Decomposition
from girih.solver.loop.master import HEADROOM, Cuts, Extent, Master
from girih.solver.options import Options, Planned
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.solve import BendersCut
from girih.solver.subproblem.plan_builder import Infeasibility
from girih.solver.subproblem.step_order import groups_of, segment_by_segment
from girih.solver.subproblem.subproblem import Subproblem
from girih.solver.subproblem.time_budget import SEARCHED
from girih.solver.switches import Switch
from tests.support import graphs
from tests.support.machines import with_capacity
from tests.support.numpy_check import check, inputs_of

TINY = load_machine("tiny")
SMALL = with_capacity(TINY, "LLB", 192 << 10)
FARTHER: frozenset[Switch] = frozenset({"segment-groups", "residency-in-turn"})
LOCAL: frozenset[Switch] = frozenset({
    "step-groups", "joint-tiles", "fewer-instances", "queue-order", "address-reflection", "weight-separation",
    "deep-weights", "early-weights",
})  # fmt: skip
BEYOND: frozenset[Switch] = frozenset({"smaller-memories", "excluded-segments"})
QUICK = Options(timeout=5.0, disabled=BEYOND | LOCAL | SEARCHED)
"""Models answer with their hints; plans are hardly changed, and what comes after the iterations is off."""


@cache
def network() -> Graph:
    """A bottleneck with a shortcut whose results do not fit in shared memory."""
    return graphs.residual(1, batch=4, size=28, channels=32, dtype="float32")


def planned(*disabled: Switch) -> Planned:
    return plan(network(), SMALL, replace(QUICK, disabled=QUICK.disabled | frozenset(disabled)))


@cache
def once(*disabled: Switch) -> Planned:
    return planned(*disabled)


def segmentations(answer: Planned) -> list[str]:
    return [run.note for run in answer.log.runs if run.model == "segmentation" and "segment" in run.note]


def test_groups_that_take_turns_are_faster() -> None:
    farther, nearer = once(), once("residency-in-turn", "segment-groups")
    assert farther.plan.cycles_predicted < 0.95 * nearer.plan.cycles_predicted
    assert any("in 2 groups" in note for note in segmentations(farther))
    assert not any("groups" in note for note in segmentations(nearer))
    groups = groups_of(farther.plan)
    assert len(set(groups)) < len(groups) and farther.plan.steps != segment_by_segment(farther.plan.segments)
    assert nearer.plan.cycles_predicted >= nearer.plan.lower_bound_cycles


def test_plans_of_groups_are_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What segmentation says of groups reaches the orders that are planned."""
    answers: list[tuple[int, ...]] = []
    segment, requests = master.segment, Subproblem.requests

    def chosen(*args: Any, **options: Any) -> Any:
        answer = segment(*args, **options)
        answers.append(answer.groups)
        return answer

    seen: list[tuple[int, ...]] = []

    def requested(self: Subproblem, tiled: Any, iteration: Any, steps: Any = None, groups: tuple[int, ...] = ()) -> Any:
        seen.append(groups)
        return requests(self, tiled, iteration, steps, groups)

    monkeypatch.setattr(master, "segment", chosen)
    monkeypatch.setattr(Subproblem, "requests", requested)
    planned()
    assert {groups for groups in answers if groups} and set(seen) >= {groups for groups in answers if groups}


def test_the_plan_can_be_followed() -> None:
    """The checker passes it, and the values of its program are right."""
    best = once().plan
    check_plan(best, network(), SMALL)
    assert from_json(to_json(best), Plan) == best
    check(network(), SMALL, best, inputs_of(network()), 1e-5)


def test_the_same_plan_comes_twice() -> None:
    assert sha256(planned().plan) == sha256(once().plan)


def test_without_both_nothing_looks_farther(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan, and all that was done for it, is that of a search which knows of neither."""
    nearer = once("residency-in-turn", "segment-groups")
    monkeypatch.setattr(search._Search, "_extend", lambda *_: None)  # pyright: ignore[reportPrivateUsage]
    without = planned()
    assert without.plan == nearer.plan
    assert [(r.model, r.objective, r.note) for r in without.log.runs] == [
        (r.model, r.objective, r.note) for r in nearer.log.runs
    ]


@pytest.mark.parametrize(
    ("disabled", "expected"),
    [
        ((), [Extent(in_turn=True), Extent(in_turn=True, starts=(0, 2, 3, 5))]),
        (("residency-in-turn",), [Extent(starts=(0, 2, 3, 5))]),
        (("segment-groups",), [Extent(in_turn=True)]),
        (("residency-in-turn", "segment-groups"), []),
    ],
)
def test_each_switch_is_one_iteration(
    disabled: tuple[Switch, ...], expected: list[Extent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, after the first one and without what it has learned of costs; groups begin where its segments do."""
    extents: list[tuple[Extent, Cuts]] = []
    starts: list[tuple[int, ...]] = []
    run = Decomposition.iteration

    def iteration(self: Decomposition, *args: Any, **options: Any) -> Any:
        extents.append((self.extent, self.cuts))
        attempt = run(self, *args, **options)
        if attempt is not None and not starts:
            starts.append(tuple(column.first for column in attempt.segmentation.columns))
        return attempt

    monkeypatch.setattr(Decomposition, "iteration", iteration)
    planned(*disabled)
    assert extents[0] == (Extent(), Cuts()) and starts == [(0, 2, 3, 5)]
    farther = extents[1 : 1 + len(expected)]
    assert [extent for extent, _ in farther] == expected
    assert all(not cuts.columns and not cuts.headroom for _, cuts in farther)
    # Those that follow look as far as the best plan's.
    assert len({extent for extent, _ in extents[1 + len(expected) :]}) <= 1


def test_where_memory_costs_nothing_nothing_looks_farther(monkeypatch: pytest.MonkeyPatch) -> None:
    extents: list[Extent] = []
    run = Decomposition.iteration

    def iteration(self: Decomposition, *args: Any, **options: Any) -> Any:
        extents.append(self.extent)
        return run(self, *args, **options)

    monkeypatch.setattr(Decomposition, "iteration", iteration)
    plan(graphs.chain(3, dtype="float32"), TINY, QUICK)
    assert extents and set(extents) == {Extent()}


@pytest.mark.parametrize("timeout", [1.0, 4.9])
def test_a_short_search_does_not_look_farther(timeout: float) -> None:
    answer = plan(network(), SMALL, replace(QUICK, timeout=timeout))
    assert len(segmentations(answer)) == 1


# Cuts.


def shared_overflow(machine: Machine) -> Infeasibility:
    level = machine.levels.exchange
    return Infeasibility(0, "stem", level, level.capacity + 64, level.capacity, "no addresses")


@pytest.mark.parametrize("capacity", [192 << 10, 100_000])
def test_headroom_comes_first_and_once(capacity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where path and residency improved each other; after that, columns are cut as they are otherwise."""
    machine = with_capacity(TINY, "LLB", capacity)
    chief = Master(network(), machine, Candidates(network(), machine), 0)
    monkeypatch.setattr(chief, "smaller_tiles", lambda *_: None)
    refused, overflow = Segment(("stem",), (Split(0, 4),), (Split(1, 2),), ()), shared_overflow(machine)
    column = BendersCut(refused.ops, refused.instances, refused.cores)
    known = (BendersCut(("a0",)),)
    first = chief.excluding(Cuts(known), refused, overflow, in_turn=True)
    assert first == Cuts(known, headroom=capacity // HEADROOM)
    second = chief.excluding(first, refused, overflow, in_turn=True)
    assert second == replace(first, columns=(*known, column))
    assert chief.excluding(Cuts(known), refused, overflow) == Cuts((*known, column))
    local = replace(overflow, level=machine.levels.activations)
    assert chief.excluding(Cuts(known), refused, local, in_turn=True) == Cuts((*known, column))


def test_smaller_tiles_come_after_headroom() -> None:
    graph = graphs.chain(2, channels=32, dtype="float32")
    machine = with_capacity(TINY, "LLB", 30720)
    chief = Master(graph, machine, Candidates(graph, machine), 0)
    refused = Segment(("conv0",), (), (), ())
    overflow = replace(shared_overflow(machine), op="conv0")
    nearer = chief.excluding(Cuts(), refused, overflow)
    assert nearer.tiling.cap and not nearer.columns and not nearer.headroom
    roomy = chief.excluding(Cuts(), refused, overflow, in_turn=True)
    assert roomy == Cuts(headroom=machine.levels.exchange.capacity // HEADROOM)
    assert chief.excluding(roomy, refused, overflow, in_turn=True) == replace(nearer, headroom=roomy.headroom)


def test_headroom_is_for_segmentation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers leave so much free; and after a few refusals, an iteration in turn is given up."""
    requests: list[tuple[int, int]] = []
    number = [0]
    segment = master.segment

    def chosen(*args: Any, **options: Any) -> Any:
        requests.append((options["headroom"], len(options["cuts"])))
        return segment(*args, **options)

    evaluate = Decomposition.evaluate

    def refusing(self: Decomposition, *args: Any) -> Any:
        if not self.extent.in_turn:
            return evaluate(self, *args)
        number[0] += 1
        return replace(shared_overflow(SMALL), op=network().ops[0].name)

    monkeypatch.setattr(master, "segment", chosen)
    monkeypatch.setattr(Master, "smaller_tiles", lambda *_: None)
    monkeypatch.setattr(Decomposition, "evaluate", refusing)
    iteration = Decomposition.iteration
    # Whatever little it promises.
    monkeypatch.setattr(
        Decomposition,
        "iteration",
        lambda self, budgets, _=0.0, most=MOST_CUTS: iteration(self, budgets, most_cuts=most),
    )
    answer = planned("segment-groups")
    assert MOST_CUTS_FARTHER < MOST_CUTS and number[0] == MOST_CUTS_FARTHER
    headroom = SMALL.levels.exchange.capacity // HEADROOM
    assert requests[:4] == [(0, 0), (0, 0), (headroom, 0), (headroom, 1)]
    assert all(room == 0 for room, _ in requests[4:]), "what an iteration without a plan learned is forgotten"
    check_plan(answer.plan, network(), SMALL)
    notes = [run.note for run in answer.log.runs if run.note.startswith("cut")]
    assert any(f"{headroom:,} bytes stay free" in note for note in notes)
