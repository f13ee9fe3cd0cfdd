"""Local search: changes of the best plan, which only a whole plan can tell to be worth it.

In turn: other splits for its segments and fewer instances (:mod:`.resegment`), results that are computed again where
they are read (:mod:`..residency.rematerialisation`); and local memories upside down
(:mod:`..banks.address_reflection`). Each is kept if the prediction says that it is better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...ir.semantics.rematerialise import with_reruns
from ..banks.address_reflection import reflected
from ..residency.rematerialisation.solve import choose_rematerialisations, rematerialised_segments, second_runs
from ..segmentation.candidates import Candidates
from ..subproblem.plan_builder import Infeasibility
from ..subproblem.subproblem import Subproblem
from ..subproblem.tile_choice import TilingCuts
from ..subproblem.time_budget import SHORT, Iteration
from ..switches import Switch
from .evaluate import evaluate_segments, evaluate_tiled
from .incumbent import Best, Incumbent
from .resegment import aligned, bare, coarser


@dataclass(frozen=True)
class Neighbourhood:
    """What changes need besides the best plan: columns, cuts on tiles, and budgets."""

    candidates: Candidates
    cuts: TilingCuts
    iteration: Iteration


def improve(incumbent: Incumbent, candidates: Candidates, cuts: TilingCuts, iteration: Iteration) -> None:
    """Try all changes as the last ``iteration``; the best plan may then be one with operators that run again."""
    assert incumbent.best is not None
    options = incumbent.best.subproblem.options
    around = Neighbourhood(candidates, cuts, iteration)
    long = options.timeout >= SHORT
    if long and "aligned-splits" not in options.disabled and not incumbent.is_final:
        around = align(incumbent, around)
    steps: tuple[tuple[Switch, bool, Callable[[Incumbent, Neighbourhood], None]], ...] = (
        ("fewer-instances", long, coarsen),
        ("rematerialisation", long, rematerialise),
        ("address-reflection", long, mirror),
    )
    for switch, affordable, step in steps:
        if affordable and switch not in options.disabled and not incumbent.is_final:
            step(incumbent, around)


def align(incumbent: Incumbent, around: Neighbourhood) -> Neighbourhood:
    """Once more with segments split as those that read their spilled results; returns what was learned of tiles."""
    best = _best(incumbent)
    graph, cells = best.subproblem.graph, best.subproblem.cells
    segments = aligned(graph, cells, around.candidates, best.plan)
    if segments == bare(graph, best.plan.segments):
        return around
    answered = best.answers("segmentation")
    evaluation = evaluate_segments(best.subproblem, incumbent, segments, around.cuts, around.iteration, *answered)
    return replace(around, cuts=evaluation.cuts)


def coarsen(incumbent: Incumbent, around: Neighbourhood) -> None:
    """Once more with fewer instances, where the prediction says that they take the cores less time."""
    best = _best(incumbent)
    segments = bare(best.subproblem.graph, best.plan.segments)
    fewer = coarser(best.subproblem.graph, around.candidates, segments)
    if fewer == segments:
        return
    tiled = best.subproblem.tiles(segments, around.cuts, around.iteration, fewer)
    if isinstance(tiled, Infeasibility):
        return
    if any(t.segment.instances != s.instances for t, s in zip(tiled, segments, strict=True)):
        evaluate_tiled(best.subproblem, incumbent, tiled, around.iteration, *best.answers("segmentation"))
    else:
        best.subproblem.builder.discard("tiling", (choice.effort for t in tiled for choice in t.choices))


def rematerialise(incumbent: Incumbent, around: Neighbourhood) -> None:
    """Once more with results computed again where they are read, if the model says that it is worth it."""
    best = _best(incumbent)
    before = best.subproblem
    chosen = choose_rematerialisations(before.graph, before.machine, best.plan, before.options.seed)
    if chosen is None:
        return
    names = ", ".join(dict.fromkeys(r.op for r in chosen.rematerialised))
    note = f"{len(chosen.rematerialised)} once more: {names}" if names else "nothing is worth it"
    before.log(chosen.solved, chosen.effort, note)
    if not chosen.rematerialised:
        return
    extended = Subproblem(
        with_reruns(before.graph, chosen.rematerialised),
        before.machine,
        before.options,
        incumbent.note,
        chosen.rematerialised,
    )
    caps = around.cuts.cap
    second = {run: caps[op] for run, op in second_runs(before.graph, chosen.rematerialised) if op in caps}
    segments = rematerialised_segments(before.graph, bare(before.graph, best.plan.segments), chosen.rematerialised)
    above = (*best.answers("segmentation"), chosen.solved)
    evaluation = evaluate_segments(
        extended, incumbent, segments, TilingCuts(around.cuts.caps).capped(second), around.iteration, *above
    )
    if isinstance(evaluation.answer, Infeasibility):
        incumbent.record.cut("rematerialisation", evaluation.answer.message)


def mirror(incumbent: Incumbent, around: Neighbourhood) -> None:
    """The best plan with the local memory of some segments upside down."""
    best = _best(incumbent)
    plan = reflected(best.subproblem.graph, best.subproblem.machine, best.plan)
    if plan.local != best.plan.local:
        plan = best.subproblem.builder.timed(plan)
        incumbent.offer(around.iteration.number, plan, best.request, best.subproblem)


def _best(incumbent: Incumbent) -> Best:
    assert incumbent.best is not None
    return incumbent.best
