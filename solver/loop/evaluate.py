"""Evaluates segments by the subproblem; every plan that comes out is offered to the incumbent immediately."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.plan import Segment, Solved, Step
from ...ir.semantics.contraction_engines import contraction_engine
from ..subproblem.plan_builder import EvaluatedPlan, Infeasibility
from ..subproblem.subproblem import Subproblem
from ..subproblem.tiling_alternatives import TiledSegment, TilingCuts
from ..subproblem.time_budget import Iteration
from .incumbent import Incumbent


@dataclass(frozen=True)
class Evaluation:
    """The better plan of all orders, or the first infeasibility; and the cuts with what was learned on the way."""

    answer: EvaluatedPlan | Infeasibility
    cuts: TilingCuts


def evaluate_segments(
    subproblem: Subproblem, incumbent: Incumbent, segments: tuple[Segment, ...], cuts: TilingCuts,
    iteration: Iteration, *above: Solved, groups: tuple[int, ...] = (),
) -> Evaluation:  # fmt: skip
    """Plan the segments, which take turns in ``groups``; where a buffer for a concatenation is too large for local
    memory, without aliasing there.

    A best plan in which the vector engine runs contractions is compared with one where the matrix engine runs them all.
    """
    while True:
        tiled = subproblem.tiles(segments, cuts, iteration)
        if isinstance(tiled, Infeasibility):
            return Evaluation(tiled, cuts)
        before = incumbent.best
        answer = evaluate_tiled(subproblem, incumbent, tiled, iteration, *above, groups=groups)
        graph, machine = subproblem.graph, subproblem.machine
        elsewhere = any(
            tile.engine == "vector" and contraction_engine(graph.op[tile.op], graph, machine) == "matrix"
            for t in tiled for tile in t.segment.tiles
        )  # fmt: skip
        if elsewhere and incumbent.best is not before and not incumbent.is_final:
            # The cores may take less time, and all of it more: weights that are streamed come while others are used.
            usual = subproblem.tiles(segments, cuts, iteration, engines=False)
            if not isinstance(usual, Infeasibility) and usual != tiled:
                usually = evaluate_tiled(subproblem, incumbent, usual, iteration, *above, groups=groups)
                answer = _better(answer, usually)
        if (
            isinstance(answer, EvaluatedPlan)
            or answer.level != subproblem.machine.levels.activations
            or not tiled[answer.segment].segment.aliased
        ):
            return Evaluation(answer, cuts)
        # It may fit with every tensor in a buffer of its own.
        cuts = cuts.without_aliasing(tiled[answer.segment].segment)


def evaluate_tiled(
    subproblem: Subproblem, incumbent: Incumbent, tiled: list[TiledSegment], iteration: Iteration, *above: Solved,
    steps: tuple[Step, ...] | None = None, groups: tuple[int, ...] = (),
) -> EvaluatedPlan | Infeasibility:  # fmt: skip
    """The better plan of all orders of instances, one of them in ``groups``, or of ``steps``; or the first
    infeasibility."""
    solved = subproblem.tiling(tiled)
    best: EvaluatedPlan | None = None
    infeasibility: Infeasibility | None = None
    requests = subproblem.requests(tiled, iteration, steps, groups)
    for remaining, answer in zip(
        reversed(range(len(requests))), subproblem.plans(requests, *above, solved), strict=True
    ):
        if isinstance(answer, Infeasibility):
            infeasibility = infeasibility or answer
            continue
        incumbent.offer(iteration.number, answer.plan)
        if best is None or answer.plan.cycles_predicted < best.plan.cycles_predicted:
            best = answer
        if remaining and (incumbent.is_over or incumbent.any_plan):
            break
    if best is not None:
        return best
    assert infeasibility is not None
    return infeasibility


def _better(one: EvaluatedPlan | Infeasibility, other: EvaluatedPlan | Infeasibility) -> EvaluatedPlan | Infeasibility:
    """The one that is predicted to take fewer cycles, if there are two."""
    if isinstance(one, Infeasibility):
        return other if isinstance(other, EvaluatedPlan) else one
    if isinstance(other, Infeasibility) or one.plan.cycles_predicted <= other.plan.cycles_predicted:
        return one
    return other
