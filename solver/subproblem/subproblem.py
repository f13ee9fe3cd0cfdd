"""The models below segmentation, for one graph: from segments to plans, of which the best one is kept."""

from __future__ import annotations

from dataclasses import replace

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan, Recomputation, Segment, Solved
from ...ir.semantics.cell import Cells
from ..cpsat.log import Record
from ..options import ModelRun, Options
from ..tiling.solve import together
from .plan_builder import Realised, Realiser, Refusal, Request
from .step_order import orders
from .tile_choice import Tiled, Ways
from .time_budget import Round


class Below:
    """Everything below segmentation that plans of one graph on one machine have in common, and the best of them.

    ``bound`` is the lower bound of any plan in cycles, and ``reason`` what tells so. ``recomputed``: how the graph came
    from the network (see :mod:`girih.ir.recompute`); the best plan is one of the graph, and takes fewer cycles than
    ``beat``, those of a plan that there is already.
    """

    def __init__(
        self, graph: Graph, machine: Machine, options: Options, record: Record, bound: tuple[int, str],
        recomputed: tuple[Recomputation, ...] = (), beat: int | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.machine = machine
        self.options = options
        self.record = record
        self.bound, self.reason = bound
        self.recomputed = recomputed
        self._beat = beat
        self.cells = Cells(graph)
        self.realiser = Realiser(graph, machine, self.cells, options.seed, self.note, options.disabled)
        self.is_layerwise = options.strategy == "layerwise"
        self.ways = Ways(
            graph, machine, self.cells, self.realiser, options.seed, options.disabled, layerwise=self.is_layerwise
        )
        self.best: Plan | None = None
        self.asked: Request | None = None
        """What the best plan is the answer to, if the models made it."""

    @property
    def is_done(self) -> bool:
        """Whether the best plan cannot be better, or there is no time to look for one."""
        return self.best is not None and (self.best.cycles_predicted <= self.bound or self.over)

    @property
    def over(self) -> bool:
        """Whether the user or the clock ended the search."""
        return self.record.interrupts.seen or self.record.over()

    def planned(self, number: int, segments: tuple[Segment, ...], now: Round, *above: Solved) -> Realised | Refusal:
        """Tiles and everything below; a plan that comes out is remembered if it is the best."""
        made = self.ways.chosen(segments, now)
        if isinstance(made, Refusal):
            return made
        answer = self.tiled(number, made, now, *above)
        chosen = tuple(of[0] for of in made)
        if isinstance(answer, Refusal) and answer.role == "local" and chosen[answer.segment].inside:
            # It may fit with every tensor in a buffer of its own.
            self.ways.keep_apart(chosen[answer.segment])
            return self.planned(number, segments, now, *above)
        return answer

    def tiled(self, number: int, made: list[Tiled], now: Round, *above: Solved) -> Realised | Refusal:
        """Everything below these tiles."""
        choices = [c for of in made for c in of[1]]
        solved = together(choices)
        # Equal operators share an answer, and the time that it took.
        answers = dict.fromkeys(replace(c, tile=replace(c.tile, op="")) for c in choices)
        self.log(solved, sum(c.seconds for c in answers), sum(c.deterministic_seconds for c in answers), "")
        return self._ordered(number, tuple(of[0] for of in made), now, *above, solved)

    def _ordered(self, number: int, tiled: tuple[Segment, ...], now: Round, *above: Solved) -> Realised | Refusal:
        """Everything below the tiles, for each order of the instances; the better plan, or the first refusal."""
        tried = orders(self.graph, self.cells, tiled, self.options.disabled)
        if self.is_layerwise:
            tried = tried[:1]
        best: Realised | None = None
        refusal: Refusal | None = None
        for steps in tried:
            if (self.best is not None or self._beat is not None) and best is not None and self.over:
                break
            asked = now.request(tiled, steps, layerwise=self.is_layerwise)
            found = self.realiser.realise(asked)
            if isinstance(found, Refusal):
                refusal = refusal or found
                continue
            found = under(above, found)
            self.keep(number, found.plan, asked)
            if best is None or found.plan.cycles_predicted < best.plan.cycles_predicted:
                best = found
        if best is not None:
            return best
        assert refusal is not None
        return refusal

    def keep(self, number: int, plan: Plan, asked: Request | None) -> None:
        """A checked plan, ``asked`` of the models (``None``: by heuristics): keep it if it is the best."""
        plan = replace(plan, lower_bound_cycles=self.bound, lower_bound_reason=self.reason)
        known = self._beat if self.best is None else self.best.cycles_predicted
        better = known is None or plan.cycles_predicted < known
        if better:
            self.best, self.asked = plan, asked
        cycles = float(plan.cycles_predicted)
        status = "optimal" if plan.cycles_predicted <= self.bound else "feasible"
        note = f"round {number}, {len(plan.segments)} segments" + ("" if better else ", not better")
        self.log(Solved("plan", status, cycles, float(self.bound), "cycles"), self.record.seconds, 0.0, note)

    def log(self, solved: Solved, seconds: float, spent: float, note: str) -> None:
        """Log the answer of a model."""
        run = ModelRun(solved.model, solved.status, solved.objective, solved.bound, seconds, spent, solved.unit, note)
        self.note(run)

    def note(self, run: ModelRun) -> None:
        """Log a run. A model that the user interrupted stops with what it has: that is the end if there is no plan."""
        self.record.run(run)
        if self.record.interrupts.seen and self.best is None:
            raise KeyboardInterrupt


def under(above: tuple[Solved, ...], found: Realised) -> Realised:
    """With what the models above answered."""
    return replace(found, plan=replace(found.plan, solved=(*above, *found.plan.solved)))
