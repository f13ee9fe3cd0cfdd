"""Other addresses for a plan: local memories upside down (:mod:`...banks.address_reflection`), weights apart from each
other (:mod:`...banks.weight_separation`), more versions of them (:mod:`...banks.weight_depth`), and lives of them that
begin earlier (:mod:`...banks.early_weights`).

They are kept if the prediction says that the plan is better. A prediction takes far longer than the changes do, so that
the first three are predicted together; where that is no better, once more without the reflection, which is the one
that makes plans worse now and then. The timeout is not looked at: a plan is worth its addresses. Weights are set apart
greedily, which takes no time, or by a search.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.plan import Plan
from ...banks.address_reflection import reflected
from ...banks.early_weights import cycles_of_segments, with_early_weights
from ...banks.weight_depth import with_deeper_weights
from ...banks.weight_separation import with_separated_weights
from ...cpsat.backend import NO_SEARCH, Budget
from ...switches import Switch
from .plan_neighbourhood import Neighbourhood


def readdress(around: Neighbourhood, plan: Plan, budget: Budget = NO_SEARCH) -> Plan:
    """The plan with changes of addresses that make it better, if any do; ``budget``: of each search."""
    best, tried = plan, [plan.local]
    for first in range(2):
        changed = plan
        for switch, change in CHANGES[first:]:
            if around.allows(switch):
                changed = change(around, changed, budget)
        if changed.local not in tried:
            best = _better(around, best, changed)
            tried.append(changed.local)
        if best is not plan:
            break
    return _advanced(around, best) if around.allows("early-weights") else best


def _better(around: Neighbourhood, plan: Plan, changed: Plan) -> Plan:
    """The changed plan, which is offered, if it is predicted to take less time."""
    timed = around.offer(changed)
    return timed if timed.cycles_predicted < plan.cycles_predicted else plan


def _mirrored(around: Neighbourhood, plan: Plan, _: Budget) -> Plan:
    """With the local memory of some segments upside down."""
    return reflected(around.subproblem.graph, around.subproblem.machine, plan)


def _separated(around: Neighbourhood, plan: Plan, budget: Budget) -> Plan:
    """With other addresses in weight memory."""
    subproblem = around.subproblem
    answer = with_separated_weights(subproblem.graph, subproblem.machine, plan, budget, subproblem.options.seed)
    if answer is None:
        return plan
    around.incumbent.note(answer[1])
    return answer[0]


def _deepened(around: Neighbourhood, plan: Plan, budget: Budget) -> Plan:
    """With more versions of weights."""
    subproblem = around.subproblem
    deeper = with_deeper_weights(subproblem.graph, subproblem.cells, subproblem.machine, subproblem.builder.walks, plan)
    if deeper.local == plan.local or "weight-separation" in subproblem.options.disabled:
        return deeper
    return _separated(around, deeper, budget)


def _advanced(around: Neighbourhood, plan: Plan) -> Plan:
    """With weights that are loaded earlier, in all segments or in those alone that take less time for it."""
    graph, machine = around.subproblem.graph, around.subproblem.machine
    every = with_early_weights(graph, machine, plan, lambda _: True)
    if every.local == plan.local:
        return plan
    every = around.offer(every)
    before, after = cycles_of_segments(plan), cycles_of_segments(every)
    some = with_early_weights(graph, machine, plan, lambda segment: after[segment] < before[segment])
    best = min(plan, every, key=lambda p: p.cycles_predicted)
    return best if some.local in (plan.local, every.local) else _better(around, best, some)


CHANGES: tuple[tuple[Switch, Callable[[Neighbourhood, Plan, Budget], Plan]], ...] = (
    ("address-reflection", _mirrored),
    ("weight-separation", _separated),
    ("deep-weights", _deepened),
)
"""The changes that are predicted together; the reflection comes first."""
