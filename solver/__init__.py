"""Graph × Machine → Plan: every decision is the answer of a constraint model, in a loop among five of them.

Published heuristics make the first plan, which comes out where nothing better was found.
"""

from __future__ import annotations

from contextlib import closing

from ..ir.graph import Graph
from ..ir.machine import Machine
from .options import Judge, Listener, Options, Planned, Tasks


def plan(
    graph: Graph, machine: Machine, options: Options, progress: Listener | None = None, judge: Judge | None = None,
    tasks: Tasks | None = None,
    jobs: int = 1,
) -> Planned:  # fmt: skip
    """The best plan found within ``options.timeout``; ``progress`` hears of each model.

    ``judge`` is asked a few times at most: about a plan that is predicted to take no longer than the lower bound, about
    one that is predicted to beat a simulated best, and about the best before it, if that has only a prediction; in the
    end, about the plan with and without an order of queues, and about the first plan, if that may be better. Without a
    judge, predictions are believed. ``tasks`` gives the instructions of a plan; without them, its queues keep the order
    of operators and tiles.

    ``jobs``: how many processes solve what is independent, where the timeout pays for starting them; the plan is the
    same with any number of them.

    What is minimised is the options' to say: cycles, or bytes of a memory.

    Raises :class:`~girih.ir.errors.InfeasibleError` if there is none at all, and ``KeyboardInterrupt`` if the user
    interrupts before the first one is found; later interrupts only end the search.
    """
    # The constraint solver takes a while to import: only planning pays for it.
    from .goals.least_memory import plan_for_least_memory
    from .loop.search import solve_plan
    from .order.decide import with_order
    from .parallel.workers import Workers, worth_starting

    goal, _, memory = options.minimise.partition(":")
    with closing(Workers(graph, jobs if worth_starting(options.timeout) else 1)) as workers:
        if goal == "peak":
            planned = plan_for_least_memory(graph, machine, memory, options, progress, judge)
        else:
            planned = solve_plan(graph, machine, options, progress, judge, workers)
        return planned if tasks is None else with_order(planned, graph, options, progress, judge, tasks, workers)


__all__ = ["plan"]
