"""The best plan so far is one that the checker and the cache accept, and is called optimal by simulations alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import GirihError
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan, Step
from girih.solver.cpsat.log import Record
from girih.solver.loop import referee
from girih.solver.loop.changes import readdress
from girih.solver.loop.changes.plan_neighbourhood import Neighbourhood
from girih.solver.loop.evaluate import evaluate_tiled
from girih.solver.loop.incumbent import Incumbent
from girih.solver.loop.referee import MOST_JUDGED, Referee, judging_seconds
from girih.solver.subproblem.plan_builder import EvaluatedPlan
from tests.support.graphs import residual
from tests.support.plans.plain_plans import plain_plan

TINY = load_machine("tiny")
GRAPH = residual(1)
PLAN = plain_plan(GRAPH, TINY)


def predicted(cycles: int, number: int = 0) -> Plan:
    """A plan with this prediction; plans of different numbers differ."""
    return replace(PLAN, cycles_predicted=cycles, seed=number)


def incumbent(simulated: Mapping[int, int] | None = None, timeout: float = 60.0) -> Incumbent:
    """With a lower bound of 10,000 cycles, and a judge that knows plans by their numbers."""
    judge = None if simulated is None else lambda plan: simulated[plan.seed]  # type: ignore[misc]
    return Incumbent(Record(60.0, None), (10_000, "compute"), Referee(GRAPH, timeout, judge))


def test_no_plan_is_predicted_to_be_faster_than_its_lower_bound() -> None:
    best = incumbent()
    best.offer(0, predicted(9_999))
    plan = best.planned("exhausted", ()).plan
    check_plan(plan, GRAPH, TINY)
    assert (plan.cycles_predicted, plan.lower_bound_cycles) == (10_000, 10_000)
    best.offer(1, predicted(9_998))
    assert "not better" in best.record.log().runs[-1].note


def test_without_a_judge_predictions_are_believed() -> None:
    best = incumbent()
    best.offer(0, predicted(10_002))
    assert not best.is_optimal
    best.offer(1, predicted(10_001))
    assert best.is_optimal and best.is_final


def test_a_plan_is_optimal_if_its_simulation_meets_the_bound() -> None:
    best = incumbent({0: 10_001})
    best.offer(0, predicted(10_000))
    assert best.is_optimal and best.is_final
    assert best.record.log().runs[-1].status == "optimal"
    plan = best.planned("optimal", ()).plan
    assert (plan.cycles_predicted, plan.cycles_simulated) == (10_000, 10_001)


def test_a_former_best_that_is_nearly_as_good_is_a_rival() -> None:
    best = incumbent({})

    def offer(cycles: int, seed: int, instance: int) -> None:
        best.offer(0, replace(predicted(cycles, seed), steps=(Step(0, instance),)))

    def rival() -> int | None:
        plan = best.planned("exhausted", ()).rival
        return None if plan is None else plan.seed

    offer(20_000, 0, 0)
    assert rival() is None
    offer(19_000, 1, 1)
    assert rival() is None, "5 % apart"
    offer(18_900, 2, 1)
    assert rival() is None, "nothing but addresses differs"
    offer(18_850, 3, 2)
    assert rival() == 2, "the better one with that tiling"
    offer(18_800, 4, 3)
    assert rival() == 2, "the first"
    offer(18_950, 5, 4)
    assert rival() == 2, "what was never the best is none"


def test_the_first_plan_goes_along_unless_it_is_the_best_or_that_is_simulated() -> None:
    best = incumbent({3: 10_000})

    def first() -> int | None:
        plan = best.planned("exhausted", ()).first
        return None if plan is None else plan.seed

    best.offer(0, predicted(30_000, 0))
    assert first() is None
    best.offer(1, predicted(20_000, 1))
    assert first() == 0
    best.offer(2, predicted(15_000, 2))
    assert first() == 0, "not the one before the best"
    best.offer(3, predicted(10_000, 3))
    assert best.is_optimal and first() is None


def test_a_simulation_below_the_bound_is_a_bug_and_no_proof() -> None:
    best = incumbent({0: 9_000})
    with pytest.raises(GirihError, match=r"this is a bug.* 9,000 cycles, 1,000 fewer .* 10,000"):
        best.offer(0, predicted(9_500))
    assert not best.is_optimal
    # So is that of what a simulation is compared with.
    best = incumbent({0: 9_999, 1: 10_200})
    best.offer(0, predicted(10_100, 0))
    with pytest.raises(GirihError, match="this is a bug"):
        best.offer(1, predicted(10_000, 1))


def test_a_prediction_that_meets_the_bound_does_not_end_the_search_if_the_simulation_does_not() -> None:
    best = incumbent({0: 10_130, 1: 10_200, 2: 10_050})
    best.offer(0, predicted(9_000, 0))
    assert not best.is_final
    run = best.record.log().runs[-1]
    assert (run.status, run.objective) == ("feasible", 10_130.0)
    # Better by prediction, worse by simulation.
    best.offer(1, predicted(10_000, 1))
    assert best.planned("exhausted", ()).plan.seed == 0
    # A simulation is beaten by simulations alone, whatever the prediction says of the bound.
    best.offer(2, predicted(10_100, 2))
    plan = best.planned("exhausted", ()).plan
    assert (plan.seed, plan.cycles_predicted, plan.cycles_simulated) == (2, 10_100, 10_050)
    assert not best.is_final


def test_what_a_simulation_is_compared_with_is_simulated_too() -> None:
    # By prediction alone, the first would seem to be better than the simulation of the second.
    best = incumbent({0: 10_300, 1: 10_200})
    best.offer(0, predicted(10_100, 0))
    best.offer(1, predicted(10_000, 1))
    assert best.planned("exhausted", ()).plan.seed == 1
    best = incumbent({0: 10_150, 1: 10_200})
    best.offer(0, predicted(10_100, 0))
    best.offer(1, predicted(10_000, 1))
    plan = best.planned("exhausted", ()).plan
    assert (plan.seed, plan.cycles_predicted, plan.cycles_simulated) == (0, 10_100, 10_150)


def test_a_plan_is_simulated_once_and_plans_a_few_times() -> None:
    asked: list[int] = []

    def judge(plan: Plan) -> int:
        asked.append(plan.seed)
        return 11_000

    best = Incumbent(Record(60.0, None), (10_000, "compute"), Referee(GRAPH, 60.0, judge))
    for _ in range(3):
        best.offer(0, predicted(10_000))
    assert asked == [0]
    for number in range(1, MOST_JUDGED):
        best.offer(number, predicted(10_000, number))
    assert not best.is_final
    best.offer(MOST_JUDGED, predicted(10_000, MOST_JUDGED))
    assert asked == list(range(MOST_JUDGED))
    assert best.is_final and not best.is_optimal
    # No timeout pays for more.
    assert best.referee.used_up and not best.referee.unpaid
    assert best.planned("exhausted", ()).plan.seed == 0


def test_simulations_are_part_of_the_timeout() -> None:
    seconds = judging_seconds(GRAPH, PLAN)
    best = incumbent({0: 11_000}, timeout=1.9 * seconds)
    best.offer(0, predicted(10_000))
    # That it cannot be told is no proof, and nothing could be told to be better.
    assert best.is_final and not best.is_optimal
    assert best.referee.unpaid and not best.referee.used_up
    best = incumbent({0: 11_000}, timeout=2.1 * seconds)
    best.offer(0, predicted(10_000))
    assert best.planned("exhausted", ()).plan.cycles_simulated == 11_000


def test_a_plan_that_is_too_dear_to_simulate_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {0: 10.0, 1: 25.0, 2: 10.0}
    monkeypatch.setattr(referee, "judging_seconds", lambda _, plan: seconds[plan.seed])  # type: ignore[misc]
    best = incumbent({0: 11_000, 2: 10_500}, timeout=60.0)
    best.offer(0, predicted(10_000, 0))
    best.offer(1, predicted(10_000, 1))
    assert not best.is_final and best.referee.unpaid
    assert "not better" in best.record.log().runs[-1].note
    best.offer(2, predicted(10_000, 2))
    plan = best.planned("budget", ()).plan
    assert (plan.seed, plan.cycles_simulated) == (2, 10_500)


def test_a_change_of_a_simulated_plan_has_a_simulation_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_buffers(*_: object) -> Plan:
        return replace(best.planned("exhausted", ()).plan, local=(), seed=1)

    def timed(plan: Plan) -> Plan:
        return replace(plan, cycles_predicted=9_000)

    monkeypatch.setattr(readdress, "reflected", without_buffers)
    best = incumbent({0: 11_000, 1: 10_500})
    best.offer(0, predicted(10_000, 0))
    subproblem = SimpleNamespace(graph=GRAPH, machine=TINY, timed=timed)
    around: Any = SimpleNamespace(
        allows=lambda switch: switch == "address-reflection",
        predicted=lambda plan: Neighbourhood.predicted(around, plan),
        offer=lambda plan: Neighbourhood.offer(around, plan),
        incumbent=best,
        subproblem=subproblem,
        iteration=SimpleNamespace(number=1),
    )
    readdress.readdress(around, best.planned("exhausted", ()).plan)
    plan = best.planned("exhausted", ()).plan
    assert (plan.seed, plan.cycles_predicted, plan.cycles_simulated) == (1, 10_000, 10_500)


def test_the_user_may_interrupt_the_first_simulation() -> None:
    def judge(plan: Plan) -> int:
        raise KeyboardInterrupt

    best = Incumbent(Record(60.0, None), (10_000, "compute"), Referee(GRAPH, 60.0, judge))
    with pytest.raises(KeyboardInterrupt):
        best.offer(0, predicted(10_000))
    assert best.best is not None


@pytest.mark.parametrize(("any_plan", "plans_built"), [(True, 1), (False, 2)])
def test_where_any_plan_will_do_orders_are_not_compared(*, any_plan: bool, plans_built: int) -> None:
    built: list[int] = []

    def plans(requests: list[int], *_: Any) -> Iterator[EvaluatedPlan]:
        for number in requests:
            built.append(number)
            yield EvaluatedPlan(predicted(20_000, number), ())

    subproblem: Any = SimpleNamespace(tiling=lambda _: None, requests=lambda *_: [0, 1], plans=plans)  # pyright: ignore[reportUnknownLambdaType]
    best = Incumbent(Record(60.0, None), (10_000, "compute"), Referee(GRAPH, 60.0, None), any_plan=any_plan)
    iteration: Any = SimpleNamespace(number=1)
    evaluate_tiled(subproblem, best, [], iteration)
    assert len(built) == plans_built
