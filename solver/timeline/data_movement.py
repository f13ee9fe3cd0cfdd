"""The part of the predicted timeline that moves bytes: DMA, copies to and from the cores, and what lies where.

Queues issue in order, links are shared, and nothing is written before all that used its place is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from ...ir.box import Box, Holders, intersect, is_empty, overlap, spread, volume
from ...ir.graph import DTYPES, Graph
from ...ir.machine import Engine, Level, Machine
from ...ir.plan import Plan, SharedBuffer, Transfer, WeightStream
from ...ir.semantics.cell import Cell
from ...ir.semantics.portions import BroadcastTurns
from ..cost.copy_time import CopyTime
from ..cost.instructions import element_strides
from ..cost.transfers import Copies, SharedLoad
from ..reduced_machine import extent
from .bank_conflicts import bank_parts
from .fair_sharing import RecordedRun
from .link_sharing import Area, DmaQueue, Horizon, Links, Reached, Space
from .shared_buffers import Shared, Written, by_buffer, seen
from .staging_queues import StagingQueues

MOST_DELAYED = 64
"""Fetches ahead of the cores that can be delayed by them at most; chosen, not measured."""


class Movement:
    """Times, in cycles, until which the queues that move bytes are occupied, and what has arrived when."""

    def __init__(
        self, graph: Graph, machine: Machine, plan: Plan, copies: Copies, durations: Sequence[float] | None = None, *,
        recorded: bool = True,
    ) -> None:  # fmt: skip
        """``durations``: cycles that the body of each transfer of cores takes, if that is known already.

        ``recorded``: whether what moves is recorded, where that is of use.
        """
        self.graph = graph
        self.machine = machine
        self.levels = machine.levels
        self.copies = copies
        self.transfers = copies.transfers
        self.links = Links(machine, self._delay, {m.name: extent(plan, m.name) for m in machine.memories})
        self.spaces = {m.name: Space() for m in machine.memories}
        self.queues = {e.name: [0.0] * (machine.cores if e.scope == "core" else 1) for e in machine.engines}
        """Of each engine, until when it is occupied; one that a core has, on each core."""
        self.ends = Horizon()
        """When everything so far is done."""
        alone = self.levels.has_exchange or plan.barrier
        self.run = RecordedRun() if recorded and not alone else None
        """What moves, where cores load from main memory themselves. Behind a barrier nothing is in flight any more."""
        self._durations = iter(durations) if durations is not None else None
        self._memories = {m.name: m for m in machine.memories}
        self._plan = plan
        self._spans: dict[tuple[SharedBuffer, tuple[Box, ...]], Reached] = {}
        self._turns: dict[Transfer | WeightStream, BroadcastTurns] = {}
        self._fetched: deque[tuple[Area, Area, str]] = deque(maxlen=MOST_DELAYED)
        """Of the last fetches, in their order: where they go, the homes that they come from, and the engine."""
        self._yielding: dict[DmaQueue, dict[str, str | None]] = {}
        """The engines of a queue of DMA by name, and what :meth:`alone` says of each."""
        self._homes: dict[str, Box] = {}
        self._home_areas: dict[str, Area] = {}
        """Of the homes whose lifetime has begun."""
        self._opening_homes: dict[int, list[SharedBuffer]] = {}
        self._live: dict[str, list[Shared]] = {}
        self._ending: dict[int, list[str]] = {}
        """By the last slot of a lifetime, so that a slot looks at what ends with it and not at all that lives."""
        self._stored: dict[str, list[Written]] = {}
        self._opening: dict[int, list[SharedBuffer]] = {}
        self._phased: dict[tuple[str, int], deque[SharedBuffer]] = {}
        self._holders: dict[tuple[str, int], Holders[int]] = {}
        """Of constants in a slot: which of the buffers that live or wait has a tile, by its place in ``_live``."""
        loaded = {self.levels.source_of(constant=constant).name for constant in (False, True)}
        for buffer in plan.shared:
            if buffer.memory in self.levels.homes:
                self._homes[buffer.tensor] = buffer.box
                self._opening_homes.setdefault(buffer.live[0], []).append(buffer)
            if buffer.memory not in loaded:
                continue
            if buffer.opens_with_slot:
                self._opening.setdefault(buffer.live[0], []).append(buffer)
            else:
                self._phased.setdefault((buffer.tensor, buffer.live[0]), deque()).append(buffer)

    def turns(self, move: Transfer | WeightStream) -> BroadcastTurns:
        """Whose turn it is to issue a broadcast of an operand."""
        if move not in self._turns:
            self._turns[move] = BroadcastTurns(move.issuers)
        return self._turns[move]

    def barrier(self) -> None:
        """Nothing that comes begins before the end of all that was."""
        for name, times in self.queues.items():
            end = self.ends.seen_by(self.alone(self.machine.engine[name]))
            times[:] = [max(time, end) for time in times]

    @property
    def end(self) -> float:
        """When everything so far is done."""
        return self.ends.last

    def over(self, stop: float, engine: Engine) -> float:
        """Take note of the end of something."""
        self.ends.note(stop, self.alone(engine))
        return stop

    def alone(self, engine: Engine) -> str | None:
        """The name of an engine that a cluster has but once: only then is it known to see its own results at once."""
        return engine.name if engine.scope != "core" or self.machine.cores == 1 else None

    # Between main and shared memory.

    def begin_slot(self, slot: int) -> None:
        """Begin the lifetimes of homes and of shared buffers that begin in this slot."""
        for home in self._opening_homes.get(slot, ()):
            self._home_areas[home.tensor] = self.spaces[home.memory].open(home.address, home.bytes)
        for buffer in self._opening.get(slot, ()):
            self._open(buffer)

    def end_slot(self, slot: int) -> None:
        """Forget the buffers that no later slot uses."""
        self._holders.clear()
        for tensor in dict.fromkeys(self._ending.pop(slot, ())):
            live = [s for s in self._live[tensor] if s.buffer.live[1] > slot + 1]
            if live:
                self._live[tensor] = live
            else:
                del self._live[tensor]

    def _open(self, buffer: SharedBuffer) -> None:
        if self.levels.has_exchange:
            area = self.spaces[buffer.memory].open(buffer.address, buffer.bytes)
        else:
            area = self._home_areas[buffer.tensor]
        shared = Shared(buffer, area)
        self._live.setdefault(buffer.tensor, []).append(shared)
        self._ending.setdefault(buffer.live[1] - 1, []).append(buffer.tensor)
        if not buffer.fetch:
            return
        home = self._home_areas[buffer.tensor]
        dtype = self.graph.tensor[buffer.tensor].dtype
        boxes = (self._homes[buffer.tensor], buffer.box)
        way = self.levels.home_of(constant=buffer.tensor in self.graph.constant_names), self.levels.exchange
        move = self.transfers.transfer(way, buffer.box, boxes, dtype)
        engine = self.engine("dma", *way)
        queue = self.queues[engine.name]
        start = max(queue[0], area.floor.seen_by(engine.name), self.stored(buffer.tensor, buffer.box, engine))
        queue[0] = self.links.body(start + move.issue, move, buffer, queue="dma in")
        arrived = self.over(queue[0] + move.latency, engine)
        area.ready.note(arrived, engine.name)
        for used in (area, home):
            used.use(arrived, engine.name)
        self._fetched.append((area, home, engine.name))

    def _delay(self, queue: DmaQueue, since: float, cycles: float) -> None:
        """A queue of DMA has yielded bandwidth to cores: what it ends later than ``since`` ends so much later."""
        if queue not in self._yielding:
            exchange, homes = self.levels.exchange, (self.levels.home, self.levels.constants)
            ways = [(exchange, homes[0])] if queue == "dma out" else [(home, exchange) for home in homes]
            engines = (self.engine("dma", *way) for way in ways)
            self._yielding[queue] = {engine.name: self.alone(engine) for engine in engines}
        yielding = self._yielding[queue]
        for name in yielding:
            times = self.queues[name]
            times[0] += cycles if times[0] > since else 0.0
        if queue == "dma out":
            return
        for area, home, name in reversed(self._fetched):
            if area.ready.last > since:
                arrived = area.ready.last + cycles
                self.ends.note(arrived, yielding[name])
                for horizon in (area.ready, area.uses, home.uses):
                    horizon.note(arrived, name)

    def stored(self, tensor: str, box: Box, engine: Engine) -> float:
        """When main memory has ``box`` for an engine that reads it."""
        name = self.alone(engine)
        written = self._stored.get(tensor, ())
        return max((seen(stop, by, name) for part, stop, by in written if overlap(part, box)), default=0.0)

    def home(self, tensor: str) -> Box:
        """What main memory holds of a tensor: all of it."""
        return self._homes[tensor]

    def home_free(self, tensor: str, engine: Engine) -> float:
        """When an engine can write to the home of a tensor, whatever lay there before."""
        return self._home_areas[tensor].floor.seen_by(self.alone(engine))

    def read_by_kernel(self, tensor: str, stop: float, engine: Engine) -> None:
        """Take note until when a kernel reads a tensor."""
        self._home_areas[tensor].use(stop, self.alone(engine))

    def written_by_kernel(self, tensor: str, stop: float, engine: Engine) -> None:
        """Take note that a kernel's result is there."""
        self._home_areas[tensor].use(stop, self.alone(engine))
        self._stored.setdefault(tensor, []).append((self._homes[tensor], stop, engine.name))
        if not self.levels.has_exchange:
            for shared in self._live.get(tensor, ()):
                shared.write(self._homes[tensor], stop, engine.name)

    def _save(self, shared: Shared, ready: float) -> None:
        """Copy a buffer to its home in main memory."""
        buffer = shared.buffer
        boxes = (buffer.box, self._homes[buffer.tensor])
        move = self.transfers.transfer(
            (self.levels.exchange, self.levels.home), buffer.box, boxes, self.graph.tensor[buffer.tensor].dtype
        )
        engine = self.engine("dma", self.levels.exchange, self.levels.home)
        queue = self.queues[engine.name]
        home = self._home_areas[buffer.tensor]
        start = max(queue[0], ready, home.floor.seen_by(engine.name))
        queue[0] = self.links.body(start + move.issue, move, buffer, queue="dma out")
        stop = self.over(queue[0] + move.latency, engine)
        for area in (shared.area, home):
            area.use(stop, engine.name)
        self._stored.setdefault(buffer.tensor, []).append((buffer.box, stop, engine.name))

    # Between shared memory and the cores.

    def source(self, tensor: str) -> Level:
        """What the cores load a tensor from."""
        return self.levels.source_of(constant=tensor in self.graph.constant_names)

    def holding(self, tensor: str, box: Box) -> list[tuple[Shared, Box]]:
        """The buffers that hold ``box``, and what of it; the plan promises them."""
        parts = spread(box, ((s, s.buffer.box) for s in self._live[tensor]))
        assert parts is not None
        return parts

    def weights_buffer(self, tensor: str, slot: int, box: Box) -> Shared:
        """The buffer of a constant that holds ``box``; reaching it in a circular buffer fetches what it leads to."""
        live, waiting = self._live[tensor], self._phased.get((tensor, slot), deque[SharedBuffer]())
        if (tensor, slot) not in self._holders:
            # What waits is opened in this order, so that places in the list of what lives are known before.
            buffers = [*(s.buffer for s in live), *waiting]
            self._holders[tensor, slot] = Holders([(n, b.box) for n, b in enumerate(buffers)])
        number = self._holders[tensor, slot].first(box)
        while waiting and (number is None or number >= len(live)):
            self._open(waiting.popleft())
        if number is None:
            # Where tiles of other cores begin elsewhere, no buffer holds those of the first: one with a part of it.
            return next((s for s in live if overlap(s.buffer.box, box)), live[-1])
        holder = live[number]
        while waiting and waiting[0].ring_position <= holder.buffer.ring_position + waiting[0].ring_lead:
            self._open(waiting.popleft())
        return holder

    def engine(self, kind: str, source: Level, target: Level) -> Engine:
        """The engine that moves data from one level to another."""
        return self.machine.mover(kind, source, target)

    def copy(
        self, cores: Sequence[int], source: Shared, box: Box, target: Level, free: Callable[[str | None], float],
        move: CopyTime, turns: BroadcastTurns, place: Area, reached: Reached | None = None,
    ) -> tuple[float, str | None]:  # fmt: skip
        """Copy ``box`` to core memories, in a broadcast if several ``cores`` receive it.

        ``free``: when an engine can write to its ``place``; ``reached``: what of the source other cores load meanwhile.
        Returns when it has arrived, and the engine: none of a broadcast, as all cores but one receive it from another.
        """
        origin = self.source(source.buffer.tensor)
        engine = self.engine("broadcast" if len(cores) > 1 else "copy", origin, target)
        engine_name = engine.name if len(cores) == 1 else None
        queue = self.queues[engine.name]
        issuer = turns.issuer(cores)
        ready = max(source.ready(box, self.alone(engine)), free(engine_name))
        queue[issuer] = self._carry(engine, (issuer,), ready, move, source.buffer, target, place, reached=reached)
        stop = self.over(queue[issuer] + move.latency, engine)
        source.area.use(stop, self.alone(engine))
        return stop, engine_name

    def load(self, segment: int, cells: Sequence[Cell], areas: Mapping[str, Area]) -> dict[str, list[float]]:
        """Bring tensors from shared to local memory, each to its area on each core; when each portion has arrived.

        ``cells`` are those of core 0, 1 …. Equal boxes are one broadcast; portions come in turn.
        """
        names = list(areas)
        moves = [self._plan.transfer[segment, name] for name in names]
        loads = [
            self.copies.load(
                tuple([cell.loaded(move.tensor) for cell in cells]), move.portion, self.source(move.tensor)
            )
            for move in moves
        ]
        arrivals = [[0.0] * load.turns for load in loads]
        for number, turn in self.copies.order(loads):
            name = names[number]
            beside = tuple(group.portions[turn] for group in loads[number].groups if turn < len(group.portions))
            for group in loads[number].groups:
                if turn < len(group.portions):
                    arrived = self._portion(moves[number], group, group.portions[turn], areas[name], beside)
                    if arrived > arrivals[number][turn]:
                        arrivals[number][turn] = arrived
        return {name: list(accumulate(times, max)) for name, times in zip(names, arrivals, strict=True)}

    def _portion(
        self, transfer: Transfer, group: SharedLoad, portion: Box, area: Area, beside: tuple[Box, ...]
    ) -> float:
        """Bring a portion of a box to its cores, ``beside`` those of other cores; when it has arrived."""
        arrived, name = 0.0, transfer.tensor
        for shared, part in self.holding(name, portion):
            boxes = (shared.buffer.box, group.room)
            way = self.source(name), self.levels.activations
            move = self.transfers.transfer(way, part, boxes, self.graph.tensor[name].dtype)
            turns = self.turns(transfer)
            reached = self._reached(shared.buffer, beside) if self.links.crowded else None
            first, end = self._bytes(name, part, group.room)
            free = area.floor_of(area.low + first, area.low + end).seen_by
            arrived, engine = self.copy(group.cores, shared, part, way[1], free, move, turns, area, reached)
            area.ready.note(arrived, engine)
            area.use(arrived, engine)
        return arrived

    def _reached(self, buffer: SharedBuffer, boxes: tuple[Box, ...]) -> Reached:
        """The bytes of a buffer from the first to the last of each box."""
        key = buffer, boxes
        if key not in self._spans:
            parts = (intersect(box, buffer.box) for box in boxes)
            self._spans[key] = tuple(self._bytes(buffer.tensor, p, buffer.box) for p in parts if not is_empty(p))
        return self._spans[key]

    def _bytes(self, tensor: str, part: Box, held: Box) -> tuple[int, int]:
        """From where to where a part of a tensor lies in a dense buffer that holds a box of it."""
        item, strides = DTYPES[self.graph.tensor[tensor].dtype], element_strides(held)
        low = sum((p.lo - b.lo) * s for p, b, s in zip(part, held, strides, strict=True))
        last = sum((p.hi - 1 - b.lo) * s for p, b, s in zip(part, held, strides, strict=True))
        return low * item, (last + 1) * item

    def store(
        self, segment: int, cells: Sequence[Cell], name: str, ready: Callable[[Cell, Box], float], area: Area,
        simultaneous: int, staging: StagingQueues,
    ) -> None:  # fmt: skip
        """Bring each core's share of a result to shared memory, and from there to main memory if planned.

        ``ready``: when a portion of a cell's share is there; ``simultaneous``: how many cores are that far at one time.
        ``staging``: the queues of a core, by which copies go that stop over in a staging memory.
        """
        owners = [(core, cell) for core, cell in enumerate(cells) if name in cell.owned]
        if not owners or name not in self._live:
            return
        extents = self._plan.transfer[segment, name].portion
        shares = [(core, cell, self.copies.portions(cell.owned[name], extents)) for core, cell in owners]
        _, largest, _ = max(shares, key=lambda share: volume(share[1].owned[name]))
        used: dict[int, tuple[Shared, float]] = {}
        engine = self.engine("copy", self.levels.activations, self.levels.exchange)
        alone = self.alone(engine)
        for turn in range(max(len(parts) for _, _, parts in shares)):
            # All owners store their portions side by side; one stands for them.
            stored = [(core, cell, parts[turn]) for core, cell, parts in shares if turn < len(parts)]
            _, writer, portion = next((entry for entry in stored if entry[1] is largest), stored[0])
            targets = [held for _, _, part in stored for held in self.holding(name, part)]
            begin = max(ready(writer, portion), *(shared.area.floor.seen_by(alone) for shared, _ in targets))
            from_cores = [core for core, _, _ in stored]
            stop = self._write(name, writer.allocated(name), portion, begin, from_cores, simultaneous, area, staging)
            area.use(stop, engine.name)
            for shared, box in by_buffer(targets):
                shared.write(box, stop, alone)
                used[id(shared)] = shared, stop
        for shared, stop in used.values():
            if shared.buffer.store:
                self._save(shared, stop)
            elif not self.levels.has_exchange:
                self._stored.setdefault(name, []).append((shared.buffer.box, stop, alone))

    def _write(
        self, name: str, room: Box, portion: Box, begin: float, cores: Sequence[int], simultaneous: int, place: Area,
        staging: StagingQueues,
    ) -> float:  # fmt: skip
        """Copy a portion out of ``room`` in local memory, as all these cores do at once; when it has arrived."""
        stop = begin
        engine = self.engine("copy", self.levels.activations, self.levels.exchange)
        queue = self.queues[engine.name]
        for shared, part in self.holding(name, portion):
            boxes = (room, shared.buffer.box)
            way = self.levels.activations, self.levels.exchange
            move = self.transfers.transfer(way, part, boxes, self.graph.tensor[name].dtype)
            stopover, ready, latency = move.stopover, begin, move.latency
            if stopover is not None:
                staging.take({stopover.engine: self.queues[stopover.engine]})
                ready = staging.copy_into_room(stopover, begin)
                latency -= stopover.delay
            # The last one to begin stands for all.
            start = max(ready, *(queue[core] for core in cores))
            done = self._carry(
                engine, cores, ready, move, shared.buffer, way[0], place, len(cores), min(len(cores), simultaneous)
            )
            if stopover is not None:
                cycles = (done - start) / stopover.parts
                done = staging.copy_from_rooms(stopover, begin, ready, start, cycles, latency)
                staging.give({stopover.engine: self.queues[stopover.engine]})
            for core in cores:
                queue[core] = max(queue[core], ready) + done - start
            stop = self.over(done + latency, engine)
        return stop

    def _carry(
        self, engine: Engine, cores: Sequence[int], ready: float, move: CopyTime, buffer: SharedBuffer, level: Level,
        place: Area, copies: int = 1, simultaneous: int | None = None, reached: Reached | None = None,
    ) -> float:  # fmt: skip
        """When equal copies of ``cores`` are over that can be issued when ``ready``; their queues are left as they are.

        ``place``: the bytes of a core's memory, of this level, that they come from or go to.
        """
        queue = self.queues[engine.name]
        free = max(queue[core] for core in cores)
        start = max(ready, free) + move.issue
        if self._durations is not None:
            stop = start + next(self._durations)
        else:
            stop = self.links.body(start, move, buffer, copies, simultaneous, reached=reached)
        if self.run is not None:
            banks = bank_parts(self._memories[level.name], place.low, place.high - place.low)
            queues = tuple((engine.name, core) for core in cores)
            self.run.moved(queues, ready, free, stop, copies, move, banks, loads=simultaneous is None)
        return stop
