"""Tiles for given segments: of the ways to tile each, the one with which it takes the cores the least time.

Small tiles wait less, and load more; operators in another order overlap more, and hold more (:mod:`.operator_order`).
How the engines of a core get on with one another is for the prediction to say, so every way is predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment
from ...ir.semantics.cell import Cells
from ..switches import ALL_ON, Disabled
from ..tiling.model import Choice
from ..tiling.solve import Caps, Infeasible, Tiler
from .concat_aliasing import with_inside
from .operator_order import interleaved
from .plan_builder import Realiser, Refusal
from .step_order import segment_by_segment
from .time_budget import Round, budget

Tiled = tuple[Segment, tuple[Choice, ...]]
"""A segment with its tiles, and how each was chosen."""
LONGEST_TILING = 5.0
"""Seconds for the tiles of one operator at most."""


class Ways:
    """The ways to tile segments of one graph on one machine.

    ``caps``: what tiles of an operator may take at most, by its name.
    """

    def __init__(
        self, graph: Graph, machine: Machine, cells: Cells, realiser: Realiser, seed: int, disabled: Disabled = ALL_ON,
        *, layerwise: bool,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.machine = machine
        self.cells = cells
        self.realiser = realiser
        self.seed = seed
        self.disabled = disabled
        self.layerwise = layerwise
        self.caps: dict[str, Caps] = {}
        self._apart: set[Segment] = set()
        self._tilers: dict[float, Tiler] = {}

    def chosen(
        self, segments: tuple[Segment, ...], now: Round, also: tuple[Segment, ...] = ()
    ) -> list[Tiled] | Refusal:
        """For each segment, or the one in its place in ``also``, the best of the ways to tile it."""
        tiled = self._tiled(segments, now, leads=False)
        if isinstance(tiled, Refusal) or self.layerwise:
            return tiled
        return self.better(tiled, (way for of in (segments, also) if of for way in self._others(of, now)), now)

    def better(self, safe: list[Tiled], others: Iterable[list[Tiled]], now: Round) -> list[Tiled]:
        """For each segment that of the ways with which it takes the cores the least time."""
        others = [way for way in others if way != safe]
        told = self._on_cores(safe, safe, now) if others else None
        if told is None:
            return safe
        options = [(safe, told)]
        for way in others:
            told = self._on_cores(way, safe, now)
            if told is not None:
                options.append((way, told))
        return [min(options, key=lambda o: o[1][i])[0][i] for i in range(len(safe))]

    def keep_apart(self, segment: Segment) -> None:
        """From now on, no tensor of this segment may lie inside another."""
        self._apart.add(segment.bare)

    def _tiled(self, segments: tuple[Segment, ...], now: Round, *, leads: bool) -> list[Tiled] | Refusal:
        """The segments with their tiles.

        ``leads``: whether waits for vector operators count (see :mod:`..tiling.producer_stall`).
        """
        if now.tiling not in self._tilers:
            seconds = min(LONGEST_TILING, now.tiling)
            self._tilers[now.tiling] = Tiler(
                self.graph, self.machine, budget=budget(seconds), seed=self.seed, disabled=self.disabled
            )
        found: list[Tiled] = []
        for index, made in enumerate(segments):
            answer = self._tilers[now.tiling].segment(made.bare, self.cells, self.caps, leads=leads)
            if isinstance(answer, Infeasible):
                role = self.machine.memory[answer.memory].role
                return Refusal(index, answer.op, role, answer.need, answer.capacity, str(answer.error()))
            tiled, choices = answer
            apart = self.layerwise or "concat-aliasing" in self.disabled
            if not apart and tiled.bare not in self._apart:
                tiled = with_inside(self.graph, self.cells, self.machine, tiled)
            found.append((tiled, choices))
        return found

    def _others(self, segments: tuple[Segment, ...], now: Round) -> Iterator[list[Tiled]]:
        """With tiles for which waits count, in the order that there is and in another."""
        turned = segments
        if "operator-order" not in self.disabled:
            turned = tuple(replace(s, ops=interleaved(self.graph, s.ops)) for s in segments)
        for of in dict.fromkeys((segments, turned)):
            other = self._tiled(of, now, leads="producer-stall" not in self.disabled)
            if not isinstance(other, Refusal):
                yield other

    def _on_cores(self, way: list[Tiled], safe: list[Tiled], now: Round) -> tuple[int, ...] | None:
        """What each segment takes; those that cannot be are replaced by the ``safe`` ones."""
        while True:
            segments = tuple(of[0] for of in way)
            asked = now.request(segments, segment_by_segment(segments), layerwise=self.layerwise)
            told = self.realiser.on_cores(asked)
            if not isinstance(told, Refusal):
                return told
            if way[told.segment] == safe[told.segment]:
                return None
            way[told.segment] = safe[told.segment]
