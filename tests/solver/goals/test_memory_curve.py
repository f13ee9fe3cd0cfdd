"""The curve of cycles against bytes: plans of the whole machine, none of which is beaten by another."""

from __future__ import annotations

import signal
from dataclasses import replace
from itertools import pairwise

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan
from girih.solver.goals import least_memory
from girih.solver.goals.least_memory import LeastMemory, MemoryGoal
from girih.solver.goals.memory_curve import CurvePoint, capacities_between, memory_curve, undominated
from girih.solver.options import Options
from girih.solver.reduced_machine import reduced
from tests.support import graphs

MACHINE = load_machine("tiny")
GRAPH = graphs.chain(dtype="float32")


@pytest.mark.parametrize("memory", ["L1", "IM"])
def test_every_point_is_a_plan_for_as_little_memory(memory: str) -> None:
    curve = memory_curve(GRAPH, MACHINE, memory, 4, Options(timeout=1.0))
    assert 2 <= len(curve.points) <= 6
    for point in curve.points:
        check_plan(point.plan, GRAPH, reduced(MACHINE, memory, point.bytes))
        check_plan(point.plan, GRAPH, MACHINE)
        assert curve.lower_bound <= point.cycles == point.plan.cycles_predicted
    assert curve.least.bound <= curve.points[0].bytes <= curve.least.bytes
    for less, more in pairwise(curve.points):
        assert less.bytes < more.bytes and less.cycles > more.cycles


def test_capacities_are_at_equal_ratios() -> None:
    assert capacities_between(64, 1024, 5, 64) == (512, 256, 128, 64)
    assert capacities_between(64, 64, 5, 64) == ()
    assert capacities_between(64, 192, 8, 64) == (128, 64)


def test_a_point_that_another_beats_is_left_out() -> None:
    plan = memory_curve(GRAPH, MACHINE, "L1W", 2, Options(timeout=1.0)).points[0].plan
    points = [CurvePoint(size, cycles, replace(plan, seed=size)) for size, cycles in ((8, 5), (4, 9), (6, 9), (4, 10))]
    assert [(p.bytes, p.cycles) for p in undominated(points)] == [(4, 9), (8, 5)]


def test_an_interrupt_before_the_least_memory_is_looked_for_keeps_the_first_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def least_bytes(*_: object) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    monkeypatch.setattr(least_memory, "least_bytes", least_bytes)
    curve = memory_curve(GRAPH, MACHINE, "L1", 4, Options(timeout=1.0))
    assert curve.interrupted and len(curve.points) == 1
    check_plan(curve.points[0].plan, GRAPH, MACHINE)


@pytest.mark.parametrize("interrupts", [1, 2])
def test_an_interrupt_of_the_simulations_keeps_all_points(monkeypatch: pytest.MonkeyPatch, interrupts: int) -> None:
    """A second one gives up."""
    judged: list[Plan] = []
    searched: list[CurvePoint] = []
    with_plans = MemoryGoal.with_plans

    def judge(plan: Plan) -> int:
        judged.append(plan)
        if searched and len(judged) <= interrupts:
            signal.raise_signal(signal.SIGINT)
        return plan.cycles_predicted

    def end_searches(self: MemoryGoal, least: LeastMemory, plans: list[Plan]) -> LeastMemory:
        searched.extend(CurvePoint(self.bytes_of(plan), plan.cycles_predicted, plan) for plan in plans)
        judged.clear()
        return with_plans(self, least, plans)

    monkeypatch.setattr(MemoryGoal, "with_plans", end_searches)
    if interrupts == 1:
        curve = memory_curve(GRAPH, MACHINE, "L1", 3, Options(timeout=1.0), judge=judge)
        assert len(searched) >= 2 and curve.points == undominated(searched)
    else:
        with pytest.raises(KeyboardInterrupt):
            memory_curve(GRAPH, MACHINE, "L1", 3, Options(timeout=1.0), judge=judge)
