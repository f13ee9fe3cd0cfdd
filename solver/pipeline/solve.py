"""Model 4 applied to segments: how many versions of scratch and weights each operator gets.

Each operator's tile loop is pipelined by itself, in the cell that has the most work. The model
(:mod:`girih.solver.pipeline.model`) answers for the steady state, for each number of weight versions that makes a
difference. Many walks are too short to have one, so all depths that fit are also played from the first to the last
tile; the shortest counts, and the model then proves its interval. Operators whose loops are equal share the answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from itertools import product

from ...ir.box import Box
from ...ir.graph import Graph, Op
from ...ir.machine import Machine, Role
from ...ir.plan import Segment, Tile
from ...ir.semantics.cell import Cells, OperatorRun, count
from ..cost.equivalence import structural_class
from ..cost.local_buffers import round_up, scratch_sizes, targets, weight_size
from ..cost.tile_walk import TileWalk, TileWalks
from ..switches import ALL_ON, Disabled
from .model import Schedule, pipeline
from .problem import NOTHING, Before, Body, Footprint, Ring, bodies, played


@dataclass(frozen=True)
class TooLarge:
    """A tile that does not fit even once: ``need`` bytes of ``capacity`` in the memory with that role."""

    segment: int
    op: str
    role: Role
    need: int
    capacity: int


@dataclass(frozen=True)
class Pipelined:
    """An operator's tile loop in one segment: ``cycles`` of the busiest cell; ``interval`` cycles between tiles."""

    segment: int
    op: str
    tiles: int
    interval: int
    latency: int
    cycles: int
    schedule: Schedule


@dataclass(frozen=True)
class _Best:
    """Versions of scratch and weights, the cycles of the walk with them, and the schedule of its steady state."""

    depths: tuple[int, int]
    cycles: int
    body: Body
    schedule: Schedule


@dataclass(frozen=True)
class _Made:
    """A vector operator: its walk, the cycles that it takes, and the bytes of all versions of its scratch."""

    walk: TileWalk
    cycles: int
    scratch: int


class Pipelines:
    """Schedules of tile loops, each solved once."""

    def __init__(
        self, graph: Graph, cells: Cells, machine: Machine, walks: TileWalks, seed: int, disabled: Disabled = ALL_ON
    ) -> None:
        self.graph = graph
        self.cells = cells
        self.machine = machine
        self.walks = walks
        self.seed = seed
        self.disabled = disabled
        self._known: dict[tuple[object, ...], _Best] = {}
        self._segments: dict[Hashable, tuple[tuple[Tile, ...], tuple[Pipelined, ...], OperatorRun]] = {}
        self._sizes: dict[tuple[str, Tile, tuple[Box, ...]], Footprint] = {}

    def segment(self, index: int, segment: Segment) -> tuple[Segment, tuple[Pipelined, ...]] | TooLarge:
        """The segment with the depths of its tiles set, or what does not fit; equal segments share the answer."""
        if not segment.tiles:
            return segment, ()
        run, key = self.cells.run(segment.ops), structural_class(self.cells, segment)
        if key not in self._segments:
            answer = self._segment(index, segment)
            if isinstance(answer, TooLarge):
                return answer
            self._segments[key] = *answer, run
        tiles, found, first = self._segments[key]
        names = dict(zip(first.ops, run.ops, strict=True))
        return (
            replace(segment, tiles=tuple(replace(t, op=names[t.op]) for t in tiles)),
            tuple(replace(p, segment=index, op=names[p.op]) for p in found),
        )

    def _segment(self, index: int, segment: Segment) -> tuple[tuple[Tile, ...], tuple[Pipelined, ...]] | TooLarge:
        cores = range(count(segment.cores))
        there = [self.cells.cell(segment, i, c) for i in range(count(segment.instances)) for c in cores]
        found: list[Pipelined] = []
        tiles: list[Tile] = []
        made: dict[str, _Made] = {}
        for tile in segment.tiles:
            op = self.graph.op[tile.op]
            footprint = self._footprint(op, tile, targets(there, op))
            problem = self._too_large(index, op, footprint)
            if problem is not None:
                return problem
            running = [c for c in there if op.name in c.ops]
            if not running:
                tiles.append(tile)
                continue
            cell = max(running, key=lambda c: c.weight)
            walk = self.walks.walk(op, tile, cell)
            before = _before(op, walk, made) if "stalled-depths" not in self.disabled else NOTHING
            beside = _scratch(op, made) if before != NOTHING else 0
            depths, pipelined = self._best(index, walk, op, segment, footprint, before, beside)
            found.append(pipelined)
            if tile.engine == "matrix":
                made.clear()
            else:
                made[op.output] = _Made(walk, pipelined.cycles, depths[0] * footprint.scratch)
            tiles.append(replace(tile, depth=depths[0], weight_depth=depths[1]))
        return tuple(tiles), tuple(found)

    def _footprint(self, op: Op, tile: Tile, boxes: list[Box]) -> Footprint:
        bare = replace(tile, depth=1, weight_depth=1)
        key = (op.name, bare, tuple(boxes))
        if key not in self._sizes:
            scratch = scratch_sizes(self.graph, op, tile, boxes)
            alignment = self.machine.role("accumulator").alignment
            weights = 0
            if tile.engine == "matrix" and op.anchor is not None:
                weights = round_up(weight_size(self.graph, op, tile, boxes), self.machine.role("weights").alignment)
            self._sizes[key] = Footprint(sum(round_up(size, alignment) for size in scratch.values()), weights)
        return self._sizes[key]

    def _too_large(self, index: int, op: Op, footprint: Footprint) -> TooLarge | None:
        needs: tuple[tuple[Role, int], ...] = (("accumulator", footprint.scratch), ("weights", footprint.weights))
        for role, need in needs:
            capacity = self.machine.role(role).capacity
            if need > capacity:
                return TooLarge(index, op.name, role, need, capacity)
        return None

    def _best(
        self, index: int, walk: TileWalk, op: Op, segment: Segment, footprint: Footprint, before: Before, beside: int
    ) -> tuple[tuple[int, int], Pipelined]:
        """The depths with the fewest cycles for all tiles of the walk, then the fewest bytes."""
        loads = self._loads(op, walk, segment)
        key = (walk.timings, walk.timing, walk.weights, tuple(loads.items()), footprint, before, beside)
        if key not in self._known:
            self._known[key] = self._solve(walk, loads, footprint, before, beside)
        best = self._known[key]
        interval = -(-best.schedule.interval // best.body.tiles)
        latency = best.schedule.latency
        return best.depths, Pipelined(index, op.name, len(walk), interval, latency, best.cycles, best.schedule)

    def _solve(self, walk: TileWalk, loads: dict[int, int], footprint: Footprint, before: Before, beside: int) -> _Best:
        """Play all depths; schedule the loop with the best ones.

        What runs ``before`` holds ``beside`` bytes where scratch lies. The two overlap only if they lie apart, as is
        assumed in playing: depths for which there is no room count only if there is none at all.
        """
        options: list[tuple[int, int, tuple[int, int], Body]] = []
        for body in bodies(walk, self.machine, footprint, loads, self.disabled):
            rings = {ring.name: ring for ring in body.rings}
            shallow = _beside(rings["scratch"], beside) if "scratch" in rings else (1,)
            for depths in product(shallow, rings["weights"].fitting if "weights" in rings else (1,)):
                size = depths[0] * footprint.scratch + depths[1] * footprint.weights
                options.append((played(walk, self.machine, loads, *depths, before), size, depths, body))
        cycles, _, depths, body = min(options, key=lambda o: o[:3])
        chosen = {"scratch": depths[:1], "weights": depths[1:]}
        fixed = replace(body, rings=tuple(replace(ring, depths=chosen[ring.name]) for ring in body.rings))
        schedule = pipeline(fixed, repeats=len(walk) > body.tiles, seed=self.seed)
        assert schedule is not None
        return _Best(depths, max(1, cycles - before.cycles), body, schedule)

    def _loads(self, op: Op, walk: TileWalk, segment: Segment) -> dict[int, int]:
        """Cycles that a copy queue is busy with each weight tile.

        Broadcasts are issued by the cores in turn; groups of cores that read different tiles share the link.
        """
        if not walk.weights:
            return {}
        cells = self.cells.row(segment, 0)
        assert op.anchor is not None
        name = op.stages[op.anchor].reads[1].tensor
        if name not in self.graph.constant_names:
            return {key: move.busy(self.machine) for key, move in enumerate(walk.loads)}
        boxes = [c.ops[op.name].tensors[name] for c in cells if op.name in c.ops]
        groups = len(set(boxes))
        members = max(1, len(boxes) // groups)
        share = {link.name: 1 / groups for link in self.machine.links}
        rates = {link.name: link.bytes_per_cycle for link in self.machine.links}
        loads: dict[int, int] = {}
        for key, move in enumerate(walk.loads):
            link = max((size * groups / rates[name] for name, size in move.links), default=0.0)
            loads[key] = max(round(link), move.busy(self.machine, share) // members)
        return loads


def _scratch(op: Op, made: Mapping[str, _Made]) -> int:
    """Bytes of scratch of what the vector engine is with when the matrix engine could begin with ``op``."""
    left = op.stages[op.anchor].reads[0].tensor if op.anchor is not None else ""
    return (made.get(left) or list(made.values())[-1]).scratch


def _beside(ring: Ring, size: int) -> tuple[int, ...]:
    """The depths that fit beside so many bytes; if none does, all that fit."""
    return tuple(d for d in ring.fitting if d * ring.bytes + size <= ring.capacity) or ring.fitting


def _before(op: Op, walk: TileWalk, made: Mapping[str, _Made]) -> Before:
    """What the matrix engine waits for: ``made`` are the walks of vector operators since it last worked."""
    left = op.stages[op.anchor].reads[0].tensor if op.anchor is not None else ""
    if not walk.weights or left not in walk.reads:
        return NOTHING
    if left not in made:
        # They make nothing for it, and yet the vector engine is with them first.
        return Before(sum(m.cycles for m in made.values()), (0,) * len(walk)) if made else NOTHING
    producer, cycles = made[left].walk, made[left].cycles
    return Before(cycles, tuple(cycles * (last + 1) // len(producer) for last in walk.last_tiles_read(left, producer)))
