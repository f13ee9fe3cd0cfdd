"""What a search has cost is counted by what it did, with any number of processes."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import closing

import pytest

from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan, Segment, Split
from girih.solver.cpsat.log import Record
from girih.solver.loop.changes.plan_neighbourhood import Neighbourhood
from girih.solver.loop.evaluate import evaluate_segments
from girih.solver.loop.incumbent import Incumbent
from girih.solver.loop.referee import Referee
from girih.solver.loop.spending import COUNTED_BUILT, COUNTED_REPREDICTED, WorkCounters
from girih.solver.options import Options
from girih.solver.parallel.workers import Answer, Question, Workers
from girih.solver.segmentation.candidates import Candidates
from girih.solver.subproblem import plan_questions
from girih.solver.subproblem.plan_work import PlanWork, plan_work
from girih.solver.subproblem.subproblem import Subproblem
from girih.solver.subproblem.tiling_alternatives import TilingCuts
from girih.solver.subproblem.time_budget import rounds, searching
from tests.support import graphs

MACHINE = load_machine("stcp920")
GRAPH = graphs.chain(3, batch=4)


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_work_of_plans_is_counted(monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    offered: list[Plan] = []
    offer = Incumbent.offer

    def noted(self: Incumbent, iteration: int, plan: Plan, origin: str = "") -> None:
        offered.append(plan)
        offer(self, iteration, plan, origin)

    answered: list[object] = []

    def ask(self: Workers, question: Question[Answer]) -> Future[Answer | None]:
        future = ask_worker(self, question)
        answered.append(future.result())
        return future

    ask_worker = Workers.ask
    monkeypatch.setattr(Workers, "ask", ask)
    monkeypatch.setattr(plan_questions, "FEWEST_SLOTS", 0)
    monkeypatch.setattr(Incumbent, "offer", noted)
    segments = tuple(Segment((op.name,), (Split(0, 4 // (1 + n)),), (), ()) for n, op in enumerate(GRAPH.ops[:2]))
    segments += (Segment((GRAPH.ops[2].name,), (), (), ()),)
    with closing(Workers(GRAPH, jobs)) as workers:
        incumbent = Incumbent(Record(60.0, None), (0, ""), Referee(GRAPH, 60.0, None))
        subproblem = Subproblem(GRAPH, MACHINE, Options(20.0), incumbent.note, workers=workers)
        iteration = searching(rounds(20.0)).iteration(1)
        evaluate_segments(subproblem, incumbent, segments, TilingCuts(), iteration)
        assert len(offered) == 2, "segment by segment and depth first"
        assert len([plan for plan in answered if plan is not None]) == (2 if jobs > 1 else 0), "workers built them"
        first, second = (plan_work(GRAPH, subproblem.cells, MACHINE, plan) for plan in offered)
        assert (subproblem.built, subproblem.repredicted) == (first + second, PlanWork())
        around = Neighbourhood(
            incumbent, subproblem, Candidates(GRAPH, MACHINE), TilingCuts(), iteration, lambda: True
        )  # fmt: skip
        around.predicted(offered[0])
        assert (subproblem.built, subproblem.repredicted) == (first + second, first)


def test_what_is_counted_takes_so_many_seconds() -> None:
    record = Record(60.0, None)

    def seconds(built: PlanWork, repredicted: PlanWork) -> float:
        return WorkCounters(
            roots=lambda: 0,
            columns=lambda: 0,
            groups=lambda: 0,
            built=lambda: built,
            repredicted=lambda: repredicted,
            predicted_operators=lambda: 0,
        ).seconds(record)

    work, none = PlanWork(slots=1_000, products=20_000), PlanWork()
    assert seconds(work, none) == pytest.approx(1_000 * COUNTED_BUILT.slot + 20_000 * COUNTED_BUILT.product)
    assert seconds(none, work) == pytest.approx(1_000 * COUNTED_REPREDICTED.slot + 20_000 * COUNTED_REPREDICTED.product)
