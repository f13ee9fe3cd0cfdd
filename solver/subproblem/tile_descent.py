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
from ..tiling.candidates import largest
from ..tiling.problem import TilingProblem
from ..tiling.solve import ALONE, Caps, Choice, Tiler, instance_cells

MOST_TRIED_TILES = 8
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

SegmentPredictor = Callable[[Segment, int, range], "int | None"]
"""Cycles of the operators at some positions of a segment, in its first instances; ``None`` if it does not fit."""


TileChoices: TypeAlias = "list[tuple[Choice, tuple[Choice, ...]]]"
"""For each operator of a segment the choice that it has, and those to try."""


@dataclass(frozen=True)
class Descent:
    """The ``choices`` for the operators of a segment, and how many operators were ``predicted`` to find them, each in
    each instance and each time."""

    choices: tuple[Choice, ...]
    predicted: int


class Descents:
    """For segments of one graph; what is found does not depend on what was looked at before."""

    def __init__(self, graph: Graph, cells: Cells, predictor: SegmentPredictor) -> None:
        self.graph = graph
        self.cells = cells
        self._predictor = predictor
        self._candidates: dict[tuple[Hashable, ...], TileChoices] = {}

    def descend(self, tiler: Tiler, segment: Segment, caps: Mapping[str, Caps], is_over: Callable[[], bool]) -> Descent:
        """Choices that are predicted to take no longer than those of the segment; once it ``is_over``, those so far."""
        candidates = self.candidates(tiler, segment, caps)
        choices = [current for current, _ in candidates]
        changed = dict.fromkeys(range(len(choices)))
        predicted = 0
        for _ in range(PASSES):
            looked, changed = sorted(changed), {}
            for i in looked:
                if is_over():
                    break
                window, instances = _predicted(segment, i)
                best = self._predictor(segment, instances, window)
                predicted += instances * len(window)
                for choice in candidates[i][1]:
                    if best is None or choice.tile.cut == choices[i].tile.cut or is_over():
                        continue
                    other = replace(segment, tiles=(*segment.tiles[:i], choice.tile, *segment.tiles[i + 1 :]))
                    cycles = self._predictor(other, instances, window)
                    predicted += instances * len(window)
                    if cycles is not None and cycles < best:
                        best, segment, choices[i] = cycles, other, choice
                        changed |= dict.fromkeys(j for j in (i - 1, i, i + 1) if 0 <= j < len(choices))
        return Descent(tuple(choices), predicted)

    def candidates(self, tiler: Tiler, segment: Segment, caps: Mapping[str, Caps]) -> TileChoices:
        """For each operator the choice that it has and those to try, of this segment or an equal one."""
        key = structural_class(self.cells, segment), tuple(caps.get(name) for name in segment.ops)
        if key not in self._candidates:
            self._candidates[key] = _candidates(self.graph, self.cells, tiler, segment, caps)
        return [
            (of_operator(current, name), tuple(of_operator(choice, name) for choice in others))
            for (current, others), name in zip(self._candidates[key], segment.ops, strict=True)
        ]


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
        problem = tiler.problem(cost, boxes, weights, room, also=tile) if boxes else None
        if problem is None:
            choices.append((Choice(tile, 0, 0, "feasible"), ()))
            continue
        current, others = _choices(problem, tile, shape_of(largest(boxes)))
        fitting = (choice for choice in others if tiler.fits_everywhere(op, choice.tile, boxes, *room))
        choices.append((current, tuple(of_operator(choice, name) for choice in fitting)))
    return choices


def _choices(problem: TilingProblem, tile: Tile, extents: tuple[int, ...]) -> tuple[Choice, list[Choice]]:
    """The choice of a tile that an operator has, and the cheapest of each kind of tile.

    Tiles of one kind cut the same dimensions into about as many parts (up to a factor of two), and walk them in the
    same order.
    """
    bound = int(problem.cycles.min())
    current = Choice(tile, bound, bound, "feasible")
    kinds: dict[tuple[object, ...], Choice] = {}
    for a, shape in enumerate(problem.shapes):
        fitting = [b for b, mode in enumerate(problem.modes) if problem.fits(shape, mode)]
        for b in fitting:
            if (shape.sizes, shape.order, problem.modes[b].reduction.sizes) == tile.cut:
                current = Choice(tile, int(problem.cycles[a, b]), bound, "feasible")
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
    return current, [choice for choice in cheap if choice.cycles <= DEARER * least][:MOST_TRIED_TILES]


def of_operator(choice: Choice, op: str) -> Choice:
    """The choice of an equal operator."""
    return replace(choice, tile=replace(choice.tile, op=op))
