"""The weights of one operator in the predicted timeline: versions in weight memory that take turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ....ir.box import Span, intersect, is_empty, shape_of
from ....ir.graph import DTYPES, Op
from ....ir.machine import Machine
from ....ir.plan import WeightStream
from ....ir.semantics.cell import Cell
from ....ir.semantics.portions import receivers
from ...cost.copy_time import CopyTime, route
from ...cost.tile_walk import TileWalk, last_tile
from ...cost.transfers import Cores, fetches, simultaneous_fetches
from ..core_engines import MOST_MEETINGS
from ..data_movement import Movement
from ..link_sharing import Area, Horizon
from ..staging_queues import StagingQueues


@dataclass
class _LaneVersions:
    """The versions of one lane, the weight tile that each holds, and the cycles that the matrix engine has lost.

    ``products``: since when and until when it has multiplied, of the last times.
    """

    areas: list[Area]
    held: list[int | None]
    next: int = 0
    claimed: Area | None = None
    delay: float = 0.0
    products: deque[tuple[float, float]] = field(
        default_factory=lambda: deque[tuple[float, float]](maxlen=MOST_MEETINGS)
    )

    @staticmethod
    def from_areas(versions: Sequence[Area]) -> _LaneVersions:
        return _LaneVersions([Area(v.low, v.high, v.floor) for v in versions], [None] * len(versions))


Arrivals = tuple[TileWalk, list[float]]
"""Of a tensor computed in the running step: the walk of its producer, and when each tile can be read."""


class WeightBuffer:
    """Which weight tile each version holds, since when, and until when it is used.

    Tiles of a constant come from shared memory, one broadcast to all cores that want the same; those of an activation
    from the core's own local memory, ``local`` being its area, and ``arrivals`` when it can be read if this step
    computes it. ``cells`` are those of all cores, and ``walk_of`` gives the walk of each. Those that wait for the same
    go one *lane*; of several lanes, each has its own versions and brings its own tiles to them, in turn. Cores that
    read their own memory go one lane. Cores of a lane with fewer tiles fetch apart
    (:func:`...cost.transfers.simultaneous_fetches`).
    """

    def __init__(
        self, movement: Movement, slot: int, op: Op, walk: TileWalk, stream: WeightStream, cells: Sequence[Cell],
        versions: list[Area], local: Mapping[str, Area], arrivals: Mapping[str, Arrivals],
        walk_of: Callable[[Cell], TileWalk],
    ) -> None:  # fmt: skip
        self._movement = movement
        self._slot = slot
        self._walk = walk
        self._name = op.stationary
        self._stream = stream
        self._turns = movement.turns(stream)
        self._versions = versions
        used = [versions[v] for v in sorted(set(stream.versions))]
        self._shares = [len(used) > 1 and _shares_bank(movement.machine, area, used) for area in versions]
        self._conflict = conflict_cycles(movement.machine, used[0].high - used[0].low) if any(self._shares) else 0.0
        self._matrix = movement.machine.engine_for("matrix").name
        self._local = local.get(self._name)
        self._arrivals = arrivals.get(self._name)
        wanted = (c.ops[op.name].tensors.get(self._name) if op.name in c.ops else None for c in cells)
        broadcast = movement.machine.moves("broadcast", movement.source(self._name), movement.levels.weights)
        copied = receivers(wanted, broadcast)
        self._groups = [(tuple(cores), cells[cores[0]].tensors[self._name], box) for box, cores in copied]
        self._apart = [self._fetched_apart(op, cells, cores, walk_of) for cores, _, _ in self._groups]
        self._fetches = [0] * len(self._groups)
        self._lanes = [_LaneVersions.from_areas(versions) for _ in (self._groups if self._local is None else (None,))]
        if not self._lanes:
            self._lanes = [_LaneVersions.from_areas(versions)]

    @property
    def lanes(self) -> int:
        """How many groups of cores wait for tiles of their own."""
        return len(self._lanes)

    @property
    def simultaneous(self) -> int:
        """How many cores wait for the same at most: for a broadcast, or all for their own memory."""
        sizes = [len(cores) for cores, _, _ in self._groups]
        return max(sizes, default=1) if self._local is None else sum(sizes)

    def prefetch(self, staging: StagingQueues) -> None:
        """Claim the first tiles, as many as the plan says, before the loads of the operator's inputs.

        Of constants alone: what lies in local memory may still have to be computed, and plans prefetch none of it.
        """
        for index, part in self._first_tiles():
            for lane in range(self.lanes):
                self.claim(lane, index, part, staging)

    def _first_tiles(self) -> list[tuple[int, int]]:
        """Where the walk first uses each of the weight tiles that are prefetched."""
        first: dict[int, tuple[int, int]] = {}
        for index, row in enumerate(self._walk.weights):
            for part, key in enumerate(row):
                if len(first) == self._stream.prefetch:
                    return list(first.values())
                first.setdefault(key, (index, part))
        return list(first.values())

    def claim(self, lane: int, index: int, part: int, staging: StagingQueues) -> float:
        """When the weights of a reduce tile are there; they are copied in if no version of the lane holds them.

        ``staging``: the queues of the lane by which what a core copies within its memory goes, if by a staging memory.
        """
        key, lane_state = self._walk.weights[index][part], self._lanes[lane]
        if key in lane_state.held:
            lane_state.claimed = lane_state.areas[lane_state.held.index(key)]
            return lane_state.claimed.ready.last
        version = self._stream.versions[lane_state.next % len(self._stream.versions)]
        lane_state.next += 1
        lane_state.held[version] = key
        area = lane_state.claimed = lane_state.areas[version]
        move = self._walk.loads[key]
        if self._local is None:
            ready = self._broadcast(lane, key, area, move)
        else:
            ready = self._move(self._local, area, move, staging, self._computed(key))
        if self._shares[version]:
            stop = ready - move.latency
            start = stop - move.payload / move.rate
            met = 0.0
            # The matrix engine ends them in this order.
            for begun, ended in reversed(lane_state.products):
                if ended <= start:
                    break
                met += max(0.0, min(stop, ended) - max(start, begun))
            lane_state.delay += met * move.rate * self._conflict
        return ready

    def slowed(self, lane: int) -> float:
        """Cycles that the matrix engine loses to the loads that were claimed since it was last asked."""
        cycles, self._lanes[lane].delay = self._lanes[lane].delay, 0.0
        return cycles

    def release(self, lane: int, begun: float, ended: float, visible: float) -> None:
        """The matrix engine has worked with the version claimed last, and is done with it."""
        lane_state = self._lanes[lane]
        assert lane_state.claimed is not None
        lane_state.claimed.use(visible, self._matrix)
        lane_state.products.append((begun, ended))

    def close(self) -> None:
        """All lanes are through: what comes to these places waits for all of them."""
        for lane in self._lanes:
            for area, lane_area in zip(self._versions, lane.areas, strict=True):
                area.uses.merge(lane_area.uses)

    def _broadcast(self, lane: int, key: int, area: Area, move: CopyTime) -> float:
        if not self._groups:
            return _arrive(area, ())
        cores, corner, wanted = self._groups[lane]
        tile = tuple(Span(s.lo + c.lo, s.hi + c.lo) for s, c in zip(self._walk.boxes[key], corner, strict=True))
        box = intersect(tile, wanted)
        number = self._fetches[lane]
        self._fetches[lane] += 1
        if is_empty(box):
            return _arrive(area, ())
        shared = self._movement.weights_buffer(self._name, self._slot, box)
        weights = self._movement.levels.weights
        apart: Sequence[Cores] = ()
        if (steps := self._apart[lane]) is not None:
            cores, apart = steps[number]
        arrived = self._movement.copy(cores, shared, box, weights, area.free, move, self._turns, area)
        for others in apart:
            self._movement.copy(others, shared, box, weights, area.free, move, self._turns, area)
        return _arrive(area, [arrived])

    def _fetched_apart(
        self, op: Op, cells: Sequence[Cell], cores: Sequence[int], walk_of: Callable[[Cell], TileWalk]
    ) -> list[tuple[Cores, list[Cores]]] | None:
        """For each fetch of a lane, the cores that it goes to, and those for which there is another one meanwhile.

        ``None`` if all cores go through as many tiles.
        """
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for core in cores:
            by_shape.setdefault(shape_of(cells[core].ops[op.name].tensors[op.output]), []).append(core)
        if len(by_shape) < 2 or self._local is not None:
            return None
        walks = {shape: walk_of(cells[members[0]]) for shape, members in by_shape.items()}
        lane_shape = max(walks, key=lambda shape: (walks[shape].weights == self._walk.weights, len(walks[shape])))
        versions = self._stream.versions
        others = [(tuple(by_shape[s]), fetches(w.weights, versions)) for s, w in walks.items() if s != lane_shape]
        lane = simultaneous_fetches(fetches(self._walk.weights, versions), others)
        return [(tuple(sorted((*by_shape[lane_shape], *joined))), apart) for joined, apart in lane]

    def _computed(self, key: int) -> float:
        """When this step has made what a tile of an activation consists of."""
        if not self._arrivals:
            return 0.0
        producer, times = self._arrivals
        return times[last_tile(self._walk.boxes[key], producer.box, producer.tile.sizes, producer.tile.order)]

    def _move(
        self, local: Area, area: Area, move: CopyTime, staging: StagingQueues, computed: float
    ) -> float:  # fmt: skip
        engine = self._movement.engine("copy", self._movement.levels.activations, self._movement.levels.weights)
        queue = self._movement.queues[engine.name]
        if move.stopover is not None:
            ready = max(local.ready.seen_by(move.stopover.engine), computed)
            arrived = self._movement.over(staging.copy_by_room(move, engine, ready, area.free(engine.name)), engine)
            local.use(arrived, engine.name)
            return _arrive(area, [(arrived, engine.name)])
        ready = max(area.free(engine.name), local.ready.seen_by(engine.name), computed)
        start = max(ready, *(queue[c] for cores, _, _ in self._groups for c in cores))
        stop = start + move.busy(self._movement.machine)
        for cores, _, _ in self._groups:
            for core in cores:
                queue[core] = stop
        arrived = self._movement.over(stop + move.latency, engine)
        local.use(arrived, engine.name)
        return _arrive(area, [(arrived, engine.name)])


def _arrive(area: Area, arrivals: Iterable[tuple[float, str | None]]) -> float:
    """Something new has come to a version, in so many copies; when all of it is there."""
    area.ready = Horizon()
    for stop, engine in arrivals:
        area.ready.note(stop, engine)
        area.use(stop, engine)
    return area.ready.last


def conflict_cycles(machine: Machine, size: int) -> float:
    """Cycles that a byte of weights costs the matrix engine if it is loaded into banks that the engine reads.

    A load of b bytes takes b / r cycles, in which both want d + r of a bank that serves p: the engine is slowed by
    (d + r) / p. An engine that wants more than p goes at that pace already. Versions of ``size`` bytes are spread over
    the banks that take turns, and so is what is wanted of each.
    """
    memory, engine = machine.levels.weights.memory, machine.engine_for("matrix")
    served = float(memory.bytes_per_cycle)
    banks = min(memory.banks, -(-size // memory.interleave)) if memory.interleave else 1
    width = max(DTYPES[dtype] * rate for dtype, rate in (engine.rate or {}).items())
    wanted = len(machine.team("matrix")) * engine.columns * engine.depth * width / banks
    loaded = float(route(machine, machine.levels.exchange, machine.levels.weights).bytes_per_cycle)
    into = min(served, loaded / banks)
    return max(0.0, (min(served, wanted) + into - served) / (into * banks * served))


def _shares_bank(machine: Machine, area: Area, versions: Sequence[Area]) -> bool:
    """Whether an area has a bank of the weight memory in common with another one."""
    memory = machine.levels.weights.memory
    bank = memory.capacity // memory.banks
    if memory.interleave:
        return True
    first, last = area.low // bank, max(area.low, area.high - 1) // bank
    return any(v is not area and v.low // bank <= last and first <= max(v.low, v.high - 1) // bank for v in versions)
