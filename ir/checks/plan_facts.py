"""What a plan implies, without judging it: slots, cells, who makes and who reads what when.

Slots count the operators of the steps, in order. A *made* box is the share of a result that one cell stores in the
shared memory; a *read* is a box that one cell needs there, in the slot whose load or tile walk brings it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..box import Box, Span, volume
from ..graph import DTYPES, Graph, Op
from ..machine import Machine
from ..plan import LocalBuffer, Plan, Segment, Step, Tile, TileCut
from ..semantics.box_arrays import Boxes, Int, concatenate, op_boxes_many, stationary_walk, tile_walk
from ..semantics.cell import Cell, Cells, count, leaving
from ..semantics.region import not_followed
from ..semantics.row_stream import is_ring, row_stream

_BATCH = 1 << 16
"""Tiles whose boxes are found at once."""


@dataclass(frozen=True)
class Stored:
    """The share of a result that ``core`` stores in ``slot``."""

    step: int
    slot: int
    core: int
    box: Box


@dataclass(frozen=True)
class Loaded:
    """A box that ``core`` needs in ``slot``."""

    step: int
    slot: int
    core: int
    box: Box


@dataclass(frozen=True)
class Stream:
    """The tiles of a constant that ``core`` brings straight to its weight memory for ``slot``, none before ``since``.

    Tile ``i`` is needed at step ``when[i]`` of the walk, which all cores take together.
    """

    step: int
    since: int
    slot: int
    core: int
    tiles: Boxes
    when: Int


class Geometry:
    """What parts of a graph's operators need, computed on demand; it is the same in every plan of the graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.cells = Cells(graph)
        self._scratch: dict[tuple[int, TileCut, tuple[Box, ...]], tuple[int, ...]] = {}
        self._weights: dict[tuple[int, TileCut, tuple[Box, ...]], int] = {}
        self._streams: dict[tuple[int, TileCut, Box], tuple[Boxes, Int]] = {}
        self._free: dict[int, frozenset[int]] = {}
        self._spans: dict[str, dict[str, tuple[int, int]]] = {}

    def stage_spans(self, op: Op) -> Mapping[str, tuple[int, int]]:
        """The first and the last stage of ``op`` that touches each of its private buffers."""
        # Equal operators have buffers of other names, so they do not share the answer.
        if op.name not in self._spans:
            buffers = {b.name for b in op.buffers}
            spans: dict[str, tuple[int, int]] = {}
            for position, stage in enumerate(op.stages):
                for access in (stage.write, *stage.reads):
                    if access.tensor in buffers:
                        spans[access.tensor] = spans.get(access.tensor, (position, position))[0], position
            self._spans[op.name] = spans
        return self._spans[op.name]

    def scratch(self, op: Op, tile: Tile, boxes: Sequence[Box]) -> tuple[int, ...]:
        """Bytes of the largest tile of each private buffer, where the operator makes these boxes of its result."""
        # Equal operators under equal tiles need as much.
        key = (self.cells.classes.class_of[op.name], tile.cut, tuple(boxes))
        if key not in self._scratch:
            most = dict.fromkeys((b.name for b in op.buffers), 0)
            for batch in _batches(tile_walk(box, tile.sizes, tile.order) for box in boxes):
                _, parts = op_boxes_many(op, self.graph.tensor, batch)
                for buffer in op.buffers:
                    if buffer.name in parts:
                        size = int(parts[buffer.name].volumes.max()) * DTYPES[buffer.dtype]
                        most[buffer.name] = max(most[buffer.name], size)
            self._scratch[key] = tuple(most.values())
        return self._scratch[key]

    def weights(self, op: Op, tile: Tile, boxes: Sequence[Box]) -> int:
        """Elements of the largest tile of the stationary operand in the walks over these boxes of the result."""
        key = (self.cells.classes.class_of[op.name], tile.cut, tuple(boxes))
        if key not in self._weights:
            walks = (self.weight_tiles(op, tile, box)[0] for box in boxes)
            self._weights[key] = max((int(tiles.volumes.max(initial=0)) for tiles in walks), default=0)
        return self._weights[key]

    def weight_tiles(self, op: Op, tile: Tile, box: Box) -> tuple[Boxes, Int]:
        """The tiles of the stationary operand in the walk over ``box``, without repetitions, and when each begins."""
        # Where the operand is the same for every part, only the number of tiles counts: cells share their walks, as do
        # equal operators under equal tiles.
        free = self._not_followed(op)
        box = tuple(Span(0, span.size) if d in free else span for d, span in enumerate(box))
        key = (self.cells.classes.class_of[op.name], tile.cut, box)
        if key not in self._streams:
            assert op.contraction is not None
            points, _ = op_boxes_many(op, self.graph.tensor, tile_walk(box, tile.sizes, tile.order))
            tiles = stationary_walk(op, self.graph.tensor, points[op.contraction], tile.reduce)
            keep = np.ones(len(tiles), dtype=np.bool_)
            keep[1:] = np.any(tiles.spans[1:] != tiles.spans[:-1], axis=(1, 2))
            when = np.flatnonzero(keep & tiles.present)
            self._streams[key] = (tiles.select(when), when.astype(np.int64))
        return self._streams[key]

    def _not_followed(self, op: Op) -> frozenset[int]:
        number = self.cells.classes.class_of[op.name]
        if number not in self._free:
            self._free[number] = not_followed(op, self.graph.tensor, op.stationary)
        return self._free[number]


def _batches(walks: Iterable[Boxes]) -> Iterator[Boxes]:
    """The walks one after the other, some at a time."""
    batch: list[Boxes] = []
    rows = 0
    for walk in walks:
        if batch and rows + len(walk) > _BATCH:
            yield concatenate(batch)
            batch, rows = [], 0
        batch.append(walk)
        rows += len(walk)
    if batch:
        yield concatenate(batch)


class Facts:
    """Facts about one plan, computed on demand. ``geometry`` is of its graph."""

    def __init__(self, plan: Plan, machine: Machine, geometry: Geometry) -> None:
        self.plan = plan
        self.graph = geometry.graph
        self.machine = machine
        self.geometry = geometry
        self._not_stationary: dict[int, frozenset[str]] = {}

    def ops(self, segment: Segment) -> tuple[Op, ...]:
        return tuple(self.graph.op[n] for n in segment.ops)

    def is_host(self, segment: Segment) -> bool:
        return self.graph.op[segment.ops[0]].host is not None

    def cells_of(self, segment: Segment, instance: int) -> tuple[Cell, ...]:
        return self.geometry.cells.row(segment, instance)

    def cells_by_core(self, step: Step) -> list[tuple[int, Cell]]:
        """The cells of a step, each with the core that runs it."""
        cells = self.cells_of(self.plan.segments[step.segment], step.instance)
        return list(zip(self.plan.cell_cores[step.segment], cells, strict=True))

    def all_cells(self, segment: Segment) -> list[Cell]:
        return [cell for i in range(count(segment.instances)) for cell in self.cells_of(segment, i)]

    @cached_property
    def first_slot(self) -> tuple[int, ...]:
        """The slot in which each step begins."""
        firsts = [0]
        for step in self.plan.steps:
            firsts.append(firsts[-1] + len(self.plan.segments[step.segment].ops))
        return tuple(firsts[:-1])

    @cached_property
    def data(self) -> dict[tuple[int, str], LocalBuffer]:
        """Data buffers by segment and tensor."""
        return {(b.segment, b.name): b for b in self.plan.local if b.use == "data"}

    def row_tile(self, segment: Segment, op: Op, cells: Sequence[Cell]) -> int:
        """Bytes of the largest tile of the constant that ``op`` reads by rows."""
        name, tile = row_stream(self.graph, op), segment.tile[op.name]
        boxes = dict.fromkeys(c.ops[op.name].tensors[op.output] for c in cells if op.name in c.ops)
        walks = (tile_walk(box, tile.sizes, tile.order) for box in boxes)
        sizes = (op_boxes_many(op, self.graph.tensor, walk)[1][name].volumes.max(initial=0) for walk in walks)
        return max(map(int, sizes), default=0) * DTYPES[self.graph.tensor[name].dtype]

    def stationary(self, segment: Segment, op: Op) -> str | None:
        """What the matrix engine holds in weight memory for ``op``."""
        if op.contraction is None or segment.tile[op.name].engine != "matrix":
            return None
        return op.stationary

    def streamed(self, segment: Segment, name: str) -> bool:
        """Whether a constant goes straight to weight memory in this segment, one of the plan's: no read of it is
        anything else."""
        return name in self.graph.constant_names and name not in self._not_only_stationary(segment)

    def _not_only_stationary(self, segment: Segment) -> frozenset[str]:
        """What some read of a segment does not take from weight memory."""
        # By identity: the plan keeps its segments, and hashing one of many operators takes as long as this.
        if id(segment) not in self._not_stationary:
            self._not_stationary[id(segment)] = frozenset(
                read.tensor
                for op in self.ops(segment)
                for position, stage in enumerate(op.stages)
                for operand, read in enumerate(stage.reads)
                if position != op.contraction or operand != 1 or segment.tile[op.name].engine != "matrix"
            )
        return self._not_stationary[id(segment)]

    @cached_property
    def shares(self) -> dict[str, list[Stored]]:
        """By tensor: all shares of results that leave their segment, in the order of the slots."""
        shares: dict[str, list[Stored]] = {}
        for number, step in enumerate(self.plan.steps):
            segment = self.plan.segments[step.segment]
            if self.is_host(segment):
                continue
            ops = self.ops(segment)
            out = {op.name for op in leaving(self.graph, ops)}
            cells = self.cells_by_core(step)
            for position, op in enumerate(ops):
                if op.name not in out:
                    continue
                rows = shares.setdefault(op.output, [])
                slot = self.first_slot[number] + position
                rows += [Stored(number, slot, core, x.owned[op.output]) for core, x in cells if op.output in x.owned]
        return shares

    @cached_property
    def by_host(self) -> dict[str, int]:
        """The slot in which the host makes a tensor."""
        return {
            name: self.first_slot[number]
            for number, step in enumerate(self.plan.steps)
            if self.is_host(self.plan.segments[step.segment])
            for name in self.graph.op[self.plan.segments[step.segment].ops[0]].outputs
        }

    @cached_property
    def host_reads(self) -> dict[str, list[int]]:
        """The slots in which the host reads a tensor in main memory."""
        slots: dict[str, list[int]] = {}
        for number, step in enumerate(self.plan.steps):
            segment = self.plan.segments[step.segment]
            if self.is_host(segment):
                for name in dict.fromkeys(self.graph.op[segment.ops[0]].inputs):
                    slots.setdefault(name, []).append(self.first_slot[number])
        return slots

    @cached_property
    def reads(self) -> dict[str, list[Loaded]]:
        """By tensor: what cells load from the shared memory into local memory."""
        reads: dict[str, list[Loaded]] = {}
        for number, step in enumerate(self.plan.steps):
            segment = self.plan.segments[step.segment]
            if self.is_host(segment):
                continue
            produced = {op.output for op in self.ops(segment)}
            for core, cell in self.cells_by_core(step):
                for name, box in cell.tensors.items():
                    if name in produced or not volume(box):
                        continue
                    buffer = self.data.get((step.segment, name))
                    if buffer is not None and not is_ring(buffer):
                        position = buffer.live[0]
                    elif buffer is not None or name in segment.aliased:
                        # It has no buffer of its own, or one for a few tiles: it comes for the first operator that
                        # reads it.
                        position = next(p for p, op in enumerate(self.ops(segment)) if name in op.inputs)
                    else:
                        continue
                    reads.setdefault(name, []).append(Loaded(number, self.first_slot[number] + position, core, box))
        return reads

    @cached_property
    def streams(self) -> dict[str, list[Stream]]:
        """By constant: the tiles that go straight to weight memory."""
        streams: dict[str, list[Stream]] = {}
        for number, step in enumerate(self.plan.steps):
            segment = self.plan.segments[step.segment]
            if self.is_host(segment):
                continue
            for position, op in enumerate(self.ops(segment)):
                name = self.stationary(segment, op)
                if name is None or not self.streamed(segment, name):
                    continue
                slot = self.first_slot[number] + position
                since = self.first_slot[number] + self._fetched_from(step.segment, op.name, position)
                for core, cell in self.cells_by_core(step):
                    if op.name in cell.ops:
                        box = cell.ops[op.name].tensors[op.output]
                        tiles, when = self.geometry.weight_tiles(op, segment.tile[op.name], box)
                        streams.setdefault(name, []).append(Stream(number, since, slot, core, tiles, when))
        return streams

    def _fetched_from(self, segment: int, op: str, position: int) -> int:
        """The position at which the first weights of an operator are brought."""
        stream = self.plan.weight_stream.get((segment, op))
        buffer = self._weights.get((segment, op))
        return position if stream is None or buffer is None or not stream.prefetch else buffer.live[0]

    @cached_property
    def _weights(self) -> dict[tuple[int, str], LocalBuffer]:
        """Weight buffers by segment and operator."""
        return {(b.segment, b.op): b for b in self.plan.local if b.use == "weights"}
