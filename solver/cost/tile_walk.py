"""The tile walk of one operator in one cell, as durations: what each engine does for each tile, in program order.

Tiles of the same shape that see the same padding take the same time, so a walk has a few timings and, for each tile,
the number of its own, the weight tiles that its reduce tiles want (as numbers: equal numbers are equal boxes), and how
far it reads into each of its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ...ir.box import Box, Span, full, is_empty, shape_of, volume
from ...ir.equivalence import EquivalenceClasses, tensor_names
from ...ir.graph import DTYPES, Graph, Op
from ...ir.machine import Machine, Memory
from ...ir.plan import Tile
from ...ir.semantics.box_arrays import Boxes, Int, beyond_many, op_boxes_many, stationary_walk, tile_walk
from ...ir.semantics.cell import Cell, tile_boxes
from ...ir.semantics.region import beyond
from .copy_time import CopyTime, Transfers
from .instructions import EngineTime, StageBuffers
from .operator import refused_by_name
from .scratch import tile_rooms
from .staged_run import Operand, StagedRun
from .staging_time import matrix_time, vector_time
from .team.waits import TeamShares, TeamWaits
from .transfers import Copies


@dataclass(frozen=True)
class Work:
    """Instructions for a stage of a tile: busy cycles of the engine, and bytes that memories serve for each operand.

    ``unlimited``: busy cycles if banks served all that is asked of them.

    An operand is named by its position among the operator's :func:`~girih.ir.equivalence.tensor_names`. ``staged``:
    the instructions with the copies of their operands, where some are staged; nothing of these is served where it lies.
    """

    busy: int
    traffic: tuple[tuple[int, float], ...]
    unlimited: int
    staged: tuple[StagedRun, ...] = ()

    @cached_property
    def returned(self) -> frozenset[Operand]:
        """What is copied back from staging memories."""
        return frozenset(copy.operand for part in self.staged for copy in part.copies if copy.back)

    @cached_property
    def direct(self) -> tuple[int, ...]:
        """What the engine takes from where it lies."""
        copied = {copy.operand for part in self.staged for copy in part.copies}
        return tuple(operand for operand, _ in self.traffic if operand not in copied)

    @staticmethod
    def from_run(run: EngineTime, op: Op) -> Work:
        position = {name: number for number, name in enumerate(tensor_names(op))}
        elsewhere = {copy.operand for part in run.staged for copy in part.copies}
        traffic = ((position[tensor], 0.0 if tensor in elsewhere else served) for tensor, served in run.traffic)
        return Work(run.busy, tuple(traffic), run.unlimited, tuple(part.numbered(position) for part in run.staged))


@dataclass(frozen=True)
class TileTiming:
    """Busy cycles for one tile: vector stages before the contraction, each reduce tile, vector stages after it.

    Those after it fall into ``drain``, up to the last that reads the contraction's result, and ``finish``. Without a
    matrix engine all is ``finish``. ``products`` and ``stages`` are what the engines do for it; of the stages, those
    up to ``parts[0]`` are before the contraction, and those up to ``parts[1]`` drain it. ``shares``: of the engines
    that share vector instructions, where there are several; what they wait for each other is in the busy cycles.
    """

    before: int
    matrix: tuple[int, ...]
    drain: int
    finish: int
    products: tuple[Work, ...]
    stages: tuple[Work, ...]
    parts: tuple[int, int]
    shares: TeamShares | None = field(default=None, compare=False)

    @property
    def vector(self) -> int:
        return self.before + self.drain + self.finish


@dataclass(frozen=True)
class TileWalk:
    """All tiles of an operator in a cell.

    Boxes are relative to the corner of what the cell has of their tensor; ``box`` is that of the result. ``timing[i]``
    indexes ``timings``. ``weights[i][r]`` numbers the weight tile of reduce tile r of tile i (empty without weights);
    ``loads[w]`` is the copy of weight tile w, ``boxes[w]`` its box. ``reads`` gives for each input, tile by tile, the
    box that is read.
    """

    box: Box
    tile: Tile
    timings: tuple[TileTiming, ...]
    timing: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    loads: tuple[CopyTime, ...]
    boxes: tuple[Box, ...]
    reads: dict[str, Boxes]

    def __len__(self) -> int:
        return len(self.timing)

    @cached_property
    def matrix_cycles(self) -> int:
        """Busy cycles of the matrix engine."""
        return sum(sum(self.timings[k].matrix) for k in self.timing)

    @cached_property
    def vector_cycles(self) -> int:
        """Busy cycles of the vector engine."""
        return sum(self.timings[k].vector for k in self.timing)

    def last_tiles_read(self, tensor: str, producer: TileWalk) -> list[int]:
        """For each tile, the last tile of the tensor's ``producer`` that it reads (-1: none)."""
        boxes = self.reads[tensor]
        last = last_tiles(boxes.spans, producer.box, producer.tile.sizes, producer.tile.order)
        return np.where(boxes.present, last, -1).tolist()

    def reads_tile_by_tile(self, tensor: str, producer: TileWalk) -> bool:
        """Whether each tile reads of a tensor all that the ``producer``'s tile of the same number has made, no more."""
        boxes = self.reads.get(tensor)
        if boxes is None or len(self) != len(producer):
            return False
        producer_tiles = tile_walk(producer.box, producer.tile.sizes, producer.tile.order)
        return bool(boxes.present.all()) and np.array_equal(boxes.spans, producer_tiles.spans)


def last_tile(read: Box, box: Box, sizes: Sequence[int], order: Sequence[int]) -> int:
    """The number of the last tile of ``box``, walked in ``order``, that a reader of ``read`` needs."""
    last, stride = 0, 1
    for dim in reversed(order):
        lo, hi = box[dim]
        last += max(min(read[dim].hi, hi) - 1 - lo, 0) // sizes[dim] * stride
        stride *= -(-(hi - lo) // sizes[dim])
    return last


def last_tiles(spans: Int, box: Box, sizes: Sequence[int], order: Sequence[int]) -> Int:
    """The same for many boxes at once: ``spans[i]`` (dimensions x (lo, hi)) is read."""
    last = np.zeros(len(spans), dtype=np.int64)
    stride = 1
    for dim in reversed(order):
        highest = np.minimum(spans[:, dim, 1], box[dim].hi) - 1 - box[dim].lo
        last += np.maximum(highest, 0) // sizes[dim] * stride
        stride *= -(-box[dim].size // sizes[dim])
    return last


class TileWalks:
    """TileWalks of one graph on one machine, remembered by everything that decides their durations."""

    def __init__(self, graph: Graph, machine: Machine) -> None:
        self.graph = graph
        self.machine = machine
        self.transfers = Transfers(machine)
        self.copies = Copies(self.transfers)
        self._structures = graph.analysis(EquivalenceClasses).class_of
        self._known: dict[tuple[object, ...], tuple[Op, TileWalk]] = {}
        self._renamed: dict[tuple[int, str], TileWalk] = {}
        self._last_tiles: dict[tuple[int, Box, tuple[int, ...], tuple[int, ...]], tuple[Boxes, list[int]]] = {}
        self._last_portions: dict[tuple[int, tuple[int, ...], tuple[int, ...]], tuple[Boxes, Int]] = {}

    def walk(self, op: Op, tile: Tile, cell: Cell) -> TileWalk:
        """The walk of ``op`` (which must run in ``cell``); equal operators share it, but for the names in it."""
        box = cell.ops[op.name].tensors[op.output]
        shape = self.graph.tensor[op.output].shape
        key = (
            self._structures[op.name],
            (tile.sizes, tile.order, tile.reduce, tile.engine),
            tuple((s.size, s.lo == 0, s.hi == extent) for s, extent in zip(box, shape, strict=True)),
            tuple(shape_of(cell.allocated(n)) for n in (*op.inputs, op.output) if n in cell.tensors),
            _offsets(op, cell),
            cell.ops[op.name].idle,
            beyond(op, cell.ops[op.name].points, _bounds(op, cell)),
        )
        if key not in self._known:
            with refused_by_name(op):
                self._known[key] = op, self._walk(op, tile, cell, box)
        first, walk = self._known[key]
        if first is op:
            return walk
        renamed_key = (id(walk), op.name)
        if renamed_key not in self._renamed:
            name = dict(zip(tensor_names(first), tensor_names(op), strict=True))
            self._renamed[renamed_key] = replace(walk, reads={name[n]: boxes for n, boxes in walk.reads.items()})
        return self._renamed[renamed_key]

    def last_tiles_read(self, walk: TileWalk, tensor: str, producer: TileWalk) -> list[int]:
        """See :meth:`TileWalk.last_tiles_read`."""
        # TileWalks of equal operators share their boxes, which live as long as the answer.
        boxes, tile = walk.reads[tensor], producer.tile
        key = (id(boxes), producer.box, tile.sizes, tile.order)
        if key not in self._last_tiles:
            self._last_tiles[key] = boxes, walk.last_tiles_read(tensor, producer)
        return self._last_tiles[key][1]

    def last_portions_read(self, walk: TileWalk, tensor: str, box: Box, extents: tuple[int, ...]) -> Int:
        """For each tile of ``walk``, the last portion that it reads (-1: none) of ``box``, what a cell loads."""
        boxes = walk.reads[tensor]
        key = (id(boxes), shape_of(box), extents)
        if key not in self._last_portions:
            last = last_tiles(boxes.spans, full(shape_of(box)), extents, range(len(box)))
            self._last_portions[key] = boxes, np.where(boxes.present, last, -1)
        return self._last_portions[key][1]

    def _walk(self, op: Op, tile: Tile, cell: Cell, box: Box) -> TileWalk:
        tiles = tile_walk(box, tile.sizes, tile.order)
        points, tensors = op_boxes_many(op, self.graph.tensor, tiles)
        for stage in cell.ops[op.name].idle:
            points[stage] = Boxes(points[stage].spans, np.zeros(len(tiles), dtype=np.bool_))
        buffer_boxes = {b.name: tensors[b.name] for b in op.buffers if b.name in tensors}
        # Windows at a border see less, and other parts of a kernel at each of them.
        beside = beyond_many(op, points, _bounds(op, cell) | buffer_boxes)
        kinds = [*(p.sizes for p in points), *(b.sizes for b in buffer_boxes.values()), beside]
        _, firsts, timing = np.unique(np.concatenate(kinds, axis=1), axis=0, return_index=True, return_inverse=True)
        matrix = tile.engine == "matrix" and op.contraction is not None
        timings = tuple(self._timing(op, tile if matrix else None, cell, points, tensors, i) for i in firsts.tolist())
        weights: tuple[tuple[int, ...], ...] = ()
        loads: tuple[CopyTime, ...] = ()
        boxes: tuple[Box, ...] = ()
        if matrix:
            weights, loads, boxes = self._weights(op, tile, cell, points)
        reads = {n: _relative(tensors[n], cell.tensors[n]) for n in op.inputs if n in tensors and n in cell.tensors}
        inside = _inside(box, cell.tensors[op.output])
        return TileWalk(inside, tile, timings, tuple(timing.reshape(-1).tolist()), weights, loads, boxes, reads)

    def _layout(self, op: Op, cell: Cell, parts: dict[str, Box]) -> dict[str, tuple[Box, str, Memory]]:
        """Private buffers hold the tile's part, graph tensors the cell's."""
        sums, local = self.machine.levels.sums.memory, self.machine.levels.activations.memory
        layout = {b.name: (parts[b.name], b.dtype, sums) for b in op.buffers if b.name in parts}
        for name in (*op.inputs, *op.outputs):
            if name in cell.tensors:
                layout[name] = (cell.allocated(name), self.graph.tensor[name].dtype, local)
        return layout

    def _timing(
        self, op: Op, tile: Tile | None, cell: Cell, points: list[Boxes], tensors: dict[str, Boxes], index: int
    ) -> TileTiming:
        """Durations of tile ``index``; ``tile`` is given if the matrix engine runs the contraction."""
        parts = {name: boxes.box(index) for name, boxes in tensors.items() if boxes.present[index]}
        layout = self._layout(op, cell, parts)
        vector = self.machine.shared_engine("vector")
        before = drain = finish = first = drained = 0
        result = op.stages[op.contraction].write.tensor if tile is not None and op.contraction is not None else ""
        matrix: list[EngineTime] = []
        stages: list[Work] = []
        waits = self._team_waits(op, tile, layout) if vector.count > 1 else None
        for position, stage in enumerate(op.stages):
            stage_points = points[position].box(index)
            if is_empty(stage_points):
                continue
            if tile is not None and position == op.contraction:
                matrix = self._matrix(op, tile, stage_points, layout, parts)
                continue
            run = vector_time(self.machine, vector, stage, stage_points, layout, result, shaped=waits is not None)
            if waits is not None:
                run = replace(run, busy=waits.run(run.shapes, run.busy), shapes=())
            stages.append(Work.from_run(run, op))
            if tile is not None and not matrix:
                before += run.busy
                first = drained = len(stages)
                continue
            finish += run.busy
            if any(read.tensor == result for read in stage.reads):
                drain, finish = drain + finish, 0
                drained = len(stages)
        products = tuple(Work.from_run(run, op) for run in matrix)
        busy = tuple(r.busy for r in matrix)
        shares = waits.shares(op) if waits is not None else None
        return TileTiming(before, busy, drain, finish, products, tuple(stages), (first, drained), shares)

    def _team_waits(self, op: Op, tile: Tile | None, layout: StageBuffers) -> TeamWaits:
        """Follows the instructions of one tile on engines that share them."""
        vector = self.machine.shared_engine("vector")
        lanes = {name: (vector.lanes or {}).get(dtype, 1) for name, (_, dtype, _) in layout.items()}
        items = {name: DTYPES[dtype] for name, (_, dtype, _) in layout.items()}
        largest = {b.name: volume(layout[b.name][0]) * items[b.name] for b in op.buffers if b.name in layout}
        alignment = self.machine.levels.sums.memory.alignment
        groups = tile_rooms(op, "vector" if tile is None else "matrix", largest, alignment).shared
        rooms = {name: number for number, group in enumerate(groups) for name in group if name in layout}
        return TeamWaits(vector, lanes, items, rooms)

    def _matrix(self, op: Op, tile: Tile, points: Box, layout: StageBuffers, parts: dict[str, Box]) -> list[EngineTime]:
        """One run of the matrix engine for each reduce tile; the stationary operand lies dense in weight memory."""
        assert op.contraction is not None
        stage = op.stages[op.contraction]
        engine = self.machine.shared_engine("matrix")
        left, right = (r.tensor for r in stage.factors)
        dtype = layout[left][1] if left in layout else self.graph.tensor[left].dtype
        if right in parts and right != left:
            layout = {**layout, right: (parts[right], dtype, self.machine.levels.weights.memory)}
        axes = [a for a, axis in enumerate(stage.axes) if axis.reduce]
        extents = tuple(points[a] for a in axes)
        runs: list[EngineTime] = []
        known: dict[tuple[bool, Box | tuple[int, ...]], EngineTime] = {}
        for cut in tile_boxes(extents, tile.reduce, tuple(range(len(axes)))):
            # What a position of the kernel finds beside the padding depends on where it is; it may be nothing.
            started = any(run.instructions for run in runs)
            kind = started, shape_of(cut) if stage.factors[0].fill is None else cut
            if kind not in known:
                spans = list(points)
                for axis, span in zip(axes, cut, strict=True):
                    spans[axis] = span
                known[kind] = matrix_time(self.machine, engine, stage, tuple(spans), layout, dtype, accumulates=started)
            runs.append(known[kind])
        return runs

    def _weights(
        self, op: Op, tile: Tile, cell: Cell, points: list[Boxes]
    ) -> tuple[tuple[tuple[int, ...], ...], tuple[CopyTime, ...], tuple[Box, ...]]:
        """Which weight tile each (tile, reduce tile) wants, and the copy and the box of each."""
        assert op.contraction is not None
        name = op.stationary
        weight_tiles = stationary_walk(op, self.graph.tensor, points[op.contraction], tile.reduce)
        corners = weight_tiles.spans.reshape(len(weight_tiles), -1)
        _, firsts, keys = np.unique(corners, axis=0, return_index=True, return_inverse=True)
        constant = name in self.graph.constant_names
        tensor = self.graph.tensor[name]
        source = full(tensor.shape) if constant else cell.allocated(name)
        levels = self.machine.levels
        way = (levels.source_of(constant=True) if constant else levels.activations, levels.weights)
        boxes = [weight_tiles.box(i) for i in firsts.tolist()]
        loads = tuple(self.transfers.transfer(way, box, (source, box), tensor.dtype) for box in boxes)
        rows = keys.reshape(len(points[op.contraction]), -1).tolist()
        inside = tuple(_inside(box, cell.tensors[name]) for box in boxes)
        return tuple(tuple(row) for row in rows), loads, inside


def _bounds(op: Op, cell: Cell) -> dict[str, Box]:
    """Where reads of the operator find something: what the cell holds of its tensors and of its private buffers."""
    parts = cell.ops[op.name].tensors
    held = {n: cell.allocated(n) for n in (*op.inputs, *op.outputs) if n in cell.tensors}
    return held | {b.name: parts[b.name] for b in op.buffers if b.name in parts}


def _offsets(op: Op, cell: Cell) -> tuple[tuple[int, ...], ...]:
    """Where what the operator itself needs begins in the cell's boxes."""
    parts = cell.ops[op.name].tensors
    return tuple(
        tuple(a.lo - b.lo for a, b in zip(parts[n], cell.allocated(n), strict=True))
        for n in (*op.inputs, op.output)
        if n in parts and n in cell.tensors
    )


def _inside(box: Box, outer: Box) -> Box:
    """``box`` counted from the corner of ``outer``."""
    return tuple(Span(a.lo - b.lo, a.hi - b.lo) for a, b in zip(box, outer, strict=True))


def _relative(boxes: Boxes, origin: Box) -> Boxes:
    lows = np.array([span.lo for span in origin], dtype=np.int64).reshape(1, -1, 1)
    return Boxes(boxes.spans - lows, boxes.present)
