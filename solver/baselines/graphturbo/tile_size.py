"""Tile sizes: the largest divisors that fit, of the outermost loops first (Zhao et al., section on kernel generation).

The paper tiles the two outermost parallel loops of a layer's anchor (a convolution or matrix product, else its last
element-wise stage) with the largest divisors that fit. Loads of weights are hoisted, so the loops that choose the
stationary operand are the outermost. They are cut, in multiples of the matrix engine's columns, until two tiles of
weights fit (where that is not enough, the reduction is cut), and with the loops after them until two versions of the
private buffers fit. Only where two loops are not enough are more of them cut.

An extent with few divisors, as a large prime, would end in tiles of one element. Where the rule of the paper comes to
more than ``MOST_TILES_OF_OPERATOR`` tiles, extents are cut into 2, 3, 4, 6, 8, 12, ... nearly equal parts instead: what
fits is then at most about one and a half times as large as what is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

from ....ir.box import Box, shape_of
from ....ir.equivalence import EquivalenceClasses
from ....ir.graph import Graph, Op, contraction_axes
from ....ir.machine import Level, Machine
from ....ir.plan import Segment, Tile
from ....ir.semantics.cell import Cells
from ....ir.semantics.contraction_engines import contraction_engine
from ....ir.semantics.region import op_boxes
from ....ir.semantics.tile_alignment import aligned_size
from ...cost.local_buffers import all_cells, round_up, scratch_bytes, targets, weight_size
from ...cost.operator import OpCost
from ...cost.smallest_tile import idle_tile, smallest_tile, smallest_tile_bytes
from ...tiling.candidates import column_dims, largest
from .binding import divisors

MOST_TILES_OF_OPERATOR = 1 << 16
"""Of an operator in all of its different cells, parts of its reduction included, by divisors alone. Chosen, so that no
published network comes near on its machine: the search for a tile, the prediction and the lowering look at each."""
VERSIONS = (2, 1)
"""Of private buffers and of weights: two, so that consecutive tiles overlap; one where two do not fit."""


def _divisors(extent: int, unit: int) -> Sequence[int]:
    """The divisors below the extent that are multiples of the unit, the largest first."""
    return [d for d in divisors(extent)[1:] if d % unit == 0]


def _uneven(extent: int, unit: int) -> Sequence[int]:
    """Sizes below the extent that cut it into 2, 3, 4, 6, 8, ... nearly equal parts of whole units."""
    units = -(-extent // unit)
    parts = sorted(odd << doublings for odd in (2, 3) for doublings in range(units.bit_length()))
    sizes = (-(-units // count) * unit for count in parts)
    return list(dict.fromkeys(size for size in sizes if size < extent))


@dataclass(frozen=True)
class CutRule:
    """``parts``: the sizes below an extent, multiples of a unit, that a loop is cut to. ``most``: tiles of an operator
    in all cells, beyond which the rule gives no tile."""

    parts: Callable[[int, int], Sequence[int]]
    most: float


PUBLISHED = CutRule(_divisors, MOST_TILES_OF_OPERATOR)
UNEVEN = CutRule(_uneven, inf)


@dataclass(frozen=True)
class OperatorOverflow:
    """An operator of which not even the smallest tile fits: it takes ``need`` of ``capacity`` bytes of a memory."""

    op: str
    level: Level
    need: int
    capacity: int


class Tiles:
    """Tiles of one graph's operators; equal operators with equal boxes have equal ones."""

    def __init__(self, graph: Graph, machine: Machine, cells: Cells) -> None:
        self.graph = graph
        self.machine = machine
        self.cells = cells
        self.structures = graph.analysis(EquivalenceClasses)
        self._known: dict[tuple[object, ...], Tile | OperatorOverflow] = {}

    def segment(self, segment: Segment, caps: Mapping[str, int]) -> Segment | OperatorOverflow:
        """The segment with its tiles, or the first operator that has none; ``caps``: bytes that weights may use."""
        if not segment.tiles:
            return segment
        cells = all_cells(self.cells, segment)
        tiles: list[Tile] = []
        for name in segment.ops:
            op = self.graph.op[name]
            boxes = targets(cells, op)
            tile = self._tile(op, boxes, caps.get(name, self.machine.levels.weights.capacity))
            if isinstance(tile, OperatorOverflow):
                return replace(tile, op=name)
            tiles.append(replace(tile, op=name))
        return replace(segment, tiles=tuple(tiles))

    def _tile(self, op: Op, boxes: list[Box], cap: int) -> Tile | OperatorOverflow:
        if not boxes:
            return idle_tile(op, self.graph, contraction_engine(op, self.graph, self.machine))
        structure = self.structures.class_of[op.name]
        key = (structure, tuple(sorted(boxes)), cap)
        if key not in self._known:
            first = self.structures.representatives[structure]
            tries = (
                _Try(self.graph, self.machine, first, boxes, cap, versions, rule).tile()
                for rule in (PUBLISHED, UNEVEN)
                for versions in VERSIONS
            )
            self._known[key] = next((t for t in tries if t is not None), None) or self._smallest(first, boxes, cap)
        return self._known[key]

    def _smallest(self, op: Op, boxes: list[Box], cap: int) -> Tile | OperatorOverflow:
        """One element at a time, where no multiples of the array's columns and no parts fit."""
        engine = contraction_engine(op, self.graph, self.machine)
        capacities = (self.machine.levels.sums.capacity, cap)
        needs = smallest_tile_bytes(op, self.graph, self.machine, engine, boxes)
        for (level, need), capacity in zip(needs, capacities, strict=True):
            if need > capacity:
                return OperatorOverflow(op.name, level, need, capacity)
        return smallest_tile(op, self.graph, engine, largest(boxes))


class _Try:
    """The search for one operator's tile by a rule, with a number of versions."""

    def __init__(
        self, graph: Graph, machine: Machine, op: Op, boxes: list[Box], cap: int, versions: int, rule: CutRule
    ) -> None:
        self.graph, self.machine, self.op, self.cap, self.versions = graph, machine, op, cap, versions
        self.rule = rule
        self.boxes = boxes
        self.judged = [largest(boxes)]
        self.cost = OpCost(op, graph, machine)
        self.matrix = self.cost.contraction is not None
        self.columns, self.chosen = column_dims(op, graph, self.cost, self.judged[0])
        self.sizes = list(shape_of(self.judged[0]))
        self.reduce: list[int] = []
        if op.contraction is not None:
            points = op_boxes(op, graph.tensor, self.judged[0]).points[op.contraction]
            self.reduce = [points[a].size for a in contraction_axes(op.stages[op.contraction]).k]
        self.extents = (*self.sizes, *self.reduce)

    def tile(self) -> Tile | None:
        """The tile; ``None`` if the rule comes to none."""
        if not self._shrink():
            return None
        if len(self.boxes) > 1:
            # The largest cell decides, and where another one needs more, all of them.
            self.judged = self.boxes
            if not self._shrink():
                return None
        return self._tile()

    def _shrink(self) -> bool:
        unit = self.machine.engine_for("matrix").columns
        dims = range(len(self.sizes))
        chosen = [(self.sizes, d, unit if d in self.columns else 1) for d in dims if d in self.chosen]
        reduce = [(self.reduce, a, 1) for a in range(len(self.reduce))]
        outer = [(self.sizes, d, 1) for d in dims if d not in self.columns]
        narrow = [(self.sizes, d, 1) for d in sorted(self.columns)]
        if self.matrix and not self._cut([*chosen, *reduce, *narrow], self._weights_fit):
            return False
        return self._cut([*chosen, *outer, *narrow], self._scratch_fits)

    def _cut(self, loops: Iterable[tuple[list[int], int, int]], fits: Callable[[], bool]) -> bool:
        """Cut one loop after the other (a list of sizes, a position, a unit) to its largest part until it ``fits``."""
        if fits():
            return True
        for sizes, position, unit in loops:
            for size in self.rule.parts(sizes[position], unit):
                sizes[position] = size
                if self._count() > self.rule.most:
                    return False
                if fits():
                    return True
        return False

    def _count(self) -> int:
        """How many tiles all cells have, if all are as large as the largest, times the parts of the reduction."""
        return len(self.boxes) * prod(
            -(-e // s) for e, s in zip(self.extents, (*self.sizes, *self.reduce), strict=True)
        )

    def _tile(self) -> Tile:
        shape = shape_of(largest(self.boxes))
        cut = [d for d in sorted(self.chosen) if self.sizes[d] < shape[d]]
        order = (*cut, *(d for d in range(len(self.sizes)) if d not in cut))
        depth = self.versions if self.matrix and self.op.buffers else 1
        held = self.versions if self.matrix else 1
        sizes = (
            size if size == span.size else aligned_size(self.op, dim, size, span, [box[dim] for box in self.boxes])
            for dim, (size, span) in enumerate(zip(self.sizes, self.judged[0], strict=True))
        )
        return Tile(self.op.name, tuple(sizes), order, tuple(self.reduce), self.cost.engine, depth, held)

    def _weights_fit(self) -> bool:
        size = weight_size(self.graph, self.op, self._tile(), self.judged)
        return self.versions * round_up(size, self.machine.levels.weights.alignment) <= self.cap

    def _scratch_fits(self) -> bool:
        tile = self._tile()
        need = scratch_bytes(self.graph, self.machine, self.op, tile, self.judged).total(tile.depth)
        return need <= self.machine.levels.sums.capacity
