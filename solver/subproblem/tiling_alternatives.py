"""Tiles for given segments: of several alternatives for each, the one with which it takes the cores the least time.

Small tiles wait less, and load more; operators in another order overlap more, and hold more (:mod:`.operator_order`);
contractions of few rows are quicker on the vector engine, for which all of their weights have to be there.
How the engines of a core get on with one another is for the prediction to say, so every alternative is predicted. Tiles
that were chosen for each other (:mod:`.joint_tiles`) for a segment of the best plan are one of the alternatives of
equal segments on the same engines from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeAlias

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment
from ...ir.semantics.cell import Cells
from ..cost.equivalence import structural_class
from ..options import LiveListener
from ..parallel.questions import TilesAhead
from ..parallel.workers import Workers, answered
from ..switches import ALL_ON, Disabled
from ..tiling.solve import Caps, Choice, TileOverflow, Tiler, TilerAnswers, seen_by_tiles
from .concat_aliasing import with_inside
from .joint_tiles import JointTiles, KnownJointTiles
from .operator_order import interleaved
from .plan_builder import Infeasibility, PlanBuilder
from .plan_questions import ChosenTogether, Searched, cycles_on_cores, worth_descents
from .tile_descent import Descent, Descents
from .time_budget import Iteration


@dataclass(frozen=True)
class KnownTiles:
    """What searches for machines with the same cores share.

    ``alone``: what tilers have answered, by what tiles see of the machine, and the seconds that they could search.
    ``joint``: tiles that were chosen for each other, by what tiles see of the machine.
    """

    alone: dict[tuple[str, float], TilerAnswers] = field(default_factory=dict[tuple[str, float], TilerAnswers])
    joint: dict[str, KnownJointTiles] = field(default_factory=dict[str, KnownJointTiles])


LONGEST_TILING = 5.0
"""Seconds for the tiles of one operator at most; chosen, not measured."""


CapsByName: TypeAlias = "tuple[tuple[str, Caps], ...]"
"""Caps of operators, by their names."""


@dataclass(frozen=True)
class TilingCuts:
    """What models below tiling have inferred. ``caps``: bytes that tiles of an operator may take, by its name.

    ``unaliased``: segments (without tiles) in which no operand may lie inside its concatenation.
    """

    caps: tuple[tuple[str, Caps], ...] = ()
    unaliased: frozenset[Segment] = field(default_factory=frozenset[Segment])

    @cached_property
    def cap(self) -> dict[str, Caps]:
        """The caps by operator."""
        return dict(self.caps)

    def caps_of(self, segment: Segment) -> CapsByName:
        """Those of the operators of a segment."""
        return tuple((name, self.cap[name]) for name in segment.ops if name in self.cap)

    def capped(self, caps: dict[str, Caps]) -> TilingCuts:
        """With these caps in place of those that the operators have."""
        return replace(self, caps=tuple({**self.cap, **caps}.items()))

    def without_aliasing(self, segment: Segment) -> TilingCuts:
        """With nothing inside of a concatenation in this segment."""
        return replace(self, unaliased=self.unaliased | {segment.bare})


@dataclass(frozen=True)
class TiledSegment:
    """A segment with its tiles, and how each was chosen."""

    segment: Segment
    choices: tuple[Choice, ...]


class TilingAlternatives:
    """The alternatives to tile segments of one graph on one machine; where any plan will do, the first of them."""

    def __init__(
        self, graph: Graph, machine: Machine, cells: Cells, builder: PlanBuilder, seed: int,
        disabled: Disabled = ALL_ON, live: LiveListener | None = None, *, layerwise: bool = False,
        workers: Workers | None = None, known: KnownTiles | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.machine = machine
        self.cells = cells
        self.builder = builder
        self.seed = seed
        self.disabled = disabled
        self.layerwise = layerwise
        self._live = live
        self._tilers: dict[float, Tiler] = {}
        self._cycles: dict[Hashable, int | None] = {}
        self._known = KnownTiles() if known is None else known
        self._seen = repr(seen_by_tiles(machine))
        self._ahead = TilesAhead(workers) if workers is not None else None
        descents = Descents(graph, cells, builder.on_cores)
        self._joint = JointTiles(descents, self._known.joint.setdefault(self._seen, {}))
        self._workers = workers
        self._searched = Searched(machine, disabled, seed)
        self._under_way: dict[tuple[Segment, CapsByName], Future[Descent | None]] = {}
        """Tiles that workers are choosing for each other, by the segment that they were asked for and its caps."""

    def best(
        self, segments: tuple[Segment, ...], cuts: TilingCuts, iteration: Iteration, instead: tuple[Segment, ...] = (),
        *, engines: bool = True,
    ) -> list[TiledSegment] | Infeasibility:  # fmt: skip
        """For each segment, or the one in its place in ``instead``, the best of its alternatives.

        ``engines``: those among them in which the vector engine runs contractions of the matrix engine.
        """
        fallback = self._tiled(segments, cuts, iteration, stalls=False)
        if isinstance(fallback, Infeasibility) or self.layerwise or self.builder.any_plan:
            return fallback
        others = [
            way
            for requested in (segments, instead)
            if requested
            for way in self._others(requested, cuts, iteration, engines)
        ]
        choices = [choice for way in (fallback, *others) for tiled in way for choice in tiled.choices]
        chosen = self.quickest(fallback, others)
        used = [choice for tiled in chosen for choice in tiled.choices]
        self.builder.discard("tiling", (c.effort for c in choices if c.effort.timed_out and c not in used))
        return chosen

    def kept(self, segment: Segment, cuts: TilingCuts, iteration: Iteration) -> TiledSegment:
        """A segment with the tiles that it has."""
        if not segment.tiles:
            return TiledSegment(segment, ())
        return TiledSegment(segment, self._joint.kept(self._tiler(iteration), segment, cuts.cap).choices)

    def joint(
        self, segment: Segment, cuts: TilingCuts, iteration: Iteration, is_over: Callable[[], bool]
    ) -> TiledSegment:
        """A tiled segment with tiles of its operators chosen for each other: those so far, once it ``is_over``."""
        if not segment.tiles:
            return TiledSegment(segment, ())
        pending = self._under_way.pop((segment, cuts.caps_of(segment)), None)
        by_worker = partial(answered, pending, is_over) if pending is not None else lambda: None
        refined = self._joint.refined(self._tiler(iteration), segment, cuts.cap, is_over, by_worker)
        return TiledSegment(refined.segment, refined.choices)

    def ask_joint(self, segments: Iterable[Segment], cuts: TilingCuts) -> None:
        """Have workers choose tiles for each other for the first of these tiled segments, one for each worker."""
        workers, segments = self._workers, list(segments)
        if workers is None or workers.idle or not worth_descents(segments):
            return
        under_way = sum(not pending.done() for pending in self._under_way.values())
        classes = {self._joint.key(segment, dict(caps)) for segment, caps in self._under_way}
        for segment in segments:
            if under_way >= workers.jobs:
                break
            key, caps = self._joint.key(segment, cuts.cap), cuts.caps_of(segment)
            if segment.tiles and key not in classes and not self._joint.is_known(segment, cuts.cap):
                self._under_way[segment, caps] = workers.ask(ChosenTogether(self._searched, segment, caps))
                classes.add(key)
                under_way += 1

    def cancel_joint(self) -> None:
        """Nobody needs what workers have not begun with; what they are at, nobody will ask for."""
        for pending in self._under_way.values():
            pending.cancel()
        self._under_way.clear()

    def known_joint(self, segment: Segment, cuts: TilingCuts) -> TiledSegment | None:
        """A tiled segment with tiles that were chosen for each other before, on the same engines."""
        refined = self._joint.known(segment, cuts.cap) if segment.tiles else None
        return None if refined is None else TiledSegment(refined.segment, refined.choices)

    @property
    def predicted(self) -> int:
        """How many operators were predicted to choose tiles for each other so far."""
        return self._joint.predicted

    def quickest(self, fallback: list[TiledSegment], others: Iterable[list[TiledSegment]]) -> list[TiledSegment]:
        """For each segment that alternative with which it takes the cores the least time; the first of equal ones."""
        ways = [fallback, *(way for way in others if way != fallback)]
        if len(ways) == 1:
            return fallback
        options = [tuple(dict.fromkeys(alternatives)) for alternatives in zip(*ways, strict=True)]
        self._predict(option.segment for alternatives in options if len(alternatives) > 1 for option in alternatives)
        return [self._quickest(alternatives) for alternatives in options]

    def _quickest(self, options: tuple[TiledSegment, ...]) -> TiledSegment:
        """Of one segment; the first if none fits, or there is no other."""
        if len(options) == 1:
            return options[0]
        timed = [(cycles, option) for option in options if (cycles := self._on_cores(option.segment)) is not None]
        return min(timed, key=lambda timed: timed[0], default=(0, options[0]))[1]

    def _tiled(
        self,
        segments: tuple[Segment, ...],
        cuts: TilingCuts,
        iteration: Iteration,
        *,
        stalls: bool,
        engines: bool = False,
    ) -> list[TiledSegment] | Infeasibility:
        """The segments with their tiles.

        ``stalls``: whether waits for vector operators count (see :mod:`..tiling.producer_stall`). ``engines``: whether
        the vector engine runs contractions of the matrix engine that take it fewer cycles.
        """
        tiler = self._tiler(iteration)
        if self._ahead is not None:
            self._ahead.learn(tiler, segments, cuts.cap, leads=stalls, engines=engines)
        tiled_segments: list[TiledSegment] = []
        for index, segment in enumerate(segments):
            answer = tiler.segment(segment.bare, self.cells, cuts.cap, leads=stalls, engines=engines)
            if isinstance(answer, TileOverflow):
                choices = (choice for tiled in tiled_segments for choice in tiled.choices)
                self.builder.discard("tiling", (answer.effort, *(choice.effort for choice in choices)))
                return Infeasibility(index, answer.op, answer.level, answer.need, answer.capacity, str(answer.error()))
            tiled, choices = answer
            apart = self.layerwise or "concat-aliasing" in self.disabled or tiled.bare in cuts.unaliased
            if not apart:
                tiled = with_inside(self.graph, self.cells, self.machine, tiled)
            tiled_segments.append(TiledSegment(tiled, choices))
        return tiled_segments

    def _tiler(self, iteration: Iteration) -> Tiler:
        if iteration.tiling not in self._tilers:
            seconds = min(LONGEST_TILING, iteration.tiling)
            answers = self._known.alone.setdefault((self._seen, seconds), {})
            self._tilers[iteration.tiling] = Tiler(
                self.graph, self.machine, budget=iteration.budget("tiling", seconds), seed=self.seed,
                disabled=self.disabled, live=self._live, answers=answers,
            )  # fmt: skip
        return self._tilers[iteration.tiling]

    def _others(
        self, segments: tuple[Segment, ...], cuts: TilingCuts, iteration: Iteration, either: bool
    ) -> Iterator[list[TiledSegment]]:
        """With tiles for which waits count, in the order of the graph and in another, and on either engine."""
        reordered = segments
        if "operator-order" not in self.disabled:
            reordered = tuple(replace(s, ops=interleaved(self.graph, s.ops)) for s in segments)
        stalls = "producer-stall" not in self.disabled
        known: list[list[TiledSegment]] = []
        for engines in (False, True) if either and "vector-contractions" not in self.disabled else (False,):
            for ordered in dict.fromkeys((segments, reordered)):
                tiled = self._tiled(ordered, cuts, iteration, stalls=stalls, engines=engines)
                if isinstance(tiled, Infeasibility):
                    continue
                for way in (tiled, [self.known_joint(t.segment, cuts) or t for t in tiled]):
                    if way not in known:
                        known.append(way)
                        yield way

    def _on_cores(self, segment: Segment) -> int | None:
        """Cycles of a segment's instances; equal segments share the answer."""
        key = structural_class(self.cells, segment)
        if key not in self._cycles:
            self._cycles[key] = self.builder.on_cores(segment)
        return self._cycles[key]

    def _predict(self, segments: Iterable[Segment]) -> None:
        """Have workers find out what the segments take on the cores, if they are worth it."""
        unknown: dict[Hashable, Segment] = {}
        for segment in segments:
            key = structural_class(self.cells, segment)
            if key not in self._cycles:
                unknown.setdefault(key, segment)
        answers = cycles_on_cores(self._workers, self._searched, list(unknown.values()))
        self._cycles |= {key: answer[0] for key, answer in zip(unknown, answers, strict=True) if answer is not None}
