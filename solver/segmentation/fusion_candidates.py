"""Enumeration of fusion candidates: runs of operators that are extended backwards from their root, under many splits.

What the cells of a segment compute follows from its root alone: putting one more operator in front changes nothing for
those behind it. So all segments with one root and all their splits are enumerated in one pass, an operator at a time,
with an array element for each cell that represents others. After each operator the pass knows, for every split: the
local memory that is needed, the cycles that the operators take, and the bytes that enter and leave.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ...ir.graph import DTYPES
from ...ir.semantics.box_arrays import Boxes, Int, hull_many, op_boxes_many
from ...ir.semantics.cell import followed_dims, leaving
from ...ir.semantics.in_place import replaced, root_of
from ..cost.local_buffers import row_room, rows_by_tile
from .batched_cells import CORNER_CELLS, BatchedCells, owned_boxes
from .engine_overlap import makespan
from .split_cost import OperatorCosts, OperatorUnderSplits

MOST_INSTANCES_RATIO = 2
"""Splits into more than so many times the fewest instances that fit with the same cores are not priced. Chosen, not
measured: instances come in powers of two, so that one finer split remains for each of the cores' splits."""
NOWHERE = 1 << 40
"""Larger than any index of an element: the lower end of a box that is not present, in a minimum."""


@dataclass(frozen=True)
class InterSegmentTensor:
    """A tensor that enters or leaves a run, for each split: bytes of the busiest core, of all cores in an instance
    (what is broadcast counts once, in whole bursts), of the box that holds what an instance touches, from its first to
    its last one, and what crosses the link of main memory for it, in whole bursts."""

    core_bytes: Int
    cluster_bytes: Int
    footprint_bytes: Int
    spread_bytes: Int
    moved_bytes: Int

    def select(self, splits: Int) -> InterSegmentTensor:
        return InterSegmentTensor(
            self.core_bytes[splits],
            self.cluster_bytes[splits],
            self.footprint_bytes[splits],
            self.spread_bytes[splits],
            self.moved_bytes[splits],
        )


@dataclass(frozen=True)
class FusionCandidate:
    """A run of operators ``first .. last`` (positions in the graph) under each split that ``splits`` numbers.

    ``local_bytes`` of local memory, ``shared_bytes`` of shared memory, for what enters and leaves in an instance;
    ``cycles``: of an instance's operators on the slowest core, ``op_cycles``: of each of them by itself, in order.
    ``instances``, ``cores``: of each split; ``columns_first``: as :func:`~.splits.columns_first`.
    """

    first: int
    last: int
    splits: Int
    instances: Int
    cores: Int
    columns_first: Int
    local_bytes: Int
    shared_bytes: Int
    cycles: Int
    op_cycles: Sequence[Int]
    entering: Mapping[str, InterSegmentTensor]
    leaving: Mapping[str, InterSegmentTensor]


@dataclass(frozen=True)
class _Buffer:
    """Bytes of a local buffer by split, and the first and the last position that needs it."""

    bytes: Int
    first: int
    last: int


class FusionEnumeration:
    """The runs with the root ``last`` that begin at ``first`` or later, under the splits of ``cells``.

    Splits that need more than ``local_capacity`` bytes of local memory are dropped as the run is extended; those that
    need more than ``shared_capacity`` of shared memory are left out of the candidate. ``None``: any number of bytes.
    ``lengths``: the numbers of operators of the runs that are candidates, all if ``None``.
    """

    def __init__(
        self,
        costs: OperatorCosts,
        first: int,
        last: int,
        cells: BatchedCells,
        local_capacity: int | None = None,
        shared_capacity: int | None = None,
        lengths: Collection[int] | None = None,
    ) -> None:
        graph = costs.graph
        self.costs, self.graph, self.cells = costs, graph, cells
        self.local_capacity, self.shared_capacity = local_capacity, shared_capacity
        self.lengths = range(1, last - first + 2) if lengths is None else lengths
        self.first, self.last = first, last
        self.ops = graph.ops[first : last + 1]
        self.splits = np.arange(len(cells.first_cell), dtype=np.int64)
        self.core_groups = cells.core_groups()
        self.followed = followed_dims(costs.op_boxes, self.ops)
        self.live_out = {op.name for op in leaving(graph, self.ops)} | {self.ops[-1].name}
        self.demanded: dict[str, Boxes] = {}
        self.buffers: dict[str, _Buffer] = {}
        self.replaces: dict[str, str] = {}
        """As :func:`~girih.ir.semantics.in_place.replaced`, of the operators so far."""
        self._replaced = replaced(graph, self.ops)
        self.operators: list[OperatorUnderSplits] = []
        """From the root backwards; sources are positions in :attr:`ops`."""
        self.entering: dict[str, InterSegmentTensor] = {}
        self.leaving: dict[str, InterSegmentTensor] = {}
        self._root_rank = len(graph.tensor[self.ops[-1].output].shape)
        self.alignment = costs.machine.levels.activations.alignment

    def bytes_of_all(self) -> tuple[Int, Int]:
        """For each split, bytes of local and of shared memory that the whole run needs, whatever there is.

        In place of :meth:`candidates`.
        """
        for position in range(len(self.ops) - 1, -1, -1):
            self._prepend(position)
        return self._local_bytes(0), self._shared_bytes()

    def candidates(self) -> Iterator[FusionCandidate]:
        """Ever longer runs of the ``lengths``, as long as some split fits."""
        for position in range(len(self.ops) - 1, -1, -1):
            if not self._prepend(position):
                return
            local_bytes = self._local_bytes(position)
            if self.local_capacity is not None and (local_bytes > self.local_capacity).any():
                fitting = np.flatnonzero(local_bytes <= self.local_capacity)
                local_bytes = local_bytes[fitting]
                self._select(fitting)
            if not len(self.splits):
                return
            if len(self.ops) - position not in self.lengths:
                continue
            shared_bytes = self._shared_bytes()
            fits = np.ones(len(self.splits), dtype=np.bool_)
            if self.shared_capacity is not None:
                fits = shared_bytes <= self.shared_capacity
            if fits.any():
                yield self._candidate(position, np.flatnonzero(fits), local_bytes, shared_bytes)

    def _candidate(self, position: int, fitting: Int, local_bytes: Int, shared_bytes: Int) -> FusionCandidate:
        """The run from ``position`` on, under the ``fitting`` splits with few instances."""
        few = self._with_few_instances(fitting)
        timings = [op.timing(few) for op in reversed(self.operators)]
        relative = [replace(t, sources=tuple(s - position for s in t.sources if s >= position)) for t in timings]
        return FusionCandidate(
            self.first + position,
            self.last,
            self.splits[few],
            self.cells.instances[few],
            self.cells.cores[few],
            self.cells.columns_first(self._root_rank)[few],
            local_bytes[few],
            shared_bytes[few],
            makespan(relative),
            [t.alone for t in timings],
            {name: tensor.select(few) for name, tensor in self.entering.items()},
            {name: tensor.select(few) for name, tensor in self.leaving.items()},
        )

    def _with_few_instances(self, splits: Int) -> Int:
        """Of these splits, those with not many more instances than the fewest with the same split over the cores.

        Columns outside of another dimension do not count: they are there so that weights pass once.
        """
        cells = self.cells
        instances = cells.instances[splits] // cells.columns_first(self._root_rank)[splits]
        group = self.core_groups[splits]
        fewest = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(fewest, group, instances)
        return splits[instances <= MOST_INSTANCES_RATIO * fewest[group]]

    def _shared_bytes(self) -> Int:
        """For each split, bytes of the activations that an instance touches and that cross the border of the run."""
        total = np.zeros(len(self.splits), dtype=np.int64)
        for name, tensor in [*self.entering.items(), *self.leaving.items()]:
            if name not in self.graph.constant_names:
                total += np.minimum(self.graph.tensor[name].bytes, tensor.footprint_bytes)
        return total

    def _prepend(self, position: int) -> bool:
        """Extend the run by the operator at ``position``; ``False`` if the run needs nothing of it."""
        op = self.ops[position]
        if op.output in self._replaced:
            self.replaces[op.output] = self._replaced[op.output]
        target = self.demanded.get(op.output)
        if op.name in self.live_out:
            owned = owned_boxes(self.cells, self.graph.tensor[op.output].shape, self.followed[op.name])
            self.leaving[op.output] = self._inter_segment(op.output, owned, broadcast=False)
            target = owned if target is None else hull_many(target, owned)
        if target is None:
            return False
        points, boxes = op_boxes_many(op, self.graph.tensor, target)
        cost = self.costs.cost(op)
        stationary = op.stationary if cost.stationary else ""
        machine = self.costs.machine
        self.entering.pop(op.output, None)
        for name in dict.fromkeys((*op.inputs, op.output)):
            if name in boxes:
                hull = hull_many(self.demanded[name], boxes[name]) if name in self.demanded else boxes[name]
                self.demanded[name] = hull
                if name != op.output:
                    source = machine.levels.source_of(constant=name in self.graph.constant_names)
                    broadcast = machine.moves("broadcast", source, machine.levels.activations)
                    self.entering[name] = self._inter_segment(name, hull, broadcast=broadcast)
                if name != stationary or not cost.streamed:
                    by_rows = cost.contraction is not None and name == rows_by_tile(self.graph, machine, op)
                    most = row_room(self.graph, machine, name) if by_rows else None
                    self._allocate(position, name, hull, most)
        # Nothing in front reads it.
        self.demanded.pop(op.output, None)
        self.operators.append(self._under_splits(position, points, boxes, boxes.get(stationary)))
        return True

    def _local_bytes(self, position: int) -> Int:
        """For each split, the bytes of local memory that the operators from ``position`` on need.

        A result that takes the place of an input lies in as large a buffer, and the two count once.
        """
        live = np.zeros((len(self.ops) - position, len(self.splits)), dtype=np.int64)
        for name, buffer in self.buffers.items():
            root = root_of(name, self.replaces)
            live[buffer.first + (root != name) - position : buffer.last + 1 - position] += self.buffers[root].bytes
        return live.max(axis=0)

    def _under_splits(
        self, position: int, points: list[Boxes], boxes: Mapping[str, Boxes], weights: Boxes | None
    ) -> OperatorUnderSplits:
        op = self.ops[position]
        sharing = np.ones(len(self.splits), dtype=np.int64)
        if weights is not None and self.costs.cost(op).streamed:
            sharing = self._sharing_cores(weights)
        cores = self.cells.cores
        producers = {other.output: i for i, other in enumerate(self.ops[:position])}
        sources = tuple(producers[n] for n in dict.fromkeys(op.inputs) if n in producers)
        largest = self._largest(np.sum([p.volumes for p in points], axis=0))
        points = [p.select(largest) for p in points]
        tensors = {n: b.select(largest) for n, b in boxes.items()}
        return OperatorUnderSplits(self.costs, op, points, tensors, sharing, cores, sources)

    def _allocate(self, position: int, name: str, hull: Boxes, most: int | None) -> None:
        """Hold a tensor in local memory from ``position`` to its last use, ``most`` bytes of it at one time."""
        size = -(-self._bytes(name, hull) // self.alignment) * self.alignment
        if most is not None:
            size = np.minimum(size, most)
        last = self.buffers[name].last if name in self.buffers else position
        self.buffers[name] = _Buffer(size, position, last)

    def _bytes(self, name: str, boxes: Boxes) -> Int:
        """For each split, the bytes of its largest box."""
        return self.cells.largest(boxes.volumes) * DTYPES[self.graph.tensor[name].dtype]

    def _sharing_cores(self, boxes: Boxes) -> Int:
        """For each split, how many cores along the inner and the outer split have the same box."""
        rows = [self.cells.first_cell + i for i in range(CORNER_CELLS)]
        corner = [np.where(boxes.present[row, None, None], boxes.spans[row], 0) for row in rows]
        inner = np.all(corner[0] == corner[1], axis=(1, 2))
        outer = np.all(corner[1] == corner[2], axis=(1, 2))
        return np.where(inner, self.cells.parts[:, -1], 1) * np.where(outer, self.cells.parts[:, -2], 1)

    def _inter_segment(self, name: str, boxes: Boxes, *, broadcast: bool) -> InterSegmentTensor:
        """``broadcast``: what several cores have of the tensor counts once."""
        core, rates = self._bytes(name, boxes), self.costs.rates
        elements = self.cells.largest(self._contiguous(name, boxes.sizes))
        constant = name in self.graph.constant_names
        burst, home_burst = (rates.burst, rates.fetched_burst) if constant else (rates.exchange_burst, rates.main_burst)
        cluster = self._in_bursts(core * self.cells.cores, name, elements, burst)
        if broadcast:
            cluster = cluster // self._sharing_cores(boxes)
        corners = [boxes.select(self.cells.first_cell + i) for i in (0, CORNER_CELLS - 1)]
        low = [np.where(c.present[:, None], c.spans[:, :, 0], NOWHERE) for c in corners]
        high = [np.where(c.present[:, None], c.spans[:, :, 1], 0) for c in corners]
        extent = np.maximum(np.maximum(*high) - np.minimum(*low), 0)
        footprint = np.maximum(np.prod(extent, axis=1) * DTYPES[self.graph.tensor[name].dtype], core)
        moved = self._in_bursts(footprint, name, self._contiguous(name, extent), home_burst)
        return InterSegmentTensor(core, cluster, footprint, self._spread(name, extent), moved)

    def _spread(self, name: str, extents: Int) -> Int:
        """Bytes from the first to the last one of boxes of a tensor with these ``extents``."""
        shape = self.graph.tensor[name].shape
        strides = np.array([prod(shape[d + 1 :]) for d in range(len(shape))], dtype=np.int64)
        return (1 + np.sum(np.maximum(0, extents - 1) * strides, axis=1)) * DTYPES[self.graph.tensor[name].dtype]

    def _contiguous(self, name: str, sizes: Int) -> Int:
        """Elements of the contiguous pieces of boxes of a tensor, one of these ``sizes`` each."""
        elements = np.ones(len(sizes), dtype=np.int64)
        whole = np.ones(len(sizes), dtype=np.bool_)
        for dim in range(sizes.shape[1] - 1, -1, -1):
            elements = np.where(whole, elements * sizes[:, dim], elements)
            whole = whole & (sizes[:, dim] == self.graph.tensor[name].shape[dim])
        return elements

    def _in_bursts(self, size: Int, name: str, elements: Int, burst: int) -> Int:
        """Bytes that cross a link with such bursts for ``size`` bytes of a tensor, in pieces of so many elements."""
        if burst == 1:
            return size
        piece = np.maximum(1, elements) * DTYPES[self.graph.tensor[name].dtype]
        return size * (-(-piece // burst) * burst) // piece

    def _largest(self, volumes: Int) -> Int:
        """For each split, its first cell of the largest volume."""
        candidates = np.flatnonzero(volumes == self.cells.largest(volumes)[self.cells.split_of])
        # Rows of a split are neighbours.
        return candidates[np.flatnonzero(np.diff(self.cells.split_of[candidates], prepend=-1))]

    def _select(self, splits: Int) -> None:
        """Go on with some of the splits."""
        self.cells, kept = self.cells.select(splits)
        self.splits, self.core_groups = self.splits[splits], self.core_groups[splits]
        self.demanded = {name: boxes.select(kept) for name, boxes in self.demanded.items()}
        self.buffers = {name: replace(buffer, bytes=buffer.bytes[splits]) for name, buffer in self.buffers.items()}
        for operator in self.operators:
            operator.select(splits)
        self.entering = {name: tensor.select(splits) for name, tensor in self.entering.items()}
        self.leaving = {name: tensor.select(splits) for name, tensor in self.leaving.items()}
