"""Local search: changes of the best plan, which only a whole plan can tell to be worth it.

In turn: other splits for its segments and fewer instances (:mod:`.resegment`), other orders of instances
(:mod:`.reorder`), and tiles of operators of one segment that are chosen for each other
(:mod:`...subproblem.joint_tiles`). Each is kept if the prediction says that it is better. Once the timeout pays for no
more, the rest is left out: what is done before that does not depend on the timeout. Other addresses
(:mod:`.readdress`) cost a few predictions; they are tried for the best plan and for each that is better than the one it
was changed from, whatever is paid, so that none is left without them where a timeout ends; changes go on from the plan
without them. In the end they are searched for, if that is paid.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from ....ir.plan import Plan, Segment, Solved
from ...subproblem.plan_builder import EvaluatedPlan, Infeasibility
from ...subproblem.step_order import depth_first, groups_of, order_like, orders
from ...subproblem.tiling_alternatives import TiledSegment
from ..evaluate import evaluate_segments, evaluate_tiled
from .plan_neighbourhood import Neighbourhood
from .readdress import readdress
from .reorder import spilled_borders, with_borders
from .resegment import aligned, bare, coarser, longest_first

PREDICTED_BEFORE_PLAN = (4, 32)
"""How often, for each operator of the network, operators are predicted to choose tiles for each other until a whole
plan is built with those that were chosen: at first, and at most; each time, it is twice as often as the time before.
Chosen: segments that take longest come first, and what a timeout ends before the next plan is lost."""

MOST_ORDERS = 4
"""How many other orders of instances are tried around a plan. Chosen, not measured."""


def improve(around: Neighbourhood) -> None:
    """Try all changes of the best plan."""
    plan = around.best.plan
    readdress(around, plan)
    if around.tries("aligned-splits"):
        around, plan = align(around, plan)
    if around.tries("fewer-instances"):
        plan = coarsen(around, plan)
    if around.tries("step-groups"):
        plan = reorder(around, plan)
    if around.tries("joint-tiles"):
        plan = retile(around, plan)
        around.subproblem.cancel_joint_tiles()
    budget = around.iteration.budget("banks", around.iteration.banks)
    if budget.limit and around.tries("weight-separation"):
        readdress(around, plan, budget)


def align(around: Neighbourhood, plan: Plan) -> tuple[Neighbourhood, Plan]:
    """The better plan of this one and one with segments split as those that read their spilled results; and what was
    learned of tiles."""
    graph, cells = around.subproblem.graph, around.subproblem.cells
    segments = aligned(graph, cells, around.candidates, plan)
    if segments == bare(graph, plan.segments):
        return around, plan
    evaluation = evaluate_segments(
        around.subproblem, around.incumbent, segments, around.cuts, around.iteration, *_segmentation(plan),
        groups=() if plan.steps in orders(graph, cells, plan.segments) else groups_of(plan),
    )  # fmt: skip
    return replace(around, cuts=evaluation.cuts), _better(around, plan, evaluation.answer)


def coarsen(around: Neighbourhood, plan: Plan) -> Plan:
    """The better plan of this one and one with fewer instances, where the prediction says that they take the cores less
    time; they run in an order of the same kind."""
    subproblem = around.subproblem
    segments = bare(subproblem.graph, plan.segments)
    fewer = coarser(subproblem.graph, around.candidates, segments)
    if fewer == segments:
        return plan
    tiled = subproblem.tiles(segments, around.cuts, around.iteration, fewer)
    if isinstance(tiled, Infeasibility):
        return plan
    if all(t.segment.instances == s.instances for t, s in zip(tiled, segments, strict=True)):
        subproblem.builder.discard("tiling", (choice.effort for t in tiled for choice in t.choices))
        return plan
    steps = order_like(subproblem.graph, subproblem.cells, plan, [t.segment for t in tiled])
    answer = evaluate_tiled(subproblem, around.incumbent, tiled, around.iteration, *_segmentation(plan), steps=steps)
    return _better(around, plan, answer)


def reorder(around: Neighbourhood, plan: Plan) -> Plan:
    """The best plan of this one and those in which segments at borders that its spilled results cross take turns, or no
    longer do."""
    subproblem = around.subproblem
    graph, cells = subproblem.graph, subproblem.cells
    if plan.steps != depth_first(graph, cells, plan.segments, groups_of(plan)):
        return plan
    attempted = {plan.steps}
    for borders, take_turns in product(spilled_borders(graph, plan), (False, True)):
        if len(attempted) > MOST_ORDERS or around.incumbent.is_over or not around.paid():
            return plan
        steps = with_borders(graph, cells, plan, borders, take_turns=take_turns)
        if steps in attempted:
            continue
        attempted.add(steps)
        tiled = [subproblem.kept_tiles(segment, around.cuts, around.iteration) for segment in plan.segments]
        answer = evaluate_tiled(
            subproblem, around.incumbent, tiled, around.iteration, *_segmentation(plan), steps=steps
        )
        plan = _better(around, plan, answer)
    return plan


def retile(around: Neighbourhood, plan: Plan) -> Plan:
    """The plan with tiles chosen for each other, of the segments that take longest first, in its order of instances.

    From time to time a plan is built with what was chosen since the last one, which is dropped if that is not better.
    """
    subproblem, cuts, iteration = around.subproblem, around.cuts, around.iteration
    answered = _segmentation(plan)
    segments, kept = plan.segments, dict[int, TiledSegment]()
    chosen, predicted = dict[int, TiledSegment](), subproblem.predicted
    remaining = longest_first(plan)
    enough, most = (count * len(subproblem.graph.ops) for count in PREDICTED_BEFORE_PLAN)
    while remaining:
        if around.incumbent.is_over or not around.paid():
            # What was chosen since the last plan is lost: a longer search would not stop here to build one.
            return plan
        subproblem.ask_joint_tiles((segments[j] for j in remaining), cuts)
        i = remaining.pop(0)
        chosen[i] = subproblem.joint_tiles(segments[i], cuts, iteration, lambda: around.incumbent.is_over)
        if around.incumbent.is_over:
            return plan
        equal = {j: tiled for j in remaining if (tiled := subproblem.known_joint_tiles(segments[j], cuts)) is not None}
        remaining = [j for j in remaining if j not in equal]
        chosen |= equal
        if (remaining and subproblem.predicted - predicted < enough) or all(
            _is_tiled_like(t.segment, segments[j]) for j, t in chosen.items()
        ):
            continue
        tiled = [
            chosen.get(j) or kept.get(j) or subproblem.kept_tiles(segment, cuts, iteration)
            for j, segment in enumerate(segments)
        ]
        answer = evaluate_tiled(subproblem, around.incumbent, tiled, iteration, *answered, steps=plan.steps)
        better = _better(around, plan, answer)
        if better is not plan:
            plan, segments, kept = better, tuple(t.segment for t in tiled), dict(enumerate(tiled))
        chosen, predicted, enough = {}, subproblem.predicted, min(2 * enough, most)
    return plan


def _better(around: Neighbourhood, plan: Plan, answer: EvaluatedPlan | Infeasibility) -> Plan:
    """The plan that is predicted to take fewer cycles; if it is the answer, other addresses are tried for that."""
    if isinstance(answer, Infeasibility) or answer.plan.cycles_predicted >= plan.cycles_predicted:
        return plan
    readdress(around, answer.plan)
    return answer.plan


def _segmentation(plan: Plan) -> tuple[Solved, ...]:
    """What segmentation answered for the plan."""
    return tuple(s for s in plan.solved if s.model == "segmentation")


def _is_tiled_like(one: Segment, other: Segment) -> bool:
    """Whether two segments of the same operators have the same tiles."""
    return [tile.cut for tile in one.tiles] == [tile.cut for tile in other.tiles]
