"""The models below segmentation, for one graph: segments in, evaluated plans or infeasibilities out.

A subproblem decides nothing by what it was asked before: what was learned arrives as :class:`TilingCuts`. It only
remembers answers, so that equal questions are answered once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment, Solved, Step
from ...ir.semantics.cell import Cells
from ..effort import Effort, PartialAnswer, total_effort
from ..options import LiveListener, ModelRun, Options
from ..parallel.workers import Workers
from ..tiling.solve import together
from .plan_builder import Draft, EvaluatedPlan, Infeasibility, PlanBuilder, PlanRequest
from .step_order import orders
from .tiling_alternatives import KnownTiles, TiledSegment, TilingAlternatives, TilingCuts
from .time_budget import Iteration


class Subproblem:
    """``note`` hears of each answer of each model, ``live`` of searches while they run; ``known`` tiles are shared.

    ``any_plan``: the first plan will do, so that nothing is compared.
    """

    def __init__(
        self, graph: Graph, machine: Machine, options: Options, note: Callable[[ModelRun], None],
        live: LiveListener | None = None, workers: Workers | None = None, known: KnownTiles | None = None,
        *, any_plan: bool = False,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.machine = machine
        self.options = options
        self.note = note
        self.cells = Cells(graph)
        self.builder = PlanBuilder(
            graph, machine, self.cells, options.seed, note, options.disabled, live, workers, any_plan=any_plan
        )
        self.is_layerwise = options.strategy == "layerwise"
        self._alternatives = TilingAlternatives(
            graph, machine, self.cells, self.builder, options.seed, options.disabled, live,
            layerwise=self.is_layerwise, workers=workers, known=known,
        )  # fmt: skip

    def tiles(
        self,
        segments: tuple[Segment, ...],
        cuts: TilingCuts,
        iteration: Iteration,
        instead: tuple[Segment, ...] = (),
        *,
        engines: bool = True,
    ) -> list[TiledSegment] | Infeasibility:
        """Each segment, or the one in its place in ``instead``, with the tiles that take the cores the least time.

        ``engines``: whether the vector engine may run contractions of the matrix engine.
        """
        return self._alternatives.best(segments, cuts, iteration, instead, engines=engines)

    def kept_tiles(self, segment: Segment, cuts: TilingCuts, iteration: Iteration) -> TiledSegment:
        """A segment with the tiles that it has."""
        return self._alternatives.kept(segment, cuts, iteration)

    def joint_tiles(
        self, segment: Segment, cuts: TilingCuts, iteration: Iteration, is_over: Callable[[], bool]
    ) -> TiledSegment:
        """A tiled segment with tiles of its operators chosen for each other: those so far, once it ``is_over``."""
        return self._alternatives.joint(segment, cuts, iteration, is_over)

    def known_joint_tiles(self, tiled: TiledSegment, cuts: TilingCuts) -> TiledSegment | None:
        """The segment with tiles that were chosen for each other before, on the same engines."""
        return self._alternatives.known_joint(tiled, cuts)

    @property
    def predicted(self) -> int:
        """How many operators were predicted to choose tiles for each other so far."""
        return self._alternatives.predicted

    def tiling(self, tiled: list[TiledSegment]) -> Solved:
        """What tiling answered for all segments together."""
        choices = [c for segment in tiled for c in segment.choices]
        solved = together(choices)
        # Equal operators share an answer, and the time that it took.
        answers = Counter(replace(c, tile=replace(c.tile, op="")) for c in choices)
        parts = [PartialAnswer(count, c.cycles, c.bound, c.effort) for c, count in answers.items()]
        self.log(solved, total_effort(parts))
        return solved

    def requests(
        self, tiled: list[TiledSegment], iteration: Iteration, steps: tuple[Step, ...] | None = None
    ) -> list[PlanRequest]:
        """What the models below the tiles are to answer: one request for each order of the instances, or for one."""
        segments = tuple(s.segment for s in tiled)
        step_orders = orders(self.graph, self.cells, segments, self.options.disabled) if steps is None else (steps,)
        tried = step_orders[:1] if self.is_layerwise else step_orders
        return [iteration.request(segments, order, layerwise=self.is_layerwise) for order in tried]

    def drafts(self, requests: Sequence[PlanRequest]) -> list[Draft | Infeasibility]:
        """What is to be built for each order; with workers, residency of all is under way."""
        return self.builder.drafts(requests)

    def build(self, draft: Draft | Infeasibility, *above: Solved) -> EvaluatedPlan | Infeasibility:
        """The plan for one order; it also carries what the models ``above`` answered."""
        answer = self.builder.build(draft)
        if isinstance(answer, Infeasibility):
            return answer
        return replace(answer, plan=replace(answer.plan, solved=(*above, *answer.plan.solved)))

    def log(self, solved: Solved, effort: Effort, note: str = "") -> None:
        """Log the answer of a model."""
        self.note(ModelRun.of(solved, effort, note))
