"""Other addresses for a plan: local memories upside down (:mod:`...banks.address_reflection`), weights apart from each
other (:mod:`...banks.weight_separation`), more versions of them (:mod:`...banks.weight_depth`), and lives of them that
begin earlier (:mod:`...banks.early_weights`).

They are kept if the prediction says that the plan is better. A prediction takes far longer than the changes do, so that
the first three are predicted together; where that is no better, once more without the reflection, which is the one
that makes plans worse now and then. The timeout is not looked at: a plan is worth its addresses. Weights are set apart
greedily, which takes no time, or by a search.
"""

from __future__ import annotations

from ....ir.plan import Plan
from ...banks.address_reflection import reflected
from ...banks.early_weights import cycles_of_segments, with_early_weights
from ...banks.weight_depth import with_deeper_weights
from ...banks.weight_separation import with_separated_weights
from ...cpsat.backend import NO_SEARCH, Budget
from .plan_neighbourhood import Neighbourhood


def readdress(around: Neighbourhood, plan: Plan, budget: Budget = NO_SEARCH) -> Plan:
    """The plan with changes of addresses that make it better, if any do; ``budget``: of each search."""
    best = plan
    for start in _reflected_or_not(around, plan):
        changed = _deepened(around, _separated(around, start, budget), budget)
        if changed.local != plan.local:
            best = _better(plan, around.offer(around.predicted(changed)))
        if best is not plan:
            break
    return _advanced(around, best)


def _better(plan: Plan, changed: Plan) -> Plan:
    return changed if changed.cycles_predicted < plan.cycles_predicted else plan


def _reflected_or_not(around: Neighbourhood, plan: Plan) -> list[Plan]:
    """The plan with the local memory of some segments upside down, if that is another one; and as it is."""
    if not around.allows("address-reflection"):
        return [plan]
    other = reflected(around.subproblem.graph, around.subproblem.machine, plan)
    return [plan] if other.local == plan.local else [other, plan]


def _separated(around: Neighbourhood, plan: Plan, budget: Budget) -> Plan:
    """With other addresses in weight memory."""
    if not around.allows("weight-separation"):
        return plan
    subproblem = around.subproblem
    answer = with_separated_weights(subproblem.graph, subproblem.machine, plan, budget, subproblem.options.seed)
    if answer is None:
        return plan
    around.incumbent.note(answer[1])
    return answer[0]


def _deepened(around: Neighbourhood, plan: Plan, budget: Budget) -> Plan:
    """With more versions of weights."""
    if not around.allows("deep-weights"):
        return plan
    subproblem = around.subproblem
    deeper = with_deeper_weights(subproblem.graph, subproblem.cells, subproblem.machine, subproblem.builder.walks, plan)
    return deeper if deeper.local == plan.local else _separated(around, deeper, budget)


def _advanced(around: Neighbourhood, plan: Plan) -> Plan:
    """With weights that are loaded earlier, in all segments or in those alone that take less time for it."""
    if not around.allows("early-weights"):
        return plan
    graph, machine = around.subproblem.graph, around.subproblem.machine
    every = with_early_weights(graph, machine, plan, lambda _: True)
    if every.local == plan.local:
        return plan
    best = every = around.predicted(every)
    before, after = cycles_of_segments(plan), cycles_of_segments(every)
    some = with_early_weights(graph, machine, plan, lambda segment: after[segment] < before[segment])
    if some.local not in (plan.local, every.local):
        best = _better(every, around.predicted(some))
    return _better(plan, around.offer(best))
