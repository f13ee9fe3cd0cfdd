"""Questions that workers are asked during a search: columns of a root, tiles of a segment.

Those about tiled segments are in :mod:`..subproblem.plan_questions`, that about a window of an order of queues in
:mod:`..order.windows`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment
from ...ir.semantics.cell import Cells
from ..cpsat.backend import Budget
from ..segmentation.candidates import Candidates, PricedRoot
from ..switches import Disabled
from ..tiling.solve import Caps, Tiler, TilerAnswers
from .workers import Workers

FEWEST_ROOTS = 12
"""With fewer roots to price, no workers are started for them: that takes about a second. Chosen."""


@dataclass(frozen=True)
class PriceRoot:
    """The columns with one root."""

    machine: Machine
    disabled: Disabled
    first: int
    last: int

    def answer(self, graph: Graph, kept: dict[Any, Any]) -> PricedRoot:
        key = "columns", repr(self.machine), self.disabled
        if key not in kept:
            kept[key] = Candidates(graph, self.machine, disabled=self.disabled)
        candidates: Candidates = kept[key]
        return candidates.root(self.first, self.last)


def ask_columns(candidates: Candidates, workers: Workers) -> list[Future[PricedRoot | None]]:
    """All columns that are not priced yet, to come, if they are worth workers."""
    if workers.idle:
        return []
    roots = candidates.unpriced()
    if len(roots) < FEWEST_ROOTS:
        return []
    # The longest first, so that no worker is left with one at the end.
    roots.sort(key=lambda root: root[0] - root[1])
    return [workers.ask(PriceRoot(candidates.machine, candidates.disabled, *root)) for root in roots]


@dataclass(frozen=True)
class TileSegment:
    """What a tiler finds out as it tiles a segment."""

    machine: Machine
    budget: Budget
    seed: int
    disabled: Disabled
    segment: Segment
    caps: tuple[tuple[str, Caps], ...]
    leads: bool
    engines: bool

    def answer(self, graph: Graph, kept: dict[Any, Any]) -> TilerAnswers:
        key = "tiles", repr(self.machine), self.budget, self.seed, self.disabled
        if key not in kept:
            tiler = Tiler(graph, self.machine, budget=self.budget, seed=self.seed, disabled=self.disabled)
            kept[key] = tiler, Cells(graph)
        tiler, cells = kept[key]
        before = len(tiler.answers)
        tiler.segment(self.segment, cells, dict(self.caps), leads=self.leads, engines=self.engines)
        return dict(list(tiler.answers.items())[before:])


class TilesAhead:
    """Tiles segments by workers before a tiler is asked for them; of equal segments one."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._asked: set[Hashable] = set()

    def learn(
        self, tiler: Tiler, segments: Iterable[Segment], caps: Mapping[str, Caps], *, leads: bool, engines: bool
    ) -> None:
        """Tell the tiler what it would find out about these segments."""
        if self._workers.idle:
            return
        questions: list[TileSegment] = []
        for segment in segments:
            op_caps = tuple((name, caps[name]) for name in segment.ops if name in caps)
            classes = tuple(tiler.structures.class_of[name] for name in segment.ops)
            key = (
                tiler.budget,
                classes,
                segment.instances,
                segment.cores,
                tuple(cap for _, cap in op_caps),
                leads,
                engines,
            )
            if key not in self._asked and tiler.graph.op[segment.ops[0]].host is None:
                self._asked.add(key)
                questions.append(
                    TileSegment(
                        tiler.machine, tiler.budget, tiler.seed, tiler.disabled, segment.bare, op_caps, leads, engines
                    )
                )
        if len(questions) < FEWEST_SEGMENTS:
            return
        for known in self._workers.answers(questions):
            tiler.learn(known or {})


FEWEST_SEGMENTS = 4
"""With fewer segments to tile, workers are not asked. Chosen."""
