"""Tile sizes: the largest divisors that fit, of the outermost loops first (Zhao et al., section on kernel generation).

The paper tiles the two outermost parallel loops of a layer's anchor (a convolution or matrix product, else its last
element-wise stage) with the largest divisors that fit. Loads of weights are hoisted, so the loops that choose the
stationary operand are the outermost. They are cut, in multiples of the matrix engine's columns, until two tiles of
weights fit (where that is not enough, the reduction is cut), and with the loops after them until two versions of the
private buffers fit. Only where two loops are not enough are more of them cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

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
from ...cost.smallest_tile import smallest_tile, smallest_tile_bytes
from ...tiling.candidates import column_dims
from ...tiling.solve import largest
from .binding import divisors

VERSIONS = (2, 1)
"""Of private buffers and of weights: two, so that consecutive tiles overlap; one where two do not fit."""


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
        structure = self.structures.class_of[op.name]
        key = (structure, tuple(sorted(boxes)), cap)
        if key not in self._known:
            first = self.structures.representatives[structure]
            tries = (_Try(self.graph, self.machine, first, boxes, cap, versions).tile() for versions in VERSIONS)
            self._known[key] = next((t for t in tries if t is not None), None) or self._smallest(first, boxes, cap)
        return self._known[key]

    def _smallest(self, op: Op, boxes: list[Box], cap: int) -> Tile | OperatorOverflow:
        """One element at a time, where no multiples of the array's columns and no divisors fit."""
        engine = contraction_engine(op, self.graph, self.machine)
        capacities = (self.machine.levels.sums.capacity, cap)
        needs = smallest_tile_bytes(op, self.graph, self.machine, engine, boxes)
        for (level, need), capacity in zip(needs, capacities, strict=True):
            if need > capacity:
                return OperatorOverflow(op.name, level, need, capacity)
        return smallest_tile(op, self.graph, engine, largest(boxes))


class _Try:
    """The search for one operator's tile, with a number of versions."""

    def __init__(self, graph: Graph, machine: Machine, op: Op, boxes: list[Box], cap: int, versions: int) -> None:
        self.graph, self.machine, self.op, self.cap, self.versions = graph, machine, op, cap, versions
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

    def tile(self) -> Tile | None:
        """The tile; ``None`` if not even the smallest fits."""
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
        if self.matrix and not _cut([*chosen, *reduce, *narrow], self._weights_fit):
            return False
        return _cut([*chosen, *outer, *narrow], self._scratch_fits)

    def _tile(self) -> Tile:
        shape = shape_of(largest(self.boxes))
        cut = [d for d in sorted(self.chosen) if self.sizes[d] < shape[d]]
        order = (*cut, *(d for d in range(len(self.sizes)) if d not in cut))
        depth = self.versions if self.matrix and self.op.buffers else 1
        held = self.versions if self.matrix else 1
        sizes = (
            size if size == extent else aligned_size(self.op, dim, size)
            for dim, (size, extent) in enumerate(zip(self.sizes, shape_of(self.judged[0]), strict=True))
        )
        return Tile(self.op.name, tuple(sizes), order, tuple(self.reduce), self.cost.engine, depth, held)

    def _weights_fit(self) -> bool:
        size = weight_size(self.graph, self.op, self._tile(), self.judged)
        return self.versions * round_up(size, self.machine.levels.weights.alignment) <= self.cap

    def _scratch_fits(self) -> bool:
        tile = self._tile()
        need = scratch_bytes(self.graph, self.machine, self.op, tile, self.judged).total(tile.depth)
        return need <= self.machine.levels.sums.capacity


def _cut(loops: Iterable[tuple[list[int], int, int]], fits: Callable[[], bool]) -> bool:
    """Cut one loop after the other (a list of sizes, a position, a unit) to its largest divisor until it ``fits``."""
    if fits():
        return True
    for sizes, position, unit in loops:
        for size in _parts(sizes[position], unit)[1:]:
            sizes[position] = size
            if fits():
                return True
    return False


def _parts(extent: int, unit: int) -> Sequence[int]:
    """The extent and its divisors, the largest first; only multiples of the unit."""
    return [extent, *(d for d in divisors(extent)[1:] if d % unit == 0)]
