"""The weights of one operator in the predicted timeline: versions in weight memory that take turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...ir.box import Span, intersect, is_empty
from ...ir.graph import DTYPES, Op
from ...ir.machine import Machine
from ...ir.plan import WeightStream
from ...ir.semantics.cell import Cell
from ...ir.semantics.portions import receivers
from ..cost.instructions import CopyTime, route
from ..cost.tile_walk import TileWalk
from .data_movement import Movement
from .link_sharing import Area, Horizon

Arrivals = tuple[TileWalk, list[float]]
"""Of a tensor computed in the running step: the walk of its producer, and when each tile can be read."""


class WeightBuffer:
    """Which weight tile each version holds, since when, and until when it is used.

    Tiles of a constant come from shared memory, one broadcast to all cores that want the same; those of an activation
    from the core's own local memory, ``local`` being its area, and ``arrivals`` when it can be read if this step
    computes it. ``cells`` are those of all cores: each waits for what it multiplies with, and one timeline stands for
    all of them, so that a tile is there when the last core has its own.
    """

    def __init__(
        self, movement: Movement, slot: int, op: Op, walk: TileWalk, stream: WeightStream, cells: Sequence[Cell],
        versions: list[Area], local: Mapping[str, Area], arrivals: Mapping[str, Arrivals],
    ) -> None:  # fmt: skip
        assert op.contraction is not None
        self._movement = movement
        self._slot = slot
        self._walk = walk
        self._name = op.stages[op.contraction].reads[1].tensor
        self._stream = stream
        self._turns = movement.turns(stream)
        self._versions = versions
        self._used = sorted(set(stream.versions))
        self._matrix = movement.machine.engine_for("matrix").name
        self._held: list[int | None] = [None] * len(versions)
        self._next = 0
        self._claimed: Area | None = None
        self._delay = 0.0
        self._local = local.get(self._name)
        self._arrivals = arrivals.get(self._name)
        wanted = (c.ops[op.name].tensors.get(self._name) if op.name in c.ops else None for c in cells)
        broadcast = movement.machine.moves("broadcast", "shared", "weights")
        copied = receivers(wanted, broadcast)
        self._groups = [(cores, cells[cores[0]].tensors[self._name], box) for box, cores in copied]

    @property
    def together(self) -> int:
        """How many cores wait for the same at most: for a broadcast, or all for their own memory."""
        sizes = [len(cores) for cores, _, _ in self._groups]
        return max(sizes, default=1) if self._local is None else sum(sizes)

    def prefetch(self) -> None:
        """Claim the first tiles, as many as the plan says, before the loads of the operator's inputs."""
        for part in range(min(self._stream.prefetch, len(self._walk.weights[0]))):
            self.claim(0, part)

    def claim(self, index: int, part: int) -> float:
        """When the weights of a reduce tile are there; they are copied in if no version holds them."""
        key = self._walk.weights[index][part]
        if key in self._held:
            self._claimed = self._versions[self._held.index(key)]
            return self._claimed.ready.last
        version = self._stream.versions[self._next % len(self._stream.versions)]
        self._next += 1
        self._held[version] = key
        area = self._claimed = self._versions[version]
        if len(self._used) > 1 and _shares_bank(self._movement.machine, area, [self._versions[v] for v in self._used]):
            self._delay += self._walk.loads[key].payload * conflict_cycles(self._movement.machine)
        move = self._walk.loads[key]
        return self._broadcast(key, area, move) if self._local is None else self._move(self._local, area, move)

    def multiply(self, start: float, busy: float) -> float:
        """When the matrix engine, ``busy`` for so long alone, is done with what was claimed last."""
        stop = start + busy + self._delay
        self._delay = 0.0
        return stop

    def release(self, stop: float) -> None:
        """The matrix engine is done with the version claimed last."""
        assert self._claimed is not None
        self._claimed.use(stop, self._matrix)

    def _broadcast(self, key: int, area: Area, move: CopyTime) -> float:
        arrivals: list[tuple[float, str | None]] = []
        for cores, corner, wanted in self._groups:
            tile = tuple(Span(s.lo + c.lo, s.hi + c.lo) for s, c in zip(self._walk.boxes[key], corner, strict=True))
            box = intersect(tile, wanted)
            if is_empty(box):
                continue
            shared = self._movement.weights_buffer(self._name, self._slot, box)
            stop, engine = self._movement.copy(cores, shared, box, "weights", area.free, move, self._turns)
            arrivals.append((stop, engine))
        return _arrive(area, arrivals)

    def _move(self, local: Area, area: Area, move: CopyTime) -> float:
        engine = self._movement.engine("copy", "local", "weights")
        queue = self._movement.queues[engine.name]
        computed = self._arrivals[1][-1] if self._arrivals else 0.0
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


def conflict_cycles(machine: Machine) -> float:
    """Cycles that a byte of weights costs the matrix engine if it is loaded into a bank that the engine reads.

    A load of b bytes takes b / r cycles, in which both want d + r of a bank that serves p: the engine is slowed by
    (d + r) / p. An engine that wants more than p goes at that pace already.
    """
    engine, served = machine.engine_for("matrix"), float(machine.role("weights").bytes_per_cycle)
    wanted = engine.columns * max(DTYPES[dtype] * rate for dtype, rate in (engine.rate or {}).items())
    loaded = min(served, float(route(machine, "shared", "weights").bytes_per_cycle))
    return max(0.0, (min(served, wanted) + loaded - served) / (loaded * served))


def _shares_bank(machine: Machine, area: Area, versions: Sequence[Area]) -> bool:
    """Whether an area has a bank of the weight memory in common with another one."""
    memory = machine.role("weights")
    bank = memory.capacity // memory.banks
    if memory.interleave:
        return True
    first, last = area.low // bank, max(area.low, area.high - 1) // bank
    return any(v is not area and v.low // bank <= last and first <= max(v.low, v.high - 1) // bank for v in versions)
