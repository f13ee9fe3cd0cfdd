"""Local search: changes of the best plan, which only a whole plan can tell to be worth it.

In turn: other splits for its segments and fewer instances (:mod:`.resegment`), other addresses (:mod:`.readdress`),
tiles of operators of one segment that are chosen for each other (:mod:`...subproblem.joint_tiles`), and other addresses
for what these gave. Each is kept if the prediction says that it is better. Once the timeout pays for no more, the rest
is left out: what is done before that does not depend on the timeout.
"""

from __future__ import annotations

from dataclasses import replace

from ....ir.plan import Plan, Segment
from ...subproblem.plan_builder import EvaluatedPlan, Infeasibility
from ...subproblem.tiling_alternatives import TiledSegment
from ..evaluate import evaluate_segments, evaluate_tiled
from .plan_neighbourhood import Neighbourhood
from .readdress import readdress
from .resegment import aligned, bare, coarser, longest_first

PREDICTED_BETWEEN_PLANS = 25
"""How often, for each operator of the network, operators are predicted to choose tiles for each other until a whole
plan is built with those that were chosen. Chosen: a plan with its searches counts as 3 to 13 predictions for each."""


def improve(around: Neighbourhood) -> None:
    """Try all changes of the best plan."""
    if around.tries("aligned-splits"):
        around = align(around)
    if around.tries("fewer-instances"):
        coarsen(around)
    plan = around.best.plan
    readdress(around, plan)
    if around.tries("joint-tiles"):
        retiled = retile(around, plan)
        around.subproblem.cancel_joint_tiles()
        if retiled is not plan:
            readdress(around, retiled)


def align(around: Neighbourhood) -> Neighbourhood:
    """Once more with segments split as those that read their spilled results; returns what was learned of tiles."""
    graph, cells = around.subproblem.graph, around.subproblem.cells
    segments = aligned(graph, cells, around.candidates, around.best.plan)
    if segments == bare(graph, around.best.plan.segments):
        return around
    answered = around.best.answers("segmentation")
    evaluation = evaluate_segments(
        around.subproblem, around.incumbent, segments, around.cuts, around.iteration, *answered
    )
    return replace(around, cuts=evaluation.cuts)


def coarsen(around: Neighbourhood) -> None:
    """Once more with fewer instances, where the prediction says that they take the cores less time."""
    subproblem, best = around.subproblem, around.best
    segments = bare(subproblem.graph, best.plan.segments)
    fewer = coarser(subproblem.graph, around.candidates, segments)
    if fewer == segments:
        return
    tiled = subproblem.tiles(segments, around.cuts, around.iteration, fewer)
    if isinstance(tiled, Infeasibility):
        return
    if any(t.segment.instances != s.instances for t, s in zip(tiled, segments, strict=True)):
        evaluate_tiled(subproblem, around.incumbent, tiled, around.iteration, *best.answers("segmentation"))
    else:
        subproblem.builder.discard("tiling", (choice.effort for t in tiled for choice in t.choices))


def retile(around: Neighbourhood, plan: Plan) -> Plan:
    """The plan with tiles chosen for each other, of the segments that take longest first, in its order of instances.

    From time to time a plan is built with what was chosen since the last one, which is dropped if that is not better.
    """
    subproblem, cuts, iteration = around.subproblem, around.cuts, around.iteration
    answered = around.best.answers("segmentation")
    segments, kept = plan.segments, dict[int, TiledSegment]()
    chosen, predicted = dict[int, TiledSegment](), subproblem.predicted
    left = longest_first(plan)
    while left:
        if around.incumbent.is_over or not around.paid():
            # What was chosen since the last plan is lost: a longer search would not stop here to build one.
            return plan
        subproblem.ask_joint_tiles((segments[j] for j in left), cuts)
        i = left.pop(0)
        chosen[i] = subproblem.joint_tiles(segments[i], cuts, iteration, lambda: around.incumbent.is_over)
        if around.incumbent.is_over:
            return plan
        equal = {j: tiled for j in left if (tiled := subproblem.known_joint_tiles(segments[j], cuts)) is not None}
        left = [j for j in left if j not in equal]
        chosen |= equal
        enough = subproblem.predicted - predicted >= PREDICTED_BETWEEN_PLANS * len(subproblem.graph.ops)
        if (left and not enough) or all(_is_tiled_like(t.segment, segments[j]) for j, t in chosen.items()):
            continue
        tiled = [
            chosen.get(j) or kept.get(j) or subproblem.kept_tiles(segment, cuts, iteration)
            for j, segment in enumerate(segments)
        ]
        answer = evaluate_tiled(subproblem, around.incumbent, tiled, iteration, *answered, steps=plan.steps)
        if isinstance(answer, EvaluatedPlan) and answer.plan.cycles_predicted < plan.cycles_predicted:
            plan, segments, kept = answer.plan, tuple(t.segment for t in tiled), dict(enumerate(tiled))
        chosen, predicted = {}, subproblem.predicted
    return plan


def _is_tiled_like(one: Segment, other: Segment) -> bool:
    """Whether two segments of the same operators have the same tiles."""
    return [tile.cut for tile in one.tiles] == [tile.cut for tile in other.tiles]
