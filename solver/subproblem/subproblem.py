"""The models below segmentation, for one graph: segments in, evaluated plans or infeasibilities out.

A subproblem decides nothing by what it was asked before: what was learned arrives as :class:`TilingCuts`. It only
remembers answers, so that equal questions are answered once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan, Segment, Solved, Step
from ...ir.semantics.cell import Cells
from ..effort import Effort, PartialAnswer, total_effort
from ..options import LiveListener, ModelRun, Options
from ..parallel.workers import Workers
from ..tiling.solve import tiling_answer
from .plan_builder import EvaluatedPlan, Infeasibility, PlanBuilder, PlanRequest
from .plan_questions import Searched, ask_plans
from .plan_work import PlanWork, plan_work
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
            graph, machine, self.cells, options.seed, note, options.disabled, live, any_plan=any_plan
        )
        self.built = PlanWork()
        """Of all plans that were built, or came from the heuristics."""
        self.repredicted = PlanWork()
        """Of all plans that were only predicted again."""
        self._workers = workers
        self._searched = Searched(machine, options.disabled, options.seed)
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

    def ask_joint_tiles(self, segments: Iterable[Segment], cuts: TilingCuts) -> None:
        """Workers begin with :meth:`joint_tiles` of the first of these tiled segments."""
        self._alternatives.ask_joint(segments, cuts)

    def cancel_joint_tiles(self) -> None:
        """Nobody needs what workers have not begun with."""
        self._alternatives.cancel_joint()

    def known_joint_tiles(self, segment: Segment, cuts: TilingCuts) -> TiledSegment | None:
        """A tiled segment with tiles that were chosen for each other before, on the same engines."""
        return self._alternatives.known_joint(segment, cuts)

    @property
    def predicted(self) -> int:
        """How many operators were predicted to choose tiles for each other so far."""
        return self._alternatives.predicted

    def tiling(self, tiled: list[TiledSegment]) -> Solved:
        """What tiling answered for all segments together."""
        choices = [c for segment in tiled for c in segment.choices]
        solved = tiling_answer(choices)
        # Equal operators share an answer, and the time that it took.
        answers = Counter(replace(c, tile=replace(c.tile, op="")) for c in choices)
        parts = [PartialAnswer(count, c.cycles, c.bound, c.effort) for c, count in answers.items()]
        self.log(solved, total_effort(parts))
        return solved

    def requests(
        self, tiled: list[TiledSegment], iteration: Iteration, steps: tuple[Step, ...] | None = None,
        groups: tuple[int, ...] = (),
    ) -> list[PlanRequest]:  # fmt: skip
        """What the models below the tiles are to answer: one request for each order of the instances, of which one has
        these ``groups``, or for one."""
        segments = tuple(s.segment for s in tiled)
        disabled = self.options.disabled
        step_orders = orders(self.graph, self.cells, segments, disabled, groups) if steps is None else (steps,)
        candidate_orders = step_orders[:1] if self.is_layerwise else step_orders
        return [iteration.request(segments, order, layerwise=self.is_layerwise) for order in candidate_orders]

    def plans(self, requests: Sequence[PlanRequest], *above: Solved) -> Iterator[EvaluatedPlan | Infeasibility]:
        """The plan for each request; it also carries what the models ``above`` answered. Workers build several."""
        workers = None if self.builder.any_plan else self._workers
        under_way = ask_plans(workers, self._searched, requests)
        try:
            for request, pending in zip(requests, under_way, strict=True):
                # Of a worker that was killed there is no answer.
                built = pending.result() if pending is not None else None
                if built is None:
                    answer = self.builder.build(request)
                else:
                    answer, runs = built
                    for run in runs:
                        self.note(run)
                if isinstance(answer, EvaluatedPlan):
                    self.count_built(answer.plan)
                    answer = replace(answer, plan=replace(answer.plan, solved=(*above, *answer.plan.solved)))
                yield answer
        finally:
            for pending in under_way:
                if pending is not None:
                    pending.cancel()

    def count_built(self, plan: Plan) -> None:
        """What a search has cost includes that of this plan."""
        self.built += plan_work(self.graph, self.cells, self.machine, plan)

    def timed(self, plan: Plan) -> Plan:
        """A changed plan, or one for another machine, with what is predicted for it, checked."""
        self.repredicted += plan_work(self.graph, self.cells, self.machine, plan)
        return self.builder.timed(plan)

    def log(self, solved: Solved, effort: Effort, note: str = "") -> None:
        """Log the answer of a model."""
        self.note(ModelRun.from_solved(solved, effort, note))
