"""The order of queues in whole compilations: it saves cycles, is what the program follows, and changes no result."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial

import pytest

import girih
from girih.api.compile import Compiled
from girih.api.goals.graph_for import graph_for
from girih.api.judge import judge
from girih.frontend import import_onnx
from girih.ir.checks.check_plan import check_plan
from girih.ir.codec import sha256
from girih.ir.errors import CheckError, GirihError, UnsupportedError, UsageError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan, QueueOrder
from girih.ir.semantics.task_graph import TaskGraph, queue_orders, sequence
from girih.lowering import Lowerer, lower
from girih.models import build
from girih.solver import plan
from girih.solver.effort import NO_EFFORT
from girih.solver.loop.referee import judging_seconds
from girih.solver.loop.search import longest_seconds
from girih.solver.options import Options, Planned, Progress, SolveLog
from girih.solver.order import decide, windows
from girih.solver.order.decide import RIVAL_SHARE, with_order
from girih.solver.order.windows import WindowAnswer
from girih.solver.switches import checked

TINY = load_machine("tiny")


@lru_cache
def network() -> Graph:
    return graph_for(import_onnx(build("tiny-transformer"), batch=4, clusters=TINY.clusters), TINY, Options(8.0))


@lru_cache
def compiled() -> Compiled:
    return girih.compile(build("tiny-transformer"), target="tiny", batch=4, solver_timeout=8.0, cache=False)


@lru_cache
def planned(*disabled: str) -> Plan:
    if not disabled:
        return compiled().plan
    graph = network()
    options = Options(8.0, disabled=checked(disabled))
    lowerer = Lowerer(graph, TINY)
    return plan(graph, TINY, options, None, judge(lowerer), lowerer.tasks).plan


def test_it_saves_cycles_and_is_predicted() -> None:
    ordered, plain = planned(), planned("queue-order")
    assert ordered.order and not plain.order
    check_plan(ordered, network(), TINY)
    cycles = judge(Lowerer(network(), TINY))
    assert cycles(ordered) < cycles(replace(ordered, order=()))
    assert ordered.cycles_simulated == cycles(ordered)
    assert abs(ordered.cycles_predicted / cycles(ordered) - 1) < 0.03
    assert [s.model for s in ordered.solved].count("order") == 1


def test_an_interrupted_search_of_an_order_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, plain, lowerer = network(), planned("queue-order"), Lowerer(network(), TINY)

    def interrupted(*question: object) -> WindowAnswer:
        return WindowAnswer(None, NO_EFFORT, interrupted=True)

    monkeypatch.setattr(windows, "solve_window", interrupted)
    answer = with_order(
        Planned(plain, SolveLog((), None)), graph, Options(8.0), None, judge(lowerer), lowerer.tasks
    )  # fmt: skip
    assert answer.log.status == "interrupted" and not answer.log.is_reproducible
    assert answer.plan.cycles <= judge(lowerer)(plain)


def test_an_interrupt_at_the_last_news_keeps_the_order() -> None:
    graph, plain, lowerer = network(), planned("queue-order"), Lowerer(network(), TINY)

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    answer = with_order(
        Planned(plain, SolveLog((), None)), graph, Options(8.0), interrupt, judge(lowerer), lowerer.tasks
    )  # fmt: skip
    assert answer.plan.order and answer.log.status == "interrupted"


@pytest.mark.parametrize("nth", [10, 20])
def test_a_listener_that_interrupts_has_interrupted(nth: int) -> None:
    news: list[Progress] = []

    def interrupt(progress: Progress) -> None:
        news.append(progress)
        if len(news) == nth:
            raise KeyboardInterrupt

    assert plan(network(), TINY, Options(4.0), interrupt).log.status == "interrupted"


@pytest.mark.parametrize(("share", "paid"), [(0.99, False), (1.01, True)])
def test_the_timeout_has_to_pay_for_a_lowering_and_a_simulation(*, share: float, paid: bool) -> None:
    graph, plain = network(), planned("queue-order")
    options = Options(share * judging_seconds(graph, plain))
    lowerer = Lowerer(graph, TINY)
    answer = with_order(Planned(plain, SolveLog((), None)), graph, options, None, judge(lowerer), lowerer.tasks)
    assert ("order" in [run.model for run in answer.log.runs]) == paid
    assert ("an order of queues" in answer.log.unpaid) != paid


def test_what_it_says_it_gains_is_the_difference_of_two_simulations() -> None:
    graph, plain, lowerer, said = network(), planned("queue-order"), Lowerer(network(), TINY), list[Progress]()
    log, cycles = SolveLog((), None), judge(lowerer)
    ordered = with_order(Planned(plain, log), graph, Options(8.0), said.append, cycles, lowerer.tasks).plan
    (news,) = said
    assert news.message == f"{cycles(plain) - cycles(ordered):,} cycles fewer"
    assert cycles(plain) != plain.cycles_predicted


def test_a_rival_that_takes_fewer_cycles_with_an_order_is_chosen() -> None:
    graph, plain, lowerer = network(), planned("queue-order"), Lowerer(network(), TINY)
    options, log = Options(1.01 * judging_seconds(graph, plain) / RIVAL_SHARE), SolveLog((), None)
    worse = replace(plain, cycles_predicted=plain.cycles_predicted * 101 // 100)

    def answer(plan: Plan, rival: Plan | None, options: Options = options) -> tuple[Plan, str]:
        ordered = with_order(Planned(plan, log, rival), graph, options, None, judge(lowerer), lowerer.tasks)
        return ordered.plan, ordered.log.runs[-1].note

    alone, note = answer(plain, None)
    assert alone.order and "another plan" not in note
    assert answer(plain, worse) == (alone, note)
    other, note = answer(worse, plain)
    assert other == alone and "another plan" in note
    assert answer(worse, plain, replace(options, minimise="peak:LLB"))[0] != alone
    assert answer(worse, plain, replace(options, timeout=options.timeout * 0.98))[0] != alone, "the rival is not paid"


def test_a_rival_is_no_better_than_its_simulation() -> None:
    """Or has no program: then the best plan has an order of its own."""
    graph, plain, lowerer = network(), planned("queue-order"), Lowerer(network(), TINY)
    options, log = Options(1.01 * judging_seconds(graph, plain) / RIVAL_SHARE), SolveLog((), None)
    best, cycles = replace(plain, cycles_predicted=plain.cycles_predicted * 101 // 100), judge(lowerer)
    alone = with_order(Planned(best, log), graph, options, None, cycles, lowerer.tasks).plan
    assert alone.order
    rival = replace(plain, seed=plain.seed + 1)

    simulated: list[bool] = []

    def slower(plan: Plan) -> int:
        simulated.append(bool(plan.order))
        return cycles(plan) << (plan.seed == rival.seed)

    def without_rivals(plan: Plan, error: GirihError) -> TaskGraph:
        if plan.seed == rival.seed:
            raise error
        return lowerer.tasks(plan)

    assert with_order(Planned(best, log, rival), graph, options, None, slower, lowerer.tasks).plan == alone
    assert simulated == [False, True, True], "the best plan once without an order, and once each with one"
    for error in (UnsupportedError("no program"), UsageError("a template refuses the tiles")):
        tasks = partial(without_rivals, error=error)
        assert with_order(Planned(best, log, rival), graph, options, None, cycles, tasks).plan == alone


def test_the_first_plan_is_the_answer_where_simulations_say_that_it_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is simulated only if its prediction is below what the best plan really takes, and the timeout pays for it."""
    graph, plain, lowerer, said = network(), planned("queue-order"), Lowerer(network(), TINY), list[Progress]()
    options, log, cycles = Options(2 * judging_seconds(graph, plain)), SolveLog((), None), judge(lowerer)
    alone = with_order(Planned(plain, log), graph, options, None, cycles, lowerer.tasks).plan
    first = replace(plain, seed=plain.seed + 1, cycles_predicted=alone.cycles - 1)
    takes = {"cycles": alone.cycles - 2}
    simulated: list[bool] = []

    def judged(plan: Plan) -> int:
        simulated.append(plan.seed == first.seed)
        if plan.seed == first.seed and not takes["cycles"]:
            raise UsageError("a template refuses the tiles")
        return takes["cycles"] if plan.seed == first.seed else cycles(plan)

    def answer(first: Plan, options: Options = options) -> tuple[Plan, str]:
        simulated.clear()
        answer = with_order(Planned(plain, log, first=first), graph, options, said.append, judged, lowerer.tasks)
        return answer.plan, answer.log.runs[-1].note

    better, note = answer(first)
    assert better == replace(first, cycles_simulated=takes["cycles"]) and note in said[-1].message
    assert f"the first plan takes fewer cycles, {takes['cycles']:,} when simulated" in note
    for cycles_of_first in (0, alone.cycles):
        takes["cycles"] = cycles_of_first
        assert answer(first)[0] == alone and any(simulated)
    takes["cycles"] = 1
    assert answer(replace(first, cycles_predicted=alone.cycles))[0] == alone and not any(simulated)
    assert answer(first, replace(options, minimise="peak:LLB"))[0] == alone and not any(simulated)
    monkeypatch.setattr(
        decide,
        "judging_seconds",
        lambda graph, plan: judging_seconds(graph, plan) * (3 if plan.seed == first.seed else 1),
    )
    assert answer(first)[0] == alone and not any(simulated)


def test_the_clock_leaves_the_order_as_it_is_where_bytes_are_minimised() -> None:
    graph, plain = network(), planned("queue-order")
    options = Options(judging_seconds(graph, plain) + 1.0, minimise="peak:LLB")

    def never(_: Plan) -> TaskGraph:
        raise AssertionError("the time is up")

    log = SolveLog((), longest_seconds(graph, options.timeout) + 0.1)
    answer = with_order(Planned(plain, log), graph, options, None, None, never)
    assert answer.plan == plain and answer.log.status == "timeout"


def test_the_program_follows_the_order() -> None:
    ordered = planned()
    without = replace(ordered, order=())
    assert sha256(lower(network(), without, TINY).streams) != sha256(lower(network(), ordered, TINY).streams)
    emitted = Lowerer(network(), TINY).tasks(ordered)
    order = sequence(emitted.queues, emitted.queue, emitted.after, ordered.order)
    assert queue_orders(emitted.queues, emitted.queue, order) == ordered.order
    place = {task: number for number, task in enumerate(order)}
    assert all(place[other] < place[task] for task in order for other in emitted.after[task])


def test_results_are_the_same() -> None:
    result = compiled().run(check="exact")
    assert result.check is not None and result.check.exact and not result.violations


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (QueueOrder("XYZ0", ((0, 1),)), "orders queue 'XYZ0'; tiny has "),
        (QueueOrder("MME0", ((0, 2), (3, 1))), "a run of 1 begins at 3, and 2 comes next"),
        (QueueOrder("MME0", ((1, 1), (0, 2))), "a run of 1 begins at 1, and 2 comes next"),
        (QueueOrder("MME0", ((0, 0),)), "a run of 0 begins at 0"),
    ],
)
def test_what_is_no_order(order: QueueOrder, message: str) -> None:
    with pytest.raises(CheckError, match=message):
        check_plan(replace(planned(), order=(order,)), network(), TINY)


def test_a_queue_has_one_order_and_none_with_barriers() -> None:
    order = QueueOrder("MME0", ((0, 2),))
    with pytest.raises(CheckError, match="orders queue MME0 twice"):
        check_plan(replace(planned(), order=(order, order)), network(), TINY)
    with pytest.raises(CheckError, match="waits for each operator to end"):
        check_plan(replace(planned(), order=(order,), barrier=True), network(), TINY)


def test_orders_of_other_instructions_are_refused() -> None:
    with pytest.raises(CheckError, match=r"its order of MME0 is one of 2 instructions, and the operators give it \d+"):
        lower(network(), replace(planned(), order=(QueueOrder("MME0", ((0, 2),)),)), TINY)


def test_queues_that_wait_for_each_other_are_refused() -> None:
    emitted = Lowerer(network(), TINY).tasks(planned())
    number = emitted.queues.index("MME0")
    count = emitted.queue.count(number)
    backwards = QueueOrder("MME0", tuple((n, 1) for n in reversed(range(count))))
    with pytest.raises(CheckError, match=r"the queues wait for each other: .*MME0 at instruction 0"):
        lower(network(), replace(planned(), order=(backwards,)), TINY)
