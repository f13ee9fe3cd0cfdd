"""Logic-based Benders decomposition: the master proposes, the subproblem answers, and what it finds out is a cut.

The master decides with relaxed costs of the subproblem. What the subproblem finds out returns:

- pipeline: a tile does not fit even once                    → tiling: a lower cap for the operator
- residency: a slot needs more than the shared memory has     → tiling: a lower cap for the weights; then segmentation
- banks of the shared memory cannot be packed                 → residency: leave room; then segmentation, where its
                                                                path and residency improved each other: leave room
- banks of the local memories cannot be packed                → tiling: no aliasing; then segmentation: not this column
- timeline: a segment takes longer than its estimate               → segmentation: this column costs what it takes

Each cut excludes what caused it, so no answer comes twice in a round; but where room is left free, segments may come
once again.

Reference: Hooker and Ottosson, "Logic-based Benders decomposition", Mathematical Programming 96, 2003.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf

from ...ir.plan import Segment
from ..cpsat.log import Record
from ..effort import InfeasibleSearchError
from ..segmentation.solve import BendersCut, Segmentation
from ..subproblem.plan_builder import EvaluatedPlan, Infeasibility
from ..subproblem.subproblem import Subproblem
from ..subproblem.time_budget import Iteration
from .evaluate import evaluate_segments
from .incumbent import Incumbent
from .master import Cuts, Extent, Master, cost_cuts

MOST_CUTS = 64
"""Infeasibilities in one iteration before it is given up, so that it ends in any case; chosen, not measured."""
MOST_CUTS_FARTHER = 3
"""The same the first time that segmentation looks farther, without which there is a plan; chosen, not measured."""


@dataclass(frozen=True)
class SegmentationAttempt:
    """A segmentation, and the plan that came of it; ``None`` if it was tried before, or promises too little."""

    segmentation: Segmentation
    evaluated: EvaluatedPlan | None


class Decomposition:
    """An iteration, and the cuts of a search, which its steps add, exchange and take back; every plan is offered to the
    incumbent."""

    def __init__(self, master: Master, subproblem: Subproblem, incumbent: Incumbent) -> None:
        self.master = master
        self.subproblem = subproblem
        self.incumbent = incumbent
        self.cuts = Cuts()
        self.extent = Extent()
        self._tried: set[tuple[tuple[Segment, ...], tuple[int, ...]]] = set()

    @property
    def record(self) -> Record:
        """Of the search."""
        return self.incumbent.record

    def begin_round(self) -> None:
        """Forget all cuts but headroom: what a shorter search could not do, or only dearly, a longer one may."""
        self.cuts = Cuts(headroom=self.cuts.headroom)
        self._tried.clear()

    @contextmanager
    def without(self, column: BendersCut) -> Generator[None]:
        """Meanwhile a column is excluded; what else is learned stays."""
        self.cuts = replace(self.cuts, columns=(*self.cuts.columns, column))
        try:
            yield
        finally:
            self.cuts = replace(self.cuts, columns=tuple(c for c in self.cuts.columns if c is not column))

    def iteration(
        self, iteration: Iteration, below: float = inf, most_cuts: int = MOST_CUTS
    ) -> SegmentationAttempt | None:
        """From segmentation down to a plan, again after each infeasibility, of which there may be so many; to none
        unless segmentation's objective is ``below`` so many cycles.

        ``None`` if the search is over or there were too many. Raises :class:`~girih.ir.errors.InfeasibleError` if no
        segmentation is left.
        """
        for _ in range(most_cuts):
            if self.incumbent.best is not None and self.incumbent.is_over:
                return None
            segmentation = self._segmentation(iteration)
            attempted = segmentation.segments, segmentation.groups
            objective = segmentation.solved.objective
            if attempted in self._tried or (objective is not None and objective >= below):
                return SegmentationAttempt(segmentation, None)
            answer = self.evaluate(segmentation.segments, iteration, segmentation)
            if isinstance(answer, EvaluatedPlan):
                self._tried.add(attempted)
                return SegmentationAttempt(segmentation, answer)
            self._exclude(segmentation.segments[answer.segment], answer)
        return None

    def _segmentation(self, iteration: Iteration) -> Segmentation:
        try:
            answer = self.master.segmentation(self.cuts, iteration, self.extent)
        except InfeasibleSearchError as error:
            self.subproblem.builder.discard("segmentation", (error.effort,))
            raise
        plural = "s" if len(answer.segments) > 1 else ""
        note = f"{len(answer.segments)} segment{plural}"
        note += f" in {len(set(answer.groups))} groups" if answer.groups else ""
        note += f", {len(self.cuts.columns)} cuts" if self.cuts.columns else ""
        note += f"; {answer.note}" if answer.note else ""
        self.subproblem.log(answer.solved, answer.effort, note)
        return answer

    def evaluate(
        self, segments: tuple[Segment, ...], iteration: Iteration, segmentation: Segmentation | None = None
    ) -> EvaluatedPlan | Infeasibility:
        """The plan of these segments; what is learned of their tiles is kept."""
        above = () if segmentation is None else (segmentation.solved,)
        groups = () if segmentation is None else segmentation.groups
        evaluation = evaluate_segments(
            self.subproblem, self.incumbent, segments, self.cuts.tiling, iteration, *above, groups=groups
        )
        self.cuts = replace(self.cuts, tiling=evaluation.cuts)
        return evaluation.answer

    def _exclude(self, segment: Segment, infeasibility: Infeasibility) -> None:
        """A feasibility cut."""
        before = self.cuts
        self.cuts = self.master.excluding(before, segment, infeasibility, in_turn=self.extent.in_turn)
        if self.cuts.headroom > before.headroom:
            self.record.cut("segmentation", f"{self.cuts.headroom:,} bytes stay free: {infeasibility.message}")
        elif self.cuts.columns == before.columns:
            self.record.cut("tiling", f"smaller tiles: {infeasibility.message}")
        else:
            what = f"{segment.ops[0]} .. {segment.ops[-1]} not like this: {infeasibility.message}"
            self.record.cut("segmentation", what)

    def learn(self, attempt: SegmentationAttempt) -> None:
        """Optimality cuts."""
        if attempt.evaluated is None or "learned-costs" in self.subproblem.options.disabled:
            return
        learned = cost_cuts(attempt.segmentation, attempt.evaluated)
        self.cuts = replace(self.cuts, columns=(*self.cuts.columns, *learned))
        if learned:
            what = f"{learned[0].ops[0]} .. {learned[0].ops[-1]} takes {learned[0].cycles:,} cycles"
            self.record.tell("segmentation", "costlier", message=f"{len(learned)} segments; {what}")
