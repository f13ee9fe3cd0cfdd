"""Rematerialisation from end to end: from a plan to the operators that run again, and to its segments with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....ir.graph import Graph
from ....ir.machine import Machine
from ....ir.plan import Plan, Rematerialisation, Segment, Solved
from ....ir.semantics.rematerialise import reruns
from ...cpsat.backend import Budget, solve
from ...effort import Effort
from .model import build
from .problem import Pair, rematerialisation_problem

WORTH = 0.005
"""The share of all cycles that has to be gained to be worth the seconds that another plan takes. Chosen, not
measured."""
BUDGET = Budget(5.0, 0.5)
"""Seconds, and deterministic seconds, for the model; it is small. Chosen, not measured."""


@dataclass(frozen=True)
class Chosen:
    """The operators to run again, and what the model answered.

    See :func:`girih.ir.semantics.rematerialise.with_reruns`.
    """

    rematerialised: tuple[Rematerialisation, ...]
    solved: Solved
    effort: Effort


def choose_rematerialisations(graph: Graph, machine: Machine, plan: Plan, seed: int) -> Chosen | None:
    """What to rematerialise in ``plan``, a plan for ``graph``; ``None`` if there is nothing to gain."""
    data = rematerialisation_problem(graph, machine, plan)
    if sum(data.fetched.values()) + sum(data.stored.values()) < WORTH * plan.cycles_predicted:
        return None
    model, variables = build(data)
    answer = solve(model, budget=BUDGET, seed=seed)
    solved = Solved("rematerialisation", answer.status, answer.objective, answer.bound, "cycles, more than without")
    worth = answer.objective is not None and -answer.objective >= WORTH * plan.cycles_predicted
    chosen = [pair for pair, var in variables.items() if answer.true(var)] if worth else []
    return Chosen(_ordered(graph, plan.segments, chosen), solved, answer.effort)


def _ordered(graph: Graph, segments: Sequence[Segment], chosen: Sequence[Pair]) -> tuple[Rematerialisation, ...]:
    """What is chosen, each after those that read what it writes."""
    rematerialisations: list[Rematerialisation] = []
    members = {k: set(segment.ops) for k, segment in enumerate(segments)}
    place = {op.name: n for n, op in enumerate(graph.ops)}
    extended = graph
    for t, k in sorted(chosen, key=lambda pair: (pair[1], -place[graph.producer[pair[0]].name])):
        readers = tuple(op.name for op in extended.consumers[t] if op.name in members[k])
        # An answer that is not the best may have what is for nobody.
        if readers:
            rematerialisations.append(Rematerialisation(graph.producer[t].name, readers))
            for new, after in reruns(extended, rematerialisations[-1:]):
                members[k].add(new.name)
                extended = after
    return tuple(rematerialisations)


def second_runs(graph: Graph, rematerialised: Sequence[Rematerialisation]) -> tuple[tuple[str, str], ...]:
    """The name of each second run, and that of the first."""
    return tuple((new.name, r.op) for r, (new, _) in zip(rematerialised, reruns(graph, rematerialised), strict=True))


def rematerialised_segments(
    graph: Graph, segments: Sequence[Segment], rematerialised: Sequence[Rematerialisation]
) -> tuple[Segment, ...]:
    """The segments of ``graph`` with its rematerialised operators, each just before the first of its readers."""
    extended = list(segments)
    for rematerialisation, (new, _) in zip(rematerialised, reruns(graph, rematerialised), strict=True):
        k = next(k for k, segment in enumerate(extended) if rematerialisation.readers[0] in segment.ops)
        ops = extended[k].ops
        first = next(i for i, name in enumerate(ops) if name in rematerialisation.readers)
        extended[k] = replace(extended[k], ops=(*ops[:first], new.name, *ops[first:]))
    return tuple(extended)
