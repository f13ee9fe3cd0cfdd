"""Local search: changes of the best plan, which only a whole plan can tell to be worth it.

In turn: other splits for its segments and fewer instances (:mod:`.resegment`), tiles of operators of one segment that
are chosen for each other (:mod:`..subproblem.joint_tiles`), local memories upside down
(:mod:`..banks.address_reflection`), other addresses (:mod:`..banks.weight_separation`) and more versions of weights
(:mod:`..banks.weight_depth`). Each is kept if the prediction says that it is better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...ir.plan import Plan
from ..banks.address_reflection import reflected
from ..banks.weight_depth import with_deeper_weights
from ..banks.weight_separation import with_separated_weights
from ..segmentation.candidates import Candidates
from ..subproblem.plan_builder import Infeasibility
from ..subproblem.subproblem import Subproblem
from ..subproblem.tiling_alternatives import TilingCuts
from ..subproblem.time_budget import Iteration
from ..switches import Switch
from .evaluate import evaluate_segments, evaluate_tiled
from .incumbent import Best, Incumbent
from .resegment import aligned, bare, coarser


@dataclass(frozen=True)
class Neighbourhood:
    """What changes need besides the best plan: the models below segmentation, columns, cuts on tiles, and budgets."""

    subproblem: Subproblem
    candidates: Candidates
    cuts: TilingCuts
    iteration: Iteration


def improve(incumbent: Incumbent, around: Neighbourhood) -> None:
    """Try all changes of the best plan."""
    disabled = around.subproblem.options.disabled
    if "aligned-splits" not in disabled and not incumbent.is_final:
        around = align(incumbent, around)
    steps: tuple[tuple[Switch, Callable[[Incumbent, Neighbourhood], None]], ...] = (
        ("fewer-instances", coarsen),
        ("joint-tiles", retile),
        ("address-reflection", mirror),
        ("weight-separation", separate),
        ("deep-weights", deepen),
    )
    for switch, step in steps:
        if switch not in disabled and not incumbent.is_final:
            step(incumbent, around)


def align(incumbent: Incumbent, around: Neighbourhood) -> Neighbourhood:
    """Once more with segments split as those that read their spilled results; returns what was learned of tiles."""
    best = _best(incumbent)
    graph, cells = around.subproblem.graph, around.subproblem.cells
    segments = aligned(graph, cells, around.candidates, best.plan)
    if segments == bare(graph, best.plan.segments):
        return around
    answered = best.answers("segmentation")
    evaluation = evaluate_segments(around.subproblem, incumbent, segments, around.cuts, around.iteration, *answered)
    return replace(around, cuts=evaluation.cuts)


def coarsen(incumbent: Incumbent, around: Neighbourhood) -> None:
    """Once more with fewer instances, where the prediction says that they take the cores less time."""
    best = _best(incumbent)
    segments = bare(around.subproblem.graph, best.plan.segments)
    fewer = coarser(around.subproblem.graph, around.candidates, segments)
    if fewer == segments:
        return
    tiled = around.subproblem.tiles(segments, around.cuts, around.iteration, fewer)
    if isinstance(tiled, Infeasibility):
        return
    if any(t.segment.instances != s.instances for t, s in zip(tiled, segments, strict=True)):
        evaluate_tiled(around.subproblem, incumbent, tiled, around.iteration, *best.answers("segmentation"))
    else:
        around.subproblem.builder.discard("tiling", (choice.effort for t in tiled for choice in t.choices))


def retile(incumbent: Incumbent, around: Neighbourhood) -> None:
    """Once more with tiles chosen for each other."""
    best = _best(incumbent)
    before = best.plan.segments
    tiled = around.subproblem.joint_tiles(before, around.cuts, around.iteration, lambda: incumbent.is_over)
    if incumbent.is_over:
        return
    if [[tile.cut for tile in t.segment.tiles] for t in tiled] != [[tile.cut for tile in s.tiles] for s in before]:
        evaluate_tiled(around.subproblem, incumbent, tiled, around.iteration, *best.answers("segmentation"))


def mirror(incumbent: Incumbent, around: Neighbourhood) -> None:
    """The best plan with the local memory of some segments upside down."""
    best = _best(incumbent)
    plan = reflected(around.subproblem.graph, around.subproblem.machine, best.plan)
    if plan.local != best.plan.local:
        _offer(incumbent, around, plan)


def separate(incumbent: Incumbent, around: Neighbourhood) -> None:
    """The best plan with other addresses in weight memory."""
    best = _best(incumbent).plan
    plan = _separated(incumbent, around, best)
    if plan.local != best.local:
        _offer(incumbent, around, plan)


def deepen(incumbent: Incumbent, around: Neighbourhood) -> None:
    """The best plan with more versions of weights."""
    subproblem, best = around.subproblem, _best(incumbent).plan
    plan = with_deeper_weights(subproblem.graph, subproblem.cells, subproblem.machine, subproblem.builder.walks, best)
    if plan.local == best.local:
        return
    if "weight-separation" not in subproblem.options.disabled:
        plan = _separated(incumbent, around, plan)
    _offer(incumbent, around, plan)


def _separated(incumbent: Incumbent, around: Neighbourhood, plan: Plan) -> Plan:
    subproblem, budget = around.subproblem, around.iteration.budget("banks", around.iteration.banks)
    answer = with_separated_weights(subproblem.graph, subproblem.machine, plan, budget, subproblem.options.seed)
    if answer is None:
        return plan
    incumbent.note(answer[1])
    return answer[0]


def _offer(incumbent: Incumbent, around: Neighbourhood, plan: Plan) -> None:
    # The incumbent knows the bound; a prediction may be below it. Another plan has another simulation.
    unbounded = replace(plan, lower_bound_cycles=0, lower_bound_reason="", cycles_simulated=None)
    incumbent.offer(around.iteration.number, around.subproblem.builder.timed(unbounded))


def _best(incumbent: Incumbent) -> Best:
    assert incumbent.best is not None
    return incumbent.best
