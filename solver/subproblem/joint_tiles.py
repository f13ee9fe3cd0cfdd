"""Tiles of a segment's operators chosen for each other: coordinate descent over tiles, judged by the timeline.

The tiling model (:mod:`..tiling.model`) chooses the tile with which one operator takes the least time by itself. What
a segment takes depends on how the engines of a core get on with one another: on how soon the first tile is there for
the next operator, how much of the last is left when all else is done, and whether the buffers of neighbours fit beside
each other. So operator by operator, each of a few other tiles is tried in place of the one that it has, with the tiles
of all others as they are, and the segment is predicted from depths and addresses on. The best is kept; neighbours of a
change are looked at again, until nothing is better.

It need not be a global optimum. On blocks of three operators of MobileNet-V2 that were enumerated (300 to 924
combinations) it was, or was within 0.5 % of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ...ir.box import shape_of
from ...ir.graph import Graph
from ...ir.plan import Segment, Tile
from ...ir.semantics.cell import Cells, count
from ..cost.equivalence import structural_class
from ..cost.local_buffers import targets
from ..tiling.problem import TilingProblem
from ..tiling.solve import ALONE, Caps, Choice, Tiler, instance_cells, largest

MOST_TILES = 8
"""Tiles that are tried for one operator. Measured with 6, 8 and 12: see ``docs/solver.md``."""
DEARER = 1.7
"""By which factor a tile may be dearer than the best, for an operator by itself. Chosen, not measured."""
LONG = 6
"""Operators of a segment up to which all of them are predicted. Chosen, not measured."""
NEIGHBOURS = 2
"""In longer segments, operators that are predicted before and after the one whose tile is chosen. Chosen."""
INSTANCES = 4
"""Instances of a segment that is not long that are predicted at most: how one follows another is how all do."""
PASSES = 3
"""How often an operator is looked at. Chosen; most segments end after two."""

Judge = Callable[[Segment, int, range], "int | None"]
"""Cycles of the operators at some positions of a segment, in its first instances; ``None`` if it does not fit."""


@dataclass(frozen=True)
class Refined:
    """A segment with its tiles, and the choice of each operator."""

    segment: Segment
    choices: tuple[Choice, ...]


TileChoices: TypeAlias = "list[tuple[Choice, tuple[Choice, ...]]]"
"""For each operator of a segment the choice that it has, and those to try."""

KnownJointTiles: TypeAlias = "dict[tuple[Hashable, ...], tuple[Choice, ...]]"
"""The choices for a segment, by all that its operators, splits and caps are by name."""


class JointTiles:
    """Segments of one graph with their tiles chosen for each other; equal segments share the answer.

    ``shared``: what searches for the same graph and cores have found, which this one knows and adds to.
    """

    def __init__(self, graph: Graph, cells: Cells, judge: Judge, shared: KnownJointTiles | None = None) -> None:
        self.graph = graph
        self.cells = cells
        self.predicted = 0
        """How many operators the judge has predicted, each in each instance and each time."""
        self._judge = judge
        self._shared: KnownJointTiles = {} if shared is None else shared
        self._known: dict[tuple[Hashable, ...], Refined] = {}
        self._choices_of: dict[tuple[Hashable, ...], TileChoices] = {}

    def known(self, segment: Segment, caps: Mapping[str, Caps]) -> Refined | None:
        """What was found for a segment with the same operators, splits and engines, whatever its tiles."""
        answer = self._known.get(self._key(segment, caps))
        return None if answer is None else _renamed(answer, segment)

    def refined(self, tiler: Tiler, segment: Segment, caps: Mapping[str, Caps], is_over: Callable[[], bool]) -> Refined:
        """The segment with tiles that are predicted to take no longer than those with which it was asked for first.

        If it ``is_over`` before they are found, with those so far, which are not remembered.
        """
        key = self._key(segment, caps)
        if key not in self._known:
            named = segment.bare, segment.aliased, key[1:]
            choices = self._shared.get(named) or self._descend(tiler, segment, caps, is_over)
            answer = Refined(replace(segment, tiles=tuple(c.tile for c in choices)), choices)
            if is_over():
                return answer
            self._shared[named], self._known[key] = choices, answer
        return _renamed(self._known[key], segment)

    def kept(self, tiler: Tiler, segment: Segment, caps: Mapping[str, Caps]) -> Refined:
        """The segment with the tiles that it has."""
        return Refined(segment, tuple(own for own, _ in self._candidates(tiler, segment, caps)))

    def _key(self, segment: Segment, caps: Mapping[str, Caps]) -> tuple[Hashable, ...]:
        engines = tuple(tile.engine for tile in segment.tiles)
        bare = structural_class(self.cells, replace(segment, tiles=()))
        return bare, engines, tuple(caps.get(name) for name in segment.ops)

    def _descend(
        self, tiler: Tiler, segment: Segment, caps: Mapping[str, Caps], is_over: Callable[[], bool]
    ) -> tuple[Choice, ...]:
        candidates = self._candidates(tiler, segment, caps)
        choices = [own for own, _ in candidates]
        changed = dict.fromkeys(range(len(choices)))
        for _ in range(PASSES):
            looked, changed = sorted(changed), {}
            for i in looked:
                if is_over():
                    break
                window, instances = _predicted(segment, i)
                best = self._cycles(segment, instances, window)
                for choice in candidates[i][1]:
                    if best is None or choice.tile.cut == choices[i].tile.cut or is_over():
                        continue
                    other = replace(segment, tiles=(*segment.tiles[:i], choice.tile, *segment.tiles[i + 1 :]))
                    cycles = self._cycles(other, instances, window)
                    if cycles is not None and cycles < best:
                        best, segment, choices[i] = cycles, other, choice
                        changed |= dict.fromkeys(j for j in (i - 1, i, i + 1) if 0 <= j < len(choices))
        return tuple(choices)

    def _candidates(self, tiler: Tiler, segment: Segment, caps: Mapping[str, Caps]) -> TileChoices:
        """For each operator the choice that it has and those to try, of this segment or an equal one."""
        key = structural_class(self.cells, segment), tuple(caps.get(name) for name in segment.ops)
        if key not in self._choices_of:
            self._choices_of[key] = _candidates(self.graph, self.cells, tiler, segment, caps)
        return [
            (_of(own, name), tuple(_of(choice, name) for choice in others))
            for (own, others), name in zip(self._choices_of[key], segment.ops, strict=True)
        ]

    def _cycles(self, segment: Segment, instances: int, window: range) -> int | None:
        self.predicted += instances * len(window)
        return self._judge(segment, instances, window)


def _predicted(segment: Segment, position: int) -> tuple[range, int]:
    """The positions of the operators that are predicted to choose the tile of one, and in how many instances."""
    if len(segment.ops) <= LONG:
        return range(len(segment.ops)), min(INSTANCES, count(segment.instances))
    return range(max(0, position - NEIGHBOURS), min(len(segment.ops), position + NEIGHBOURS + 1)), 1


def _candidates(graph: Graph, cells: Cells, tiler: Tiler, segment: Segment, caps: Mapping[str, Caps]) -> TileChoices:
    instances = instance_cells(segment, cells)
    all_cells = [cell for row in instances for cell in row]
    choices: TileChoices = []
    for name, tile in zip(segment.ops, segment.tiles, strict=True):
        op = graph.op[name]
        boxes = targets(all_cells, op)
        room = tiler.capacity(ALONE, caps.get(name, Caps()))
        weights = tiler.weights(op, instances[len(instances) // 2])
        cost = tiler.cost(op, tile.engine)
        problem = tiler.problem(cost, largest(boxes), weights, room, also=tile) if boxes else None
        if problem is None:
            choices.append((Choice(tile, 0, 0, "feasible"), ()))
            continue
        own, others = _choices(problem, tile, shape_of(largest(boxes)))
        fitting = (choice for choice in others if tiler.fits_everywhere(op, choice.tile, boxes, *room))
        choices.append((own, tuple(_of(choice, name) for choice in fitting)))
    return choices


def _choices(problem: TilingProblem, tile: Tile, extents: tuple[int, ...]) -> tuple[Choice, list[Choice]]:
    """The choice of a tile that an operator has, and the cheapest of each kind of tile.

    Tiles of one kind cut the same dimensions into about as many parts (up to a factor of two), and walk them in the
    same order.
    """
    bound = int(problem.cycles.min())
    own = Choice(tile, bound, bound, "feasible")
    kinds: dict[tuple[object, ...], Choice] = {}
    for a, shape in enumerate(problem.shapes):
        fitting = [b for b, mode in enumerate(problem.modes) if problem.fits(shape, mode)]
        for b in fitting:
            if (shape.sizes, shape.order, problem.modes[b].reduction.sizes) == tile.cut:
                own = Choice(tile, int(problem.cycles[a, b]), bound, "feasible")
        if not fitting:
            continue
        best = min(fitting, key=lambda b: problem.cycles[a, b])
        cut = tuple(size < extent for size, extent in zip(shape.sizes, extents, strict=True))
        kind = (cut, shape.tiles.bit_length(), shape.order)
        cycles = int(problem.cycles[a, best])
        if kind not in kinds or cycles < kinds[kind].cycles:
            kinds[kind] = Choice(problem.tile(a, best), cycles, bound, "feasible")
    cheap = sorted(kinds.values(), key=lambda choice: choice.cycles)
    least = cheap[0].cycles if cheap else 0
    return own, [choice for choice in cheap if choice.cycles <= DEARER * least][:MOST_TILES]


def _of(choice: Choice, op: str) -> Choice:
    """The choice of an equal operator."""
    return replace(choice, tile=replace(choice.tile, op=op))


def _renamed(refined: Refined, segment: Segment) -> Refined:
    """The answer for an equal segment, for this one."""
    choices = tuple(_of(choice, name) for choice, name in zip(refined.choices, segment.ops, strict=True))
    return Refined(replace(segment, tiles=tuple(c.tile for c in choices)), choices)
