"""Whether a plan gets an order of queues: if the timeout pays for it, and if it then takes fewer cycles.

Where there are simulations, they also say whether the plan is better than the first one of the search, as it was
predicted to be.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from ...ir.errors import InfeasibleError, UnsupportedError, UsageError
from ...ir.graph import Graph
from ...ir.plan import Plan
from ..loop.referee import judging_seconds
from ..loop.search import longest_seconds
from ..options import Judge, Listener, ModelRun, Options, Planned, Progress, SolveLog, Tasks
from ..parallel.workers import Workers
from .solve import ListSchedules, Ordering, list_schedules, order_queues, ordered_plan, stretched

SHARE = 0.2
"""Of the timeout, for windows; what a tenth and a fifth gain is in ``docs/solver.md``."""
RIVAL_SHARE = 1 / 6
"""Of the timeout, what one lowering and simulation of a rival may take; one that is chosen is walked twice. Chosen, so
that compilations take hardly longer for it."""
LONGEST = 60.0
"""Seconds for windows at most, so that any timeout ends; chosen, not measured."""
_NO_PROGRAM = (InfeasibleError, UnsupportedError, UsageError)
"""Why a plan has no program; the last one where a schedule template of the user's refuses its tiles."""


def with_order(
    planned: Planned, graph: Graph, options: Options, progress: Listener | None, judge: Judge | None, tasks: Tasks,
    workers: Workers | None = None,
) -> Planned:  # fmt: skip
    """The plan, or its rival, with an order of queues; the plan as it is if none takes fewer cycles, by the judge or
    else by the schedule; the first plan if the judge says that it takes fewer than that.

    The timeout has to pay for a lowering and a simulation. The walk through the plan, most of a lowering, serves the
    order and, unless a rival is chosen, both simulations and the program that is kept; the second simulation is not
    counted. An interrupt keeps the order after the last whole pass of windows if it comes while one is solved, else the
    plan as it is; so does the clock where cycles are not what is minimised.
    """
    plan, log, rival, first = planned.plan, planned.log, planned.rival, planned.first
    planned = Planned(plan, log)
    if options.strategy != "solver" or "queue-order" in options.disabled or plan.barrier or log.status == "interrupted":
        return planned
    over = log.seconds is not None and log.seconds > longest_seconds(graph, options.timeout)
    if over and options.minimise != "cycles":
        return replace(planned, log=replace(log, status="timeout", unpaid=()))
    if judging_seconds(graph, plan) > options.timeout:
        return replace(planned, log=_unpaid(log, "an order of queues"))
    began = time.perf_counter()
    try:
        candidates = _candidates(planned, rival, graph, options, tasks)
        attempt = _order_attempt(plan, *candidates[0], options, judge, workers)
        if not attempt.gained and len(candidates) > 1 and not attempt.ordering.interrupted:
            # The rival is no better when simulated. The plan is not simulated again.
            attempt = _order_attempt(attempt.best, *candidates[1], options, judge, workers)
    except KeyboardInterrupt:
        return replace(planned, log=replace(log, status="interrupted", unpaid=()))
    ordering, best, of_first = attempt.ordering, attempt.best, ""
    interrupted = ordering.interrupted
    try:
        if first is not None and not interrupted:
            best, of_first = _better_of(best, first, graph, options, judge)
    except KeyboardInterrupt:
        interrupted = True
    took = time.perf_counter() - began
    note = "interrupted" if ordering.interrupted else "the order of operators and tiles is as good"
    if attempt.gained:
        note = _note(ordering)
        note += "; of another plan, which was predicted to take hardly more" if attempt.candidate is not plan else ""
    note += of_first
    run = replace(ModelRun.from_solved(ordering.solved, ordering.effort, note), seconds=took)
    seconds_of_all = None if log.seconds is None else log.seconds + took
    log = replace(log, runs=(*log.runs, run), seconds=seconds_of_all)
    if interrupted:
        log = replace(log, status="interrupted", unpaid=())
    elif ordering.effort.limited:
        log = _unpaid(log, "more windows of the order of queues")
    if progress is not None:
        message = f"{attempt.gained:,} cycles fewer" if attempt.gained and not of_first else note
        solved = ordering.solved
        seconds = log.seconds or 0.0
        try:
            progress(Progress("order", solved.status, solved.objective, solved.bound, seconds, message, "cycles"))
        except KeyboardInterrupt:
            log = replace(log, status="interrupted", unpaid=())
    return Planned(best, log)


@dataclass(frozen=True)
class _OrderAttempt:
    """An order for the queues of a candidate; with it, the candidate is the ``best`` plan if it takes ``gained`` cycles
    fewer than the best before, which otherwise stays the best (0)."""

    candidate: Plan
    ordering: Ordering
    best: Plan
    gained: int


def _order_attempt(
    best: Plan, candidate: Plan, hint: ListSchedules, options: Options, judge: Judge | None, workers: Workers | None
) -> _OrderAttempt:
    """Search an order for the candidate from its list schedules on, and compare it with the best plan."""
    seconds = min(LONGEST, SHARE * options.timeout)
    ordering = order_queues(hint, seconds=seconds, seed=options.seed, disabled=options.disabled, workers=workers)
    better, gained = _better(best, ordered_plan(candidate, hint.problem.tasks, ordering), ordering, judge)
    return _OrderAttempt(candidate, ordering, better, gained)


def _better_of(best: Plan, first: Plan, graph: Graph, options: Options, judge: Judge | None) -> tuple[Plan, str]:
    """The best plan, or the first one if it takes fewer simulated cycles, and what is to be said of that.

    If the timeout pays for the first one, the best plan is simulated unless it has been; the first one then only if the
    prediction for it leaves open which of both is better.
    """
    if judge is None or options.minimise != "cycles" or judging_seconds(graph, first) > options.timeout:
        return best, ""
    if best.cycles_simulated is None:
        best = replace(best, cycles_simulated=judge(best))
    if first.cycles_predicted >= best.cycles:
        return best, ""
    try:
        cycles = judge(first)
    except _NO_PROGRAM:
        return best, ""
    if cycles >= best.cycles:
        return best, ""
    return replace(
        first, cycles_simulated=cycles
    ), f"; but the first plan takes fewer cycles, {cycles:,} when simulated"


def _candidates(
    planned: Planned, rival: Plan | None, graph: Graph, options: Options, tasks: Tasks
) -> list[tuple[Plan, ListSchedules]]:  # fmt: skip
    """The plan and its list schedules; before it the rival, if that is predicted to take fewer cycles with its own."""
    hint = None
    if rival is not None and planned.log.status not in ("optimal", "timeout") and options.minimise == "cycles":
        hint = _rival_hint(rival, graph, options, tasks)
    candidate = planned.plan, list_schedules(tasks(planned.plan))
    if rival is not None and hint is not None and _cycles(rival, hint) < _cycles(*candidate):
        return [(rival, hint), candidate]
    return [candidate]


def _rival_hint(rival: Plan, graph: Graph, options: Options, tasks: Tasks) -> ListSchedules | None:
    """The list schedules of a rival, if the timeout pays for them and there can be a program of it."""
    if judging_seconds(graph, rival) > RIVAL_SHARE * options.timeout:
        return None
    try:
        return list_schedules(tasks(rival))
    except _NO_PROGRAM:
        return None


def _cycles(plan: Plan, hint: ListSchedules) -> float:
    """What a plan is predicted to take with its best list schedule."""
    return hint.best.cycles * stretched(plan, hint.emitted_cycles)


def _better(plan: Plan, ordered: Plan, ordering: Ordering, judge: Judge | None) -> tuple[Plan, int]:
    """The plan with the order if it takes fewer cycles, and how many fewer; else the one without, and 0."""
    if not ordered.order or ordering.schedule.cycles >= ordering.emitted_cycles:
        return plan, 0
    if judge is None:
        gained = plan.cycles_predicted - ordered.cycles_predicted
        return (ordered, gained) if gained > 0 else (plan, 0)
    before = judge(plan) if plan.cycles_simulated is None else plan.cycles_simulated
    after = judge(ordered)
    if after < before:
        return replace(ordered, cycles_simulated=after), before - after
    return replace(plan, cycles_simulated=before), 0


def _note(ordering: Ordering) -> str:
    listed = ordering.emitted_cycles - ordering.listed_cycles
    searched = ordering.listed_cycles - ordering.schedule.cycles
    return (
        f"of {ordering.emitted_cycles:,.0f} cycles in the order of operators and tiles, list schedules saved "
        f"{listed:,.0f} and windows {searched:,.0f}"
    )


def _unpaid(log: SolveLog, what: str) -> SolveLog:
    """A search that is over could go on with a longer timeout."""
    status = "budget" if log.status in ("exhausted", "budget") else log.status
    return replace(log, status=status, unpaid=(*log.unpaid, what))
