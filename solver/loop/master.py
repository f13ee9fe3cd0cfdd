"""The master of the Benders decomposition: segmentation under cuts, and the cuts that lower models send up.

Cuts are immutable and, within a round, only ever added, so that no answer comes twice in it.
"""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from ...ir.errors import InfeasibleError
from ...ir.graph import Graph, Op
from ...ir.machine import Level, Machine
from ...ir.plan import Segment
from ...ir.semantics.contraction_engines import contraction_engine
from ..cost.smallest_tile import middle_element, smallest_tile_bytes
from ..options import LiveListener
from ..parallel.questions import ask_columns
from ..parallel.workers import Workers
from ..segmentation.candidates import Candidates, PricedRoot
from ..segmentation.groups.group_columns import GroupColumns
from ..segmentation.solve import BendersCut, Segmentation, segment
from ..subproblem.plan_builder import EvaluatedPlan, Infeasibility
from ..subproblem.tile_caps import SHRINK, least_cap, may_stream
from ..subproblem.tiling_alternatives import TilingCuts
from ..subproblem.time_budget import Iteration
from ..tiling.solve import Caps

HEADROOM = 8
"""One part in so many of shared memory stays free where addresses were not found. Chosen, not measured."""
COSTLIER = 1.1
"""A segment that takes so many times its estimate is worth another iteration; chosen, not measured."""


@dataclass(frozen=True)
class Cuts:
    """``columns``: for segmentation, feasibility cuts and optimality cuts; ``headroom``: bytes of shared memory that it
    leaves free; ``tiling``: for the models below it."""

    columns: tuple[BendersCut, ...] = ()
    headroom: int = 0
    tiling: TilingCuts = field(default_factory=TilingCuts)


@dataclass(frozen=True)
class Extent:
    """How far segmentation looks: whether path and residency of its first answer then improve each other (``in_turn``);
    and the operators, by position, at which groups of segments that take turns may begin (``starts``)."""

    in_turn: bool = False
    starts: tuple[int, ...] = ()


class Master:
    """Segmentation of one graph on one machine; columns are made once."""

    def __init__(
        self, graph: Graph, machine: Machine, candidates: Candidates, seed: int, live: LiveListener | None = None,
        workers: Workers | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.machine = machine
        self.candidates = candidates
        self.seed = seed
        self._live = live
        self._workers = workers
        self._pending: list[Future[PricedRoot | None]] = []
        self._groups = GroupColumns(graph, machine)

    def ask(self) -> None:
        """Workers begin to price all columns."""
        if self._workers is not None and not self._pending:
            self._pending = ask_columns(self.candidates, self._workers)

    def cancel(self) -> None:
        """What workers have not begun with, nobody needs."""
        for priced in self._pending:
            priced.cancel()
        self._pending.clear()

    def price(self) -> None:
        """Price all columns; what fits nowhere is for :meth:`segmentation` to tell."""
        self.ask()
        for priced in self._pending:
            if (root := priced.result()) is not None:
                self.candidates.learn(root)
        self._pending.clear()
        for _, last in self.candidates.unpriced():
            with suppress(InfeasibleError):
                self.candidates.ending(last)

    @property
    def grouped_count(self) -> int:
        """Groups of segments that were priced so far."""
        return self._groups.priced_count

    def segmentation(self, cuts: Cuts, iteration: Iteration, extent: Extent) -> Segmentation:
        """The best segmentation under the cuts; :class:`~girih.ir.errors.InfeasibleError` if there is none."""
        return segment(
            self.graph, self.machine, cuts=cuts.columns, candidates=self.candidates, seed=self.seed,
            budget=iteration.budget("segmentation", iteration.segmentation),
            watch=self._watch if self._live else None, in_turn=extent.in_turn, headroom=cuts.headroom,
            grouped=partial(self._groups.columns, starts=extent.starts) if extent.starts else None,
        )  # fmt: skip

    def _watch(self, incumbent: float | None, bound: float | None) -> None:
        if self._live is not None:
            self._live("segmentation", incumbent, bound, "cycles")

    def excluding(self, cuts: Cuts, refused: Segment, infeasibility: Infeasibility, *, in_turn: bool = False) -> Cuts:
        """A feasibility cut: smaller tiles, as long as they may help; then the column goes.

        Where homes of results have no room, that is for the operators between them: the column goes under every split.
        A segmentation that was improved ``in_turn`` with its residency fills shared memory to the last byte, for which
        there may be no addresses: at first it leaves room.
        """
        of_exchange = infeasibility.level == self.machine.levels.exchange and not self.is_of_homes(infeasibility)
        if in_turn and not cuts.headroom and of_exchange:
            return replace(cuts, headroom=infeasibility.level.capacity // HEADROOM)
        tiling = self.smaller_tiles(cuts.tiling, infeasibility)
        if tiling is not None:
            return replace(cuts, tiling=tiling)
        column = BendersCut(refused.ops, refused.instances, refused.cores)
        if self.is_of_homes(infeasibility):
            column = BendersCut(refused.ops)
        return replace(cuts, columns=(*cuts.columns, column))

    def is_of_homes(self, infeasibility: Infeasibility) -> bool:
        """Whether main memory has no room for what crosses segments, which splits and tiles cannot change."""
        return not self.machine.levels.has_exchange and infeasibility.level == self.machine.levels.home

    def smaller_tiles(self, cuts: TilingCuts, infeasibility: Infeasibility) -> TilingCuts | None:
        """A lower cap on the tiles of the operator that is too large; ``None`` if that cannot help.

        Smaller tiles of weights make finer chunks in shared memory, of which only some need to be there at a time.
        """
        level, levels = infeasibility.level, self.machine.levels
        if self.is_of_homes(infeasibility):
            return None
        if level in (levels.sums, levels.weights) and infeasibility.capacity < level.capacity:
            # The smallest tile does not fit under the cap that there is.
            return None
        op, old = self.graph.op[infeasibility.op], cuts.cap.get(infeasibility.op, Caps())
        if level == levels.sums:
            most, last = level.capacity, old.sums
        elif level in (levels.weights, levels.exchange) and may_stream(self.graph, op):
            most, last = min(levels.weights.capacity, levels.exchange.capacity), old.weights
        else:
            return None
        cap = (last or most) // SHRINK
        if cap < max(least_cap(most), self._smallest(op, levels.sums if level == levels.sums else levels.weights)):
            return None
        new = replace(old, sums=cap) if level == levels.sums else replace(old, weights=cap)
        return cuts.capped({op.name: new})

    def _smallest(self, op: Op, level: Level) -> int:
        """Bytes that the smallest tile of an operator needs at a level that holds tiles."""
        middle = middle_element(op, self.graph)
        engine = contraction_engine(op, self.graph, self.machine)
        return dict(smallest_tile_bytes(op, self.graph, self.machine, engine, [middle]))[level]


def cost_cuts(segmentation: Segmentation, evaluated: EvaluatedPlan) -> tuple[BendersCut, ...]:
    """Optimality cuts: the cycles of segments that take more than :data:`COSTLIER` times their estimate."""
    cuts: list[BendersCut] = []
    for column, chosen, cycles in zip(
        segmentation.columns, segmentation.segments, evaluated.segment_cycles, strict=True
    ):
        if cycles > COSTLIER * column.cycles:
            cuts.append(BendersCut(chosen.ops, chosen.instances, chosen.cores, cycles))
    return tuple(cuts)
