"""What a plan's splits mean: the boxes that one core computes in one instance (sub-batch) of a segment.

The splits of a segment cut the output of its last operator (the root) into disjoint shards, one for each cell
(instance, core). Going backwards, each operator of the segment computes the hull of what its consumers in the
segment need of it and, if its result leaves the segment, of the cell's shard of that result. Overlaps between cells
(halos) are computed by each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from ..box import Box, Span, full, hull, is_empty, part, volume
from ..equivalence import EquivalenceClasses, Signature
from ..graph import Graph, Op
from ..plan import Segment, Split
from .concat_aliasing import allocation_extents, concat_aliases, elided_stages
from .in_place import replaced
from .region import OpBoxes, op_boxes

BoxInBuffer = tuple[Box, Box]
"""A box of a tensor, and the box that the buffer holds in which it lies."""


@dataclass(frozen=True)
class Cell:
    """The part of one core in one instance of a segment.

    ``ops``: by operator name, the points and boxes it computes (absent: it does nothing here). ``tensors``: by graph
    tensor, the hull of what the cell's operators read and write, or that of the input that it may replace (see
    :func:`girih.ir.semantics.in_place.replaced`): what its local buffer has room for, row-major. ``owned``: for each
    result that leaves the segment, the shard that this cell stores; shards of different cells are disjoint.
    ``extents``: of each tensor whose buffer holds aliases (see :mod:`girih.ir.semantics.concat_aliasing`), and of
    these, the box that the buffer holds; stages of ``ops`` that would copy an alias have no points.
    """

    ops: Mapping[str, OpBoxes]
    tensors: Mapping[str, Box]
    owned: Mapping[str, Box]
    extents: Mapping[str, Box] = field(default_factory=dict[str, Box])

    def allocated(self, name: str) -> Box:
        """The box that the local buffer of a tensor holds, row-major, in the tensor's own index space."""
        return self.extents[name] if name in self.extents else self.tensors[name]

    def loaded(self, name: str) -> BoxInBuffer | None:
        """The box of a tensor that the cell wants, in what its local buffer holds; ``None`` if it wants nothing."""
        return (self.tensors[name], self.allocated(name)) if name in self.tensors else None

    @cached_property
    def weight(self) -> int:
        """How much there is to do, roughly: points and elements; for telling which cell is the busiest."""
        elements = sum(volume(box) for box in self.tensors.values())
        return elements + sum(volume(points) for boxes in self.ops.values() for points in boxes.points)


def count(splits: tuple[Split, ...]) -> int:
    """How many parts the splits make together."""
    return prod(s.parts for s in splits)


def _digits(splits: tuple[Split, ...], index: int) -> list[int]:
    """The row-major coordinates of part ``index``."""
    digits: list[int] = []
    for split in reversed(splits):
        index, digit = divmod(index, split.parts)
        digits.append(digit)
    return digits[::-1]


def shard(
    shape: tuple[int, ...], segment: Segment, instance: int, core: int, dims: Mapping[int, int | None]
) -> Box | None:
    """The shard of one cell in a tensor whose dimension ``dims[d]`` follows the root's dimension ``d``; ``None`` if the
    cell has none of it.

    Where a split has no dimension to follow, part 0 owns everything. (A tensor without dimensions has no empty box.)
    """
    box = list(full(shape))
    coordinates = [
        *zip(segment.instances, _digits(segment.instances, instance), strict=True),
        *zip(segment.cores, _digits(segment.cores, core), strict=True),
    ]
    for split, digit in coordinates:
        dim = dims.get(split.dim)
        if dim is None:
            if digit:
                return None
            continue
        inner = part(box[dim].size, split.parts, digit)
        box[dim] = Span(box[dim].lo + inner.lo, box[dim].lo + inner.hi)
    return None if is_empty(tuple(box)) else tuple(box)


def leaving(graph: Graph, ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """The operators whose result is read outside of ``ops`` or is an output of the graph."""
    names = {op.name for op in ops}
    return tuple(
        op
        for op in ops
        if op.output in graph.output_tensors or any(c.name not in names for c in graph.consumers[op.output])
    )


class OpBoxesCache:
    """What boxes of results need, each found once: segments that differ in length alone ask for the same."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._known: dict[tuple[str, Box], OpBoxes] = {}

    def boxes(self, op: Op, target: Box) -> OpBoxes:
        key = (op.name, target)
        if key not in self._known:
            self._known[key] = op_boxes(op, self.graph.tensor, target)
        return self._known[key]


def followed_dims(parts: OpBoxesCache, ops: tuple[Op, ...]) -> dict[str, dict[int, int | None]]:
    """For each operator, the dimension of its result that shrinks when a dimension of the root's result is halved.

    The first such dimension that no other dimension of the root already took; ``None`` where none shrinks. ``parts``
    remembers what was asked for, for other runs of the same graph.
    """
    graph, root = parts.graph, ops[-1]
    shape = graph.tensor[root.output].shape
    dims_of: dict[str, dict[int, int | None]] = {op.name: {} for op in ops}
    dims_of[root.name] = {d: d for d in range(len(shape))}
    for d, extent in enumerate(shape):
        half = list(full(shape))
        half[d] = part(extent, 2, 0) if extent > 1 else Span(0, 1)
        boxes = _backwards(parts, ops, {root.name: tuple(half)})
        for op in ops[:-1]:
            needed = boxes.get(op.name)
            whole = graph.tensor[op.output].shape
            used_dims = set(dims_of[op.name].values())
            dims = [
                i
                for i, w in enumerate(whole)
                if needed is not None and extent > 1 and needed.tensors[op.output][i].size < w and i not in used_dims
            ]
            dims_of[op.name][d] = dims[0] if dims else None
    return dims_of


def _backwards(parts: OpBoxesCache, ops: tuple[Op, ...], shares: Mapping[str, Box]) -> dict[str, OpBoxes]:
    """The boxes of each operator that ``shares`` (by operator name) and their ancestors in ``ops`` need."""
    wanted: dict[str, Box] = {}
    boxes: dict[str, OpBoxes] = {}
    for op in reversed(ops):
        target = hull(wanted.get(op.output), shares.get(op.name))
        if target is None or is_empty(target):
            continue
        boxes[op.name] = parts.boxes(op, target)
        for name in op.inputs:
            merged = hull(wanted.get(name), boxes[op.name].tensors.get(name))
            if merged is not None:
                wanted[name] = merged
    return boxes


@dataclass(frozen=True)
class OperatorRun:
    """The operators of a segment: a number for their structure, and the names of operators and tensors in it."""

    class_number: int
    ops: tuple[str, ...]
    tensors: tuple[str, ...]


_Cut = tuple[tuple[Split, ...], tuple[Split, ...], int, int]
_Key = tuple[tuple[str, ...], tuple[str, ...], *_Cut]
_ClassKey = tuple[int, tuple[int, ...], *_Cut]
_Row = tuple[tuple[Split, ...], tuple[Split, ...], int]
_RowKey = tuple[tuple[str, ...], tuple[str, ...], *_Row]
_ClassRowKey = tuple[int, tuple[int, ...], *_Row]


class Cells:
    """All cells of a graph's segments, computed on demand and remembered.

    A cell is independent of how its operators are tiled, so segments that differ in tiles alone share cells. Cells of
    segments of equal structure differ in names alone; they are computed once.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.classes = graph.analysis(EquivalenceClasses)
        self._parts = OpBoxesCache(graph)
        self._numbers: dict[Signature, int] = {}
        self._runs: dict[tuple[str, ...], OperatorRun] = {}
        self._dims: dict[int, tuple[OperatorRun, dict[str, dict[int, int | None]]]] = {}
        self._by_class: dict[_ClassKey, tuple[OperatorRun, Cell]] = {}
        self._cells: dict[_Key, Cell] = {}
        self._rows: dict[_RowKey, tuple[Cell, ...]] = {}
        self._busiest: dict[_ClassRowKey, int] = {}

    def row(self, segment: Segment, instance: int) -> tuple[Cell, ...]:
        """The cells of all cores that ``segment`` uses, in one of its instances."""
        key = (segment.ops, segment.aliased, segment.instances, segment.cores, instance)
        if key not in self._rows:
            self._rows[key] = tuple(self.cell(segment, instance, core) for core in range(count(segment.cores)))
        return self._rows[key]

    def busiest(self, segment: Segment, instance: int) -> Cell:
        """That of them with the most to do, the first if there are several; equal segments have it on the same core."""
        row = self.row(segment, instance)
        number, inside = self._class_key(segment)
        alike = (number, inside, segment.instances, segment.cores, instance)
        if alike not in self._busiest:
            self._busiest[alike] = max(range(len(row)), key=lambda core: row[core].weight)
        return row[self._busiest[alike]]

    def _class_key(self, segment: Segment) -> tuple[int, tuple[int, ...]]:
        """The structure of a segment: of its run, and which of the tensors in it lie inside of others."""
        run = self.run(segment.ops)
        return run.class_number, tuple(run.tensors.index(name) for name in segment.aliased)

    def cell(self, segment: Segment, instance: int, core: int) -> Cell:
        """The cell of ``core`` in ``instance`` of ``segment``; empty for a core that the splits do not use."""
        cut = (segment.instances, segment.cores, instance, core)
        key = (segment.ops, segment.aliased, *cut)
        if key not in self._cells:
            run = self.run(segment.ops)
            alike = (*self._class_key(segment), *cut)
            if alike not in self._by_class:
                self._by_class[alike] = run, self._compute(segment, instance, core)
            first, cell = self._by_class[alike]
            self._cells[key] = cell if first is run else _renamed(cell, first, run)
        return self._cells[key]

    def run(self, ops: tuple[str, ...]) -> OperatorRun:
        """The structure of a run of operators, and the names in it."""
        if ops not in self._runs:
            structure, tensors = self.classes.run_signature([self.graph.op[n] for n in ops])
            self._runs[ops] = OperatorRun(self._numbers.setdefault(structure, len(self._numbers)), ops, tensors)
        return self._runs[ops]

    def followed(self, ops: tuple[str, ...]) -> dict[str, dict[int, int | None]]:
        """See :func:`followed_dims`."""
        run = self.run(ops)
        if run.class_number not in self._dims:
            self._dims[run.class_number] = run, followed_dims(self._parts, tuple(self.graph.op[n] for n in ops))
        first, dims = self._dims[run.class_number]
        return {name: dims[equivalent] for name, equivalent in zip(ops, first.ops, strict=True)}

    def _compute(self, segment: Segment, instance: int, core: int) -> Cell:
        graph = self.graph
        ops = tuple(graph.op[n] for n in segment.ops)
        if core >= count(segment.cores) or ops[0].host is not None:
            return Cell({}, {}, {})
        dims = self.followed(segment.ops)
        shares = {
            op.name: shard(graph.tensor[op.output].shape, segment, instance, core, dims[op.name])
            for op in dict.fromkeys((*leaving(graph, ops), ops[-1]))
        }
        boxes = _backwards(self._parts, ops, {name: box for name, box in shares.items() if box is not None})
        tensors: dict[str, Box] = {}
        for op in ops:
            if op.name not in boxes:
                continue
            for name in (*op.inputs, op.output):
                merged = hull(tensors.get(name), boxes[op.name].tensors.get(name))
                if merged is not None and not is_empty(merged):
                    tensors[name] = merged
        parts = concat_aliases(graph, segment)
        for name, old in replaced(graph, ops, parts).items():
            if name in tensors:
                tensors[name] = tensors[old]
        owned = {graph.op[name].output: box for name, box in shares.items() if box is not None}
        for op in ops:
            copies = elided_stages(op, parts)
            if copies and op.name in boxes:
                boxes[op.name] = without(boxes[op.name], copies)
        return Cell(boxes, tensors, owned, allocation_extents(parts, tensors))


def without(boxes: OpBoxes, stages: Collection[int]) -> OpBoxes:
    """The same part of an operator, in which these stages do nothing."""
    points = tuple(tuple(Span(0, 0) for _ in p) if i in stages else p for i, p in enumerate(boxes.points))
    return replace(boxes, points=points)


def _renamed(cell: Cell, old: OperatorRun, new: OperatorRun) -> Cell:
    """The same cell in another run of equal structure."""
    op = dict(zip(old.ops, new.ops, strict=True))
    tensor = dict(zip(old.tensors, new.tensors, strict=True))
    return Cell(
        {
            op[name]: OpBoxes(part.points, {tensor[n]: box for n, box in part.tensors.items()})
            for name, part in cell.ops.items()
        },
        {tensor[n]: box for n, box in cell.tensors.items()},
        {tensor[n]: box for n, box in cell.owned.items()},
        {tensor[n]: box for n, box in cell.extents.items()},
    )


def tile_boxes(box: Box, sizes: tuple[int, ...], order: tuple[int, ...]) -> list[Box]:
    """The tiles of ``box`` in the order of the tile loops (``order``: outermost dimension first)."""
    tiles: list[Box] = [box]
    for dim in order:
        tiles = [
            (*tile[:dim], Span(lo, min(lo + sizes[dim], tile[dim].hi)), *tile[dim + 1 :])
            for tile in tiles
            for lo in range(tile[dim].lo, tile[dim].hi, sizes[dim])
        ]
    return tiles
