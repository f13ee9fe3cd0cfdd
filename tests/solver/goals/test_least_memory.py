"""The least memory of small networks: the plan is one of the whole machine, and as small as it says."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import InfeasibleError, UsageError
from girih.ir.load_machine import load_machine
from girih.solver import plan
from girih.solver.cpsat.log import Record
from girih.solver.goals import least_memory
from girih.solver.goals.least_memory import MemoryGoal
from girih.solver.loop.precheck import check_smallest, least_bytes
from girih.solver.options import Options, Planned, Progress
from girih.solver.reduced_machine import extent, reduced
from tests.support import graphs
from tests.support.machines import kinds_of

MACHINE = load_machine("tiny")
GRAPH = graphs.chain(2, channels=8, dtype="float32")


@pytest.mark.parametrize("memory", ["DDR", "LLB", "L1", "L1W", "IM"])
def test_the_plan_fits_a_machine_with_as_little(memory: str) -> None:
    planned = plan(GRAPH, MACHINE, Options(timeout=1.0, minimise=f"peak:{memory}"))
    check_plan(planned.plan, GRAPH, MACHINE)
    answer = planned.plan.solved[-1]
    assert answer.model == f"peak:{memory}" and answer.unit == "bytes"
    assert answer.objective is not None and answer.bound is not None
    least = round(answer.objective)
    assert extent(planned.plan, memory) <= least < MACHINE.memory[memory].capacity
    check_plan(planned.plan, GRAPH, reduced(MACHINE, memory, least))
    assert answer.bound <= least and (answer.status == "optimal") == (answer.bound == least)
    assert planned.plan.cycles_predicted >= planned.plan.lower_bound_cycles


@pytest.mark.parametrize("memory", ["LLB", "L1", "L1W", "IM"])
def test_fewer_bytes_than_the_bound_are_proven_to_be_too_few(memory: str) -> None:
    bound = least_bytes(GRAPH, MACHINE, memory)
    check_smallest(GRAPH, reduced(MACHINE, memory, bound))
    with pytest.raises(InfeasibleError, match=memory):
        check_smallest(GRAPH, reduced(MACHINE, memory, bound - 1))


@pytest.mark.parametrize("kind", ["main memory to write", "shared memory"])
def test_less_main_memory_is_what_homes_share(kind: str) -> None:
    machine, graph = kinds_of(MACHINE)[kind], graphs.branches()
    home = machine.levels.home.name
    apart = plan(graph, machine, Options(4.0, "layerwise")).plan
    planned = plan(graph, machine, Options(4.0, "layerwise", minimise=f"peak:{home}")).plan
    check_plan(planned, graph, machine)
    size = {t.name: t.bytes for t in graph.tensors}
    ports = sum(size[name] for name in graph.input_tensors | graph.output_tensors)
    # Of the largest branch, what one operator reads and what it makes.
    assert extent(planned, home) == ports + 2 * max(size.values()) < extent(apart, home)


def test_it_is_no_more_than_the_quickest_plan_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the clock ends every step of the bisection."""
    search, capacity = MemoryGoal.search, MACHINE.memory["LLB"].capacity

    def search_of_all(self: MemoryGoal, bytes_: int, timeout: float, **options: bool) -> Planned:
        if bytes_ < capacity and options.get("any_plan"):
            raise InfeasibleError("the clock ended the search")
        return search(self, bytes_, timeout, **options)

    monkeypatch.setattr(MemoryGoal, "search", search_of_all)
    planned = plan(GRAPH, MACHINE, Options(timeout=4.0, minimise="peak:LLB"))
    quickest = plan(GRAPH, MACHINE, Options(timeout=1.0))
    assert extent(planned.plan, "LLB") <= extent(quickest.plan, "LLB") < capacity
    assert planned.plan.cycles_predicted <= quickest.plan.cycles_predicted


def test_the_same_twice() -> None:
    first, second = (plan(GRAPH, MACHINE, Options(timeout=4.0, minimise="peak:L1W")) for _ in range(2))
    assert first.plan == second.plan


def test_what_is_no_memory_is_refused() -> None:
    with pytest.raises(UsageError, match="tiny has no memory 'LB'; choose from DDR, LLB, L1, L1W, IM"):
        plan(GRAPH, MACHINE, Options(timeout=1.0, minimise="peak:LB"))


def test_an_interrupt_keeps_the_least_so_far() -> None:
    seen: list[Progress] = []

    def listen(news: Progress) -> None:
        if news.model == "peak:LLB" and news.status == "running":
            seen.append(news)
            if len(seen) == 2:
                signal.raise_signal(signal.SIGINT)

    planned = plan(GRAPH, MACHINE, Options(timeout=4.0, minimise="peak:LLB"), listen)
    assert planned.log.status == "interrupted" and len(seen) == 2
    check_plan(planned.plan, GRAPH, MACHINE)
    assert planned.plan.solved[-1].objective == seen[-1].incumbent


def interrupting(work: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with an interrupt before its first call."""
    begun: list[object] = []

    @wraps(work)
    def interrupted(*args: Any, **kwargs: Any) -> Any:
        begun.append(args)
        if len(begun) == 1:
            signal.raise_signal(signal.SIGINT)
        return work(*args, **kwargs)

    return interrupted


@pytest.mark.parametrize("place", ["least_bytes", "lower_bound", "PlanBuilder.timed", "Incumbent.offer"])
def test_an_interrupt_outside_of_a_search_keeps_the_plan(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    owner, _, name = place.rpartition(".")
    if owner:
        # The searches have others of the class.
        kind = getattr(least_memory, owner)
        monkeypatch.setattr(least_memory, owner, type(owner, (kind,), {name: interrupting(getattr(kind, name))}))
    else:
        monkeypatch.setattr(least_memory, name, interrupting(getattr(least_memory, name)))
    planned = plan(GRAPH, MACHINE, Options(timeout=4.0, minimise="peak:LLB"))
    assert planned.log.status == "interrupted"
    check_plan(planned.plan, GRAPH, MACHINE)


def test_the_clock_ends_a_search_before_its_first_plan_where_there_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    goal = MemoryGoal(GRAPH, MACHINE, "LLB", Options(timeout=1.0), None, None)
    monkeypatch.setattr(Record, "over", lambda _: True)  # pyright: ignore[reportUnknownLambdaType]
    whole = MACHINE.memory["LLB"].capacity
    with pytest.raises(InfeasibleError, match="the clock ended the search"):
        goal.search(whole, 1.0)
    check_plan(goal.search(whole, 1.0, expendable=False).plan, GRAPH, MACHINE)
