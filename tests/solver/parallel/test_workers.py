"""Workers: the same plans with any number of them, whatever becomes of them; none is left behind."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from girih.api.options import number_of_jobs
from girih.frontend import import_onnx
from girih.ir.errors import UsageError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.models import build
from girih.solver import plan
from girih.solver.options import Options, Planned
from girih.solver.parallel import questions
from girih.solver.parallel import workers as parallel_workers
from girih.solver.parallel.workers import Workers, answered
from girih.solver.subproblem import plan_questions
from tests.support import graphs
from tests.support.cpsat import unhurried

GRAPH = import_onnx(build("tiny-cnn"), batch=4)
CHAIN = graphs.chain(8, batch=8, size=32)
"""Its instances have more than one order."""
GRAPHS = {"tiny-cnn": GRAPH, "chain": CHAIN}


@dataclass(frozen=True)
class Echo:
    """Answers with its number, after so many seconds."""

    number: int
    seconds: float = 0.0

    def answer(self, graph: Graph, kept: dict[Any, Any]) -> tuple[int, int]:
        time.sleep(self.seconds)
        print("what is printed is no answer")
        return self.number, len(graph.ops)


@dataclass(frozen=True)
class Fail:
    """Dies, or raises an error."""

    dies: bool

    def answer(self, graph: Graph, kept: dict[Any, Any]) -> int:
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def planned(jobs: int, graph: Graph = GRAPH, timeout: float = 4.0) -> Planned:
    with unhurried():
        return plan(graph, load_machine("tiny"), Options(timeout), jobs=jobs)


@cache
def planned_alone(graph: str, timeout: float) -> Planned:
    """What all workers have to come to."""
    return planned(1, GRAPHS[graph], timeout)


def test_answers_come_in_the_order_of_the_questions() -> None:
    with closing(Workers(GRAPH, 2)) as workers:
        answers = workers.answers([Echo(n, 0.01 * (5 - n)) for n in range(6)])
        assert answers == [(n, len(GRAPH.ops)) for n in range(6)]


def test_who_dies_has_no_answer_and_the_others_go_on() -> None:
    with closing(Workers(GRAPH, 2)) as workers:
        assert workers.answers([Fail(False)]) == [None]
        assert workers.answers([Fail(True)]) == [None]
        assert not workers.idle and workers.answers([Echo(1)]) == [(1, len(GRAPH.ops))]
        assert workers.answers([Fail(True), *(Echo(n) for n in range(3))]) == [None] * 4
        assert workers.idle and workers.answers([Echo(1)]) == [None]


def test_an_interrupt_is_the_business_of_who_asks_and_the_end_is_that_of_all() -> None:
    workers = Workers(GRAPH, 2)
    workers.answers([Echo(0), Echo(1)])
    pids = [process.pid for process in workers._processes]
    for pid in pids:
        os.kill(pid, signal.SIGINT)
    assert workers.answers([Echo(2)]) == [(2, len(GRAPH.ops))]
    pending = [workers.ask(Echo(n, 60.0)) for n in range(4)]
    workers.close()
    assert all(is_gone(pid) for pid in pids)
    assert [future.result(5.0) for future in pending] == [None] * 4


def test_nobody_begins_with_what_was_cancelled() -> None:
    with closing(Workers(GRAPH, 2)) as workers:
        busy = [workers.ask(Echo(n, 0.5)) for n in range(2)]
        unwanted, wanted = workers.ask(Fail(True)), workers.ask(Echo(2))
        assert unwanted.cancel()
        assert [future.result(10.0) for future in (*busy, wanted)] == [(n, len(GRAPH.ops)) for n in range(3)]
        pending = [workers.ask(Echo(n, 60.0)) for n in range(4)]
        assert pending[3].cancel()
    assert [future.result(5.0) for future in pending[:3]] == [None] * 3


def test_who_waits_for_an_answer_stops_once_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_workers, "POLL_SECONDS", 0.01)
    with closing(Workers(GRAPH, 2)) as workers:
        assert answered(workers.ask(Echo(1, 0.1)), lambda: False) == (1, len(GRAPH.ops))
        looks = iter([False, False, True])
        assert answered(workers.ask(Echo(1, 60.0)), lambda: next(looks)) is None


def test_a_graph_that_cannot_be_sent_has_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(GRAPH, 2)
    monkeypatch.setattr(workers, "_graph", lambda: None)
    assert workers.answers([Echo(1)]) == [None] and workers.idle


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are asked about everything."""
    for name in ("FEWEST_ROOTS", "FEWEST_SEGMENTS"):
        monkeypatch.setattr(questions, name, 0)
    for name in ("FEWEST_ALTERNATIVES", "FEWEST_OPERATORS", "FEWEST_SLOTS"):
        monkeypatch.setattr(plan_questions, name, 0)
    monkeypatch.setattr(parallel_workers, "WORTH_SECONDS", 0.0)


@pytest.mark.usefixtures("eager")
def test_what_is_over_soon_starts_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything worth asking workers, a timeout in which starting them takes longer than they save has none."""
    started: list[int] = []
    monkeypatch.setattr(Workers, "_start", lambda self: started.append(self.jobs))
    monkeypatch.setattr(parallel_workers, "WORTH_SECONDS", 1.0)
    assert planned(2, timeout=0.9).plan and not started
    assert planned(2, timeout=1.0).plan and started


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("survivors", [0, 1, 2])
def test_plans_are_the_same_with_any_number_of_workers(monkeypatch: pytest.MonkeyPatch, survivors: int) -> None:
    """With two that live, and with those that are killed at the third question and at the fifth."""
    asked: list[str] = []
    ask = Workers.ask

    def killing(self: Workers, question: Any) -> Future[Any]:
        asked.append(type(question).__name__)
        future = ask(self, question)
        if len(asked) in (3, 5)[: 2 - survivors]:
            self._processes[len(asked) == 5].kill()
        return future

    alone = planned_alone("tiny-cnn", 4.0)
    monkeypatch.setattr(Workers, "ask", killing)
    together = planned(2)
    assert {"PriceRoot", "TileSegment"} <= set(asked) if survivors else len(asked) >= 5
    assert together.plan == alone.plan
    assert together.log.without_clock == alone.log.without_clock


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("graph", "survives", "question"),
    [
        ("tiny-cnn", True, "OnCores"),
        pytest.param("chain", True, "BuildPlan", marks=pytest.mark.thorough),
        ("chain", False, "ChosenTogether"),
    ],
)
def test_changes_of_plans_are_the_same_with_workers(
    monkeypatch: pytest.MonkeyPatch, graph: str, survives: bool, question: str
) -> None:
    """Tiles that workers choose for each other, and plans that they build; with workers that live, and with those that
    are killed as they are asked for tiles."""
    asked: list[str] = []
    ask = Workers.ask

    def killing(self: Workers, question: Any) -> Future[Any]:
        asked.append(type(question).__name__)
        future = ask(self, question)
        if not survives and asked[-1] == "ChosenTogether":
            for process in self._processes:
                process.kill()
        return future

    alone = planned_alone(graph, 6.0)
    monkeypatch.setattr(Workers, "ask", killing)
    together = planned(2, GRAPHS[graph], 6.0)
    assert {"ChosenTogether", question} <= set(asked)
    assert together.plan == alone.plan
    assert together.log.without_clock == alone.log.without_clock


def test_the_number_of_jobs_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setenv("GIRIH_JOBS", "5")
    assert number_of_jobs(None) == 5 and number_of_jobs(3) == 3
    monkeypatch.setenv("GIRIH_JOBS", "1000000")
    assert number_of_jobs(None) == number_of_jobs(10**12) == 6
    for wrong in ("0", "many", "-1"):
        monkeypatch.setenv("GIRIH_JOBS", wrong)
        with pytest.raises(UsageError, match=f"GIRIH_JOBS is '{wrong}', which makes no sense"):
            number_of_jobs(None)
    monkeypatch.delenv("GIRIH_JOBS")
    assert number_of_jobs(None) == 6
    with pytest.raises(UsageError, match="jobs 0 makes no sense"):
        number_of_jobs(0)
