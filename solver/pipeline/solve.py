"""Model 4 applied to segments: how many versions of scratch and weights each operator gets.

Each operator's tile loop is pipelined by itself, in the cell that has the most work. The decision is an exhaustive
search: every pair of degrees that fits is evaluated exactly, for queues that issue in order, by playing the walk
(:mod:`.model`), so the least cycles are optimal by enumeration. Operators whose loops are equal share the answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from ...ir.box import Box
from ...ir.graph import Graph, Op
from ...ir.machine import Level, Machine
from ...ir.plan import Segment, Tile
from ...ir.semantics.cell import Cells, OperatorRun, count
from ..cost.equivalence import structural_class
from ..cost.local_buffers import round_up, scratch_bytes, targets, weight_size
from ..cost.tile_walk import TileWalk, TileWalks
from ..switches import ALL_ON, Disabled
from .candidates import DegreeCandidate, degrees
from .model import walk_cycles
from .problem import NO_PRECEDING_WORK, Footprint, PrecedingWork


@dataclass(frozen=True)
class PipelineOverflow:
    """A tile that does not fit even once: ``need`` bytes of ``capacity`` in that ``level``."""

    segment: int
    op: str
    level: Level
    need: int
    capacity: int


@dataclass(frozen=True)
class PipelinedLoop:
    """An operator's tile loop in one segment: ``cycles`` of the busiest cell."""

    segment: int
    op: str
    cycles: int


@dataclass(frozen=True)
class _Best:
    """The degrees, and the cycles of the walk with them."""

    degrees: DegreeCandidate
    cycles: int


@dataclass(frozen=True)
class _VectorWork:
    """A vector operator: its walk, the cycles that it takes, and the bytes of all versions of its scratch."""

    walk: TileWalk
    cycles: int
    scratch: int


class Pipelines:
    """Schedules of tile loops, each solved once."""

    def __init__(
        self, graph: Graph, cells: Cells, machine: Machine, walks: TileWalks, disabled: Disabled = ALL_ON
    ) -> None:
        self.graph = graph
        self.cells = cells
        self.machine = machine
        self.walks = walks
        self.disabled = disabled
        self._known: dict[tuple[object, ...], _Best] = {}
        self._segments: dict[Hashable, tuple[tuple[Tile, ...], tuple[PipelinedLoop, ...], OperatorRun]] = {}
        self._sizes: dict[tuple[str, Tile, tuple[Box, ...]], Footprint] = {}

    def segment(self, index: int, segment: Segment) -> tuple[Segment, tuple[PipelinedLoop, ...]] | PipelineOverflow:
        """The segment with the depths of its tiles set, or what does not fit; equal segments share the answer."""
        if not segment.tiles:
            return segment, ()
        run, key = self.cells.run(segment.ops), structural_class(self.cells, segment)
        if key not in self._segments:
            answer = self._segment(index, segment)
            if isinstance(answer, PipelineOverflow):
                return answer
            self._segments[key] = *answer, run
        tiles, loops, first = self._segments[key]
        names = dict(zip(first.ops, run.ops, strict=True))
        return (
            replace(segment, tiles=tuple(replace(t, op=names[t.op]) for t in tiles)),
            tuple(replace(p, segment=index, op=names[p.op]) for p in loops),
        )

    def _segment(
        self, index: int, segment: Segment
    ) -> tuple[tuple[Tile, ...], tuple[PipelinedLoop, ...]] | PipelineOverflow:
        cores = range(count(segment.cores))
        cells = [self.cells.cell(segment, i, c) for i in range(count(segment.instances)) for c in cores]
        loops: list[PipelinedLoop] = []
        tiles: list[Tile] = []
        preceding: dict[str, _VectorWork] = {}
        for tile in segment.tiles:
            op = self.graph.op[tile.op]
            footprint = self._footprint(op, tile, targets(cells, op))
            too_large = self._too_large(index, op, footprint)
            if too_large is not None:
                return too_large
            running = [c for c in cells if op.name in c.ops]
            if not running:
                tiles.append(tile)
                continue
            walk = self.walks.walk(op, tile, max(running, key=lambda c: c.weight))
            best = self._best(walk, op, segment, footprint, {} if "stalled-depths" in self.disabled else preceding)
            loops.append(PipelinedLoop(index, op.name, best.cycles))
            if tile.engine == "matrix":
                preceding.clear()
            else:
                preceding[op.output] = _VectorWork(walk, best.cycles, footprint.scratch.total(best.degrees.scratch))
            tiles.append(replace(tile, depth=best.degrees.scratch, weight_depth=best.degrees.weights))
        return tuple(tiles), tuple(loops)

    def _footprint(self, op: Op, tile: Tile, boxes: list[Box]) -> Footprint:
        bare = replace(tile, depth=1, weight_depth=1)
        key = (op.name, bare, tuple(boxes))
        if key not in self._sizes:
            scratch = scratch_bytes(self.graph, self.machine, op, tile, boxes)
            weights = 0
            if tile.engine == "matrix" and op.contraction is not None:
                weights = round_up(weight_size(self.graph, op, tile, boxes), self.machine.levels.weights.alignment)
            self._sizes[key] = Footprint(scratch, weights)
        return self._sizes[key]

    def _too_large(self, index: int, op: Op, footprint: Footprint) -> PipelineOverflow | None:
        levels = self.machine.levels
        needs = (
            (levels.sums, footprint.scratch.total(1)),
            (levels.weights, footprint.weights),
        )
        for level, need in needs:
            if need > level.capacity:
                return PipelineOverflow(index, op.name, level, need, level.capacity)
        return None

    def _best(
        self, walk: TileWalk, op: Op, segment: Segment, footprint: Footprint, vector: Mapping[str, _VectorWork]
    ) -> _Best:
        """The degrees with the fewest cycles for all tiles of the walk, then the fewest bytes.

        ``vector``: the vector operators since the matrix engine last worked, by result.
        """
        loads = self._loads(op, walk, segment)
        preceding = _preceding(op, walk, vector)
        held = _held(op, vector) if preceding != NO_PRECEDING_WORK else 0
        key = (walk.timings, walk.timing, walk.weights, tuple(loads.items()), footprint, preceding, held)
        if key not in self._known:
            self._known[key] = self._solve(walk, loads, footprint, preceding, held)
        return self._known[key]

    def _solve(
        self, walk: TileWalk, loads: dict[int, int], footprint: Footprint, preceding: PrecedingWork, held: int
    ) -> _Best:
        def cycles(d: DegreeCandidate) -> int:
            return walk_cycles(walk, self.machine, loads, d.scratch, d.weights, preceding)

        versioned = footprint if walk.weights else replace(footprint, weights=0)
        candidates = [(cycles(d), d) for d in degrees(self.machine, versioned, held, self.disabled)]
        least, best = min(candidates, key=lambda c: (c[0], c[1].bytes, c[1].scratch, c[1].weights))
        return _Best(best, max(1, least - preceding.cycles))

    def _loads(self, op: Op, walk: TileWalk, segment: Segment) -> dict[int, int]:
        """Cycles that a copy queue is busy with each weight tile.

        Broadcasts are issued by the cores in turn; groups of cores that read different tiles share the link.
        """
        if not walk.weights:
            return {}
        name = op.stationary
        if name not in self.graph.constant_names:
            return {key: move.busy(self.machine) for key, move in enumerate(walk.loads)}
        rows = (self.cells.row(segment, instance) for instance in range(count(segment.instances)))
        # An instance whose rows nobody needs (padding, strides) does not run the operator.
        boxes = next(filter(None, ([c.ops[op.name].tensors[name] for c in row if op.name in c.ops] for row in rows)))
        groups = len(set(boxes))
        members = max(1, len(boxes) // groups)
        share = {link.name: 1 / groups for link in self.machine.links}
        rates = {link.name: link.bytes_per_cycle for link in self.machine.links}
        loads: dict[int, int] = {}
        for key, move in enumerate(walk.loads):
            link = max((size * groups / rates[name] for name, size in move.links), default=0.0)
            loads[key] = max(round(link), move.busy(self.machine, share) // members)
        return loads


def _held(op: Op, vector: Mapping[str, _VectorWork]) -> int:
    """Bytes of scratch of what the vector engine is with when the matrix engine could begin with ``op``."""
    return (vector.get(_left(op)) or list(vector.values())[-1]).scratch


def _preceding(op: Op, walk: TileWalk, vector: Mapping[str, _VectorWork]) -> PrecedingWork:
    """What the matrix engine waits for, of the vector operators since it last worked."""
    left_operand = _left(op)
    if not walk.weights or left_operand not in walk.reads:
        return NO_PRECEDING_WORK
    if left_operand not in vector:
        # They compute nothing for it, and yet the vector engine is with them first.
        return PrecedingWork(sum(v.cycles for v in vector.values()), (0,) * len(walk)) if vector else NO_PRECEDING_WORK
    producer, cycles = vector[left_operand].walk, vector[left_operand].cycles
    ready = tuple(cycles * (last + 1) // len(producer) for last in walk.last_tiles_read(left_operand, producer))
    return PrecedingWork(cycles, ready)


def _left(op: Op) -> str:
    """The tensor that the matrix engine reads beside the stationary operand; empty if there is no matrix stage."""
    return op.stages[op.contraction].reads[0].tensor if op.contraction is not None else ""
