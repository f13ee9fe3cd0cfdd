"""Runs of operators that grow backwards from their leader, under many cuts at once.

What the cells of a segment compute follows from its leader alone: putting one more operator in front changes nothing
for those behind it. So all segments with one leader and all their cuts are found in one walk, an operator at a time,
with an array element for each cell that represents others. After each operator the walk knows, for every cut: the peak
of local memory, the cycles that the operators take, and the bytes that enter and leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...ir.graph import DTYPES
from ...ir.semantics.box_arrays import Boxes, Int, op_boxes_many
from ...ir.semantics.cell import followed_dims, leaving
from ...ir.semantics.in_place import replaced
from .batched_cells import CORNERS, Rows, shares
from .engine_overlap import duration
from .split_cost import Costs, OpUnderCuts

WINDOW = 2
"""Cuts into more than so many times the instances that are needed with the same cores are not priced."""


@dataclass(frozen=True)
class Crossing:
    """A tensor that enters or leaves a run, for each cut: bytes of the busiest core, of all cores in an instance
    (what is broadcast counts once), and of the box that holds what an instance touches."""

    core: Int
    cores: Int
    step: Int


@dataclass(frozen=True)
class Run:
    """A run of operators ``first .. last`` (positions in the graph) under each cut that ``cuts`` numbers.

    ``peak``: bytes of local memory, ``staged`` of shared memory, for what enters and leaves in an instance; ``cycles``:
    of an instance's operators on the slowest core, ``alone``: of each of them by itself, in order. Of the tensors that
    enter, those ``streamed`` are constants that go straight to the weight memory.
    """

    first: int
    last: int
    cuts: Int
    peak: Int
    staged: Int
    cycles: Int
    alone: Sequence[Int]
    entering: Mapping[str, Crossing]
    leaving: Mapping[str, Crossing]
    streamed: frozenset[str]


class Growth:
    """The walk for one leader. ``limit``: bytes of local memory; cuts that need more are dropped as the run grows.

    ``shared``: bytes of shared memory; a run has no cuts that need more.
    """

    def __init__(self, costs: Costs, first: int, last: int, rows: Rows, limit: int, shared: int) -> None:
        graph = costs.graph
        self.costs, self.graph, self.rows, self.limit, self.shared = costs, graph, rows, limit, shared
        self.last = last
        self.ops = graph.ops[first : last + 1]
        self.base = first
        self.cuts = np.arange(len(rows.first), dtype=np.int64)
        self.follow = followed_dims(graph, self.ops)
        self.out = {op.name for op in leaving(graph, self.ops)} | {self.ops[-1].name}
        self.wanted: dict[str, Boxes] = {}
        self.sizes: dict[str, tuple[Int, int, int]] = {}
        """Of each local buffer: bytes by cut, first and last position that needs it."""
        self.peak = np.zeros(len(self.cuts), dtype=np.int64)
        self.chain: list[OpUnderCuts] = []
        """From the leader backwards; sources are positions in :attr:`ops`."""
        self.streamed: set[str] = set()
        self.entering: dict[str, Crossing] = {}
        self.leaving: dict[str, Crossing] = {}
        self.alignment = costs.machine.role("local").alignment

    def runs(self) -> Iterator[Run]:
        """Ever longer runs, as long as some cut fits."""
        for position in range(len(self.ops) - 1, -1, -1):
            if not self._add(position):
                return
            self.peak = self._peak(position)
            fits = self.peak <= self.limit
            if not fits.all():
                self._keep(np.flatnonzero(fits))
            if not len(self.cuts):
                return
            staged = self._staged()
            able = np.flatnonzero(staged <= self.shared)
            if len(able):
                yield self._run(position, able, staged)

    def _run(self, position: int, able: Int, staged: Int) -> Run:
        """The run from ``position`` on, under the cuts among ``able`` with few instances."""
        instances = self.rows.parts[able, 0] * self.rows.parts[able, 1]
        cores = np.concatenate([self.rows.dims[able, 2:], self.rows.parts[able, 2:]], axis=1)
        _, group = np.unique(cores, axis=0, return_inverse=True)
        fewest = np.full(len(able), np.iinfo(np.int64).max)
        np.minimum.at(fewest, group.reshape(-1), instances)
        few = able[instances <= WINDOW * fewest[group.reshape(-1)]]
        links = [x.link(few) for x in reversed(self.chain)]
        chain = [replace(x, sources=tuple(s - position for s in x.sources if s >= position)) for x in links]
        return Run(
            self.base + position,
            self.last,
            self.cuts[few],
            self.peak[few],
            staged[few],
            duration(chain),
            [x.alone for x in links],
            {n: _select(c, few) for n, c in self.entering.items()},
            {n: _select(c, few) for n, c in self.leaving.items()},
            frozenset(self.streamed),
        )

    def _staged(self) -> Int:
        """For each cut, bytes of the activations that an instance touches and that cross the border of the run."""
        total = np.zeros(len(self.cuts), dtype=np.int64)
        for name, crossing in [*self.entering.items(), *self.leaving.items()]:
            if name not in self.graph.constant_names:
                total += np.minimum(self.graph.tensor[name].bytes, crossing.step)
        return total

    def _add(self, position: int) -> bool:
        op = self.ops[position]
        target = self.wanted.get(op.output)
        if op.name in self.out:
            share = shares(self.rows, self.graph.tensor[op.output].shape, self.follow[op.name])
            self.leaving[op.output] = self._crossing(op.output, share, shared=False)
            target = share if target is None else _hull(target, share)
        if target is None:
            return False
        points, parts = op_boxes_many(op, self.graph.tensor, target)
        cost = self.costs.cost(op)
        stationary = op.stages[op.anchor].reads[1].tensor if op.anchor is not None and cost.stationary else ""
        self.entering.pop(op.output, None)
        for name in dict.fromkeys((*op.inputs, op.output)):
            if name in parts:
                hull = _hull(self.wanted[name], parts[name]) if name in self.wanted else parts[name]
                self.wanted[name] = hull
                if name != op.output:
                    self.entering[name] = self._crossing(name, hull, shared=True)
                if name == stationary and cost.streamed:
                    self.streamed.add(name)
                else:
                    self._hold(position, name, hull)
        self.chain.append(self._priced(position, points, parts, parts.get(stationary)))
        return True

    def _peak(self, position: int) -> Int:
        """For each cut, the bytes of local memory that the operators from ``position`` on need.

        A result that takes the place of an input lies in as large a buffer, and the two count once.
        """
        live = np.zeros((len(self.ops), len(self.cuts)), dtype=np.int64)
        before = replaced(self.graph, self.ops[position:])
        size: dict[str, Int] = {}
        for name, (own, first, last) in sorted(self.sizes.items(), key=lambda item: (item[1][1], item[0] in before)):
            old = before.get(name)
            size[name] = own if old is None else size[old]
            live[first + (old is not None) : last + 1] += size[name]
        return live.max(axis=0)

    def _priced(
        self, position: int, points: list[Boxes], parts: Mapping[str, Boxes], weights: Boxes | None
    ) -> OpUnderCuts:
        op = self.ops[position]
        sharing = np.ones(len(self.cuts), dtype=np.int64)
        if weights is not None and self.costs.cost(op).streamed:
            inner, outer = self._same(weights)
            sharing = inner * outer
        cores = self.rows.parts[:, 2] * self.rows.parts[:, 3]
        numbers = {other.output: i for i, other in enumerate(self.ops[:position])}
        sources = tuple(numbers[n] for n in dict.fromkeys(op.inputs) if n in numbers)
        largest = self._largest(np.sum([p.volumes for p in points], axis=0))
        there = {n: b.select(largest) for n, b in parts.items()}
        return OpUnderCuts(self.costs, op, [p.select(largest) for p in points], there, sharing, cores, sources)

    def _hold(self, position: int, name: str, hull: Boxes) -> None:
        """Keep a tensor in local memory from ``position`` to its last use."""
        size = self._bytes(name, hull)
        size = -(-size // self.alignment) * self.alignment
        last = self.sizes[name][2] if name in self.sizes else position
        self.sizes[name] = (size, position, last)

    def _bytes(self, name: str, boxes: Boxes) -> Int:
        """For each cut, the bytes of its largest box."""
        return self.rows.most(boxes.volumes) * DTYPES[self.graph.tensor[name].dtype]

    def _same(self, boxes: Boxes) -> tuple[Int, Int]:
        """For each cut, among how many cores along the inner and the outer split the box is the same."""
        spans = np.where(boxes.present[:, None, None], boxes.spans, 0)
        corner = [spans[self.rows.first + i] for i in range(CORNERS)]
        inner = np.all(corner[0] == corner[1], axis=(1, 2))
        outer = np.all(corner[1] == corner[2], axis=(1, 2))
        return np.where(inner, self.rows.parts[:, 3], 1), np.where(outer, self.rows.parts[:, 2], 1)

    def _crossing(self, name: str, boxes: Boxes, *, shared: bool) -> Crossing:
        item = DTYPES[self.graph.tensor[name].dtype]
        core = self._bytes(name, boxes)
        cores = core * (self.rows.parts[:, 2] * self.rows.parts[:, 3])
        if shared:
            inner, outer = self._same(boxes)
            cores = cores // (inner * outer)
        low = np.where(boxes.present[:, None], boxes.spans[:, :, 0], 1 << 40)
        high = np.where(boxes.present[:, None], boxes.spans[:, :, 1], 0)
        first, last = self.rows.first, self.rows.first + CORNERS - 1
        extent = np.maximum(high[first], high[last]) - np.minimum(low[first], low[last])
        step = np.prod(np.maximum(extent, 0), axis=1) * item
        return Crossing(core, cores, np.maximum(step, core))

    def _largest(self, volumes: Int) -> Int:
        """For each cut, its first row of the largest volume."""
        candidates = np.flatnonzero(volumes == self.rows.most(volumes)[self.rows.cut])
        _, first = np.unique(self.rows.cut[candidates], return_index=True)
        return candidates[first]

    def _keep(self, cuts: Int) -> None:
        """Go on with some of the cuts."""
        self.rows, kept = self.rows.select(cuts)
        self.cuts = self.cuts[cuts]
        self.wanted = {n: b.select(kept) for n, b in self.wanted.items()}
        self.sizes = {n: (s[cuts], first, last) for n, (s, first, last) in self.sizes.items()}
        self.peak = self.peak[cuts]
        for link in self.chain:
            link.keep(cuts)
        self.entering = {n: _select(c, cuts) for n, c in self.entering.items()}
        self.leaving = {n: _select(c, cuts) for n, c in self.leaving.items()}


def _select(crossing: Crossing, cuts: Int) -> Crossing:
    return Crossing(crossing.core[cuts], crossing.cores[cuts], crossing.step[cuts])


def _hull(a: Boxes, b: Boxes) -> Boxes:
    spans = np.empty_like(a.spans)
    np.minimum(a.spans[:, :, 0], b.spans[:, :, 0], out=spans[:, :, 0])
    np.maximum(a.spans[:, :, 1], b.spans[:, :, 1], out=spans[:, :, 1])
    spans[~b.present] = a.spans[~b.present]
    spans[~a.present] = b.spans[~a.present]
    return Boxes(spans, a.present | b.present)
