"""Whether a plan gets an order of queues: if the timeout pays for it, and if it then takes fewer cycles."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

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
"""Of the timeout, what the lowering and simulation of a rival may take; chosen, so that a compilation takes hardly
longer for it."""
LONGEST = 60.0
"""Seconds for windows at most, so that any timeout ends; chosen, not measured."""


def with_order(
    planned: Planned, graph: Graph, options: Options, progress: Listener | None, judge: Judge | None, tasks: Tasks,
    workers: Workers | None = None,
) -> Planned:  # fmt: skip
    """The plan, or its rival, with an order of queues; the plan as it is if none takes fewer cycles, by the judge or
    else by the schedule.

    The timeout has to pay for a lowering and a simulation. The walk through the plan, most of a lowering, serves the
    order, both simulations and the program that is kept; the second simulation is not counted. An interrupt keeps the
    plan that there is; so does the clock where cycles are not what is minimised.
    """
    plan, log = planned.plan, planned.log
    if options.strategy != "solver" or "queue-order" in options.disabled or plan.barrier or log.status == "interrupted":
        return planned
    over = log.seconds is not None and log.seconds > longest_seconds(graph, options.timeout)
    if over and options.minimise != "cycles":
        return replace(planned, log=replace(log, status="timeout", unpaid=()))
    if judging_seconds(graph, plan) > options.timeout:
        return replace(planned, log=_unpaid(log, "an order of queues"))
    began = time.perf_counter()
    try:
        chosen, hint = _chosen(_plans(planned, graph, options), tasks)
        seconds = min(LONGEST, SHARE * options.timeout)
        ordering = order_queues(hint, seconds=seconds, seed=options.seed, disabled=options.disabled, workers=workers)
        better, gained = _better(plan, ordered_plan(chosen, hint.problem.tasks, ordering), ordering, judge)
    except KeyboardInterrupt:
        return replace(planned, log=replace(log, status="interrupted"))
    took = time.perf_counter() - began
    note = "the order of operators and tiles is as good"
    if gained:
        note = _note(ordering)
        note += "; of another plan, which was predicted to take hardly more" if chosen is not plan else ""
    run = replace(ModelRun.of(ordering.solved, ordering.effort, note), seconds=took)
    seconds_of_all = None if log.seconds is None else log.seconds + took
    log = replace(log, runs=(*log.runs, run), seconds=seconds_of_all)
    if progress is not None:
        message = f"{gained:,} cycles fewer" if gained else note
        solved = ordering.solved
        progress(
            Progress("order", solved.status, solved.objective, solved.bound, log.seconds or 0.0, message, "cycles")
        )
    if ordering.effort.limited:
        log = _unpaid(log, "more windows of the order of queues")
    return Planned(better, log)


def _plans(planned: Planned, graph: Graph, options: Options) -> tuple[Plan, ...]:
    """The plans that an order of queues is tried for: the best and, if the timeout pays for that, its rival."""
    plan, rival = planned.plan, planned.rival
    paid = judging_seconds(graph, plan) <= RIVAL_SHARE * options.timeout
    if rival is None or not paid or options.minimise != "cycles":
        return (plan,)
    # What is walked last need not be walked again, and the plan is simulated in any case.
    return rival, plan


def _chosen(plans: Sequence[Plan], tasks: Tasks) -> tuple[Plan, ListSchedules]:
    """Of some plans, that which takes the fewest cycles with its best list schedule; of equal ones, the last."""
    hints = [list_schedules(tasks(plan)) for plan in plans]
    pairs = list(zip(plans, hints, strict=True))[::-1]
    return min(pairs, key=lambda pair: pair[1].best.cycles * stretched(pair[0], pair[1].emitted_cycles))


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
