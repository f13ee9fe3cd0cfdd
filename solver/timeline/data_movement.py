"""The part of the predicted timeline that moves bytes: DMA, copies to and from the cores, and what lies where.

Queues issue in order, links are shared, and nothing is written before all that used its place is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from ...ir.box import Box, contains, hull, overlap, spread, volume
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan, SharedBuffer, Transfer, WeightStream
from ...ir.semantics.cell import Cell
from ...ir.semantics.portions import BroadcastTurns
from ..cost.instructions import CopyTime
from ..cost.transfers import Copies, SharedLoad
from .link_sharing import Area, Links, Queue, Space

MOST_DELAYED = 64
"""Fetches ahead of the cores that can be delayed by them at most; chosen, not measured."""


@dataclass
class Shared:
    """A buffer of the shared memory while it lives; ``written``: what was stored to it, and when that arrived."""

    buffer: SharedBuffer
    area: Area
    written: list[tuple[Box, float]] = field(default_factory=list[tuple[Box, float]])

    def ready(self, box: Box) -> float:
        """When ``box`` can be read."""
        # What was stored last arrived last.
        late = (stop for part, stop in reversed(self.written) if overlap(part, box))
        return max(next(late, 0.0), self.area.ready)

    def write(self, box: Box, stop: float) -> None:
        """Take note that ``box`` has been stored at ``stop``."""
        self.area.use(stop)
        self.written.append((box, stop))


class Movement:
    """Times, in cycles, until which the queues that move bytes are occupied, and what has arrived when."""

    def __init__(self, graph: Graph, machine: Machine, plan: Plan, copies: Copies) -> None:
        self.graph = graph
        self.machine = machine
        self.copies = copies
        self.transfers = copies.transfers
        self.links = Links(machine, self._delay)
        self.spaces = {m.name: Space() for m in machine.memories}
        self.copy_in = [0.0] * machine.cores
        self.copy_out = self.dma_in = self.dma_out = 0.0
        self.end = 0.0
        """When everything so far is done."""
        self._plan = plan
        self._turns: dict[Transfer | WeightStream, BroadcastTurns] = {}
        self._fetched: deque[Area] = deque(maxlen=MOST_DELAYED)
        """Of the last fetches, in their order."""
        self._homes: dict[str, Box] = {}
        self._live: dict[str, list[Shared]] = {}
        self._ending: dict[int, list[str]] = {}
        """By the last slot of a lifetime, so that a slot looks at what ends with it and not at all that lives."""
        self._stored: dict[str, list[tuple[Box, float]]] = {}
        self._opening: dict[int, list[SharedBuffer]] = {}
        self._phased: dict[tuple[str, int], list[SharedBuffer]] = {}
        main, shared = machine.role("main").name, machine.role("shared").name
        for buffer in plan.shared:
            if buffer.memory == main:
                self._homes[buffer.tensor] = buffer.box
            if buffer.memory != shared:
                continue
            if buffer.opens_with_slot:
                self._opening.setdefault(buffer.live[0], []).append(buffer)
            else:
                self._phased.setdefault((buffer.tensor, buffer.live[0]), []).append(buffer)

    def turns(self, move: Transfer | WeightStream) -> BroadcastTurns:
        """Whose turn it is to issue a broadcast of an operand."""
        if move not in self._turns:
            self._turns[move] = BroadcastTurns(move.issuers)
        return self._turns[move]

    def barrier(self) -> None:
        """Nothing that comes begins before the end of all that was."""
        self.dma_in = self.dma_out = self.copy_out = self.end
        self.copy_in = [self.end] * self.machine.cores

    def over(self, stop: float) -> float:
        """Take note of the end of something."""
        if stop > self.end:
            self.end = stop
        return stop

    # Between main and shared memory.

    def begin_slot(self, slot: int) -> None:
        """Begin the lifetimes of shared buffers that begin in this slot."""
        for buffer in self._opening.get(slot, ()):
            self._open(buffer)

    def end_slot(self, slot: int) -> None:
        """Forget the buffers that no later slot uses."""
        for tensor in dict.fromkeys(self._ending.pop(slot, ())):
            left = [s for s in self._live[tensor] if s.buffer.live[1] > slot + 1]
            if left:
                self._live[tensor] = left
            else:
                del self._live[tensor]

    def _open(self, buffer: SharedBuffer) -> None:
        shared = Shared(buffer, self.spaces[buffer.memory].open(buffer.address, buffer.bytes))
        self._live.setdefault(buffer.tensor, []).append(shared)
        self._ending.setdefault(buffer.live[1] - 1, []).append(buffer.tensor)
        if not buffer.fetch:
            return
        dtype = self.graph.tensor[buffer.tensor].dtype
        boxes = (self._homes[buffer.tensor], buffer.box)
        move = self.transfers.transfer(("main", "shared"), buffer.box, boxes, dtype)
        start = max(self.dma_in, shared.area.floor, self.stored(buffer.tensor, buffer.box))
        self.dma_in = self.links.body(start + move.issue, move, queue="dma in")
        shared.area.ready = self.over(self.dma_in + move.latency)
        shared.area.use(shared.area.ready)
        self._fetched.append(shared.area)

    def _delay(self, queue: Queue, since: float, cycles: float) -> None:
        """A queue of DMA has yielded bandwidth to cores: what it ends later than ``since`` ends so much later."""
        if queue == "dma out":
            self.dma_out += cycles if self.dma_out > since else 0.0
            return
        self.dma_in += cycles if self.dma_in > since else 0.0
        for area in reversed(self._fetched):
            if area.ready <= since:
                break
            area.ready = self.over(area.ready + cycles)
            area.use(area.ready)

    def stored(self, tensor: str, box: Box) -> float:
        """When main memory has ``box``."""
        return max((stop for part, stop in self._stored.get(tensor, ()) if overlap(part, box)), default=0.0)

    def home(self, tensor: str) -> Box:
        """What main memory holds of a tensor: all of it."""
        return self._homes[tensor]

    def written_by_kernel(self, tensor: str, stop: float) -> None:
        self._stored.setdefault(tensor, []).append((self._homes[tensor], stop))
        if not self.machine.has_shared:
            for shared in self._live.get(tensor, ()):
                shared.write(self._homes[tensor], stop)

    def _save(self, shared: Shared, ready: float) -> None:
        """Copy a buffer to its home in main memory."""
        buffer = shared.buffer
        boxes = (buffer.box, self._homes[buffer.tensor])
        move = self.transfers.transfer(("shared", "main"), buffer.box, boxes, self.graph.tensor[buffer.tensor].dtype)
        start = max(self.dma_out, ready)
        self.dma_out = self.links.body(start + move.issue, move, queue="dma out")
        stop = self.over(self.dma_out + move.latency)
        shared.area.use(stop)
        self._stored.setdefault(buffer.tensor, []).append((buffer.box, stop))

    # Between shared memory and the cores.

    def holding(self, tensor: str, box: Box) -> list[tuple[Shared, Box]]:
        """The buffers that hold ``box``, and what of it; the plan promises them."""
        parts = spread(box, ((s, s.buffer.box) for s in self._live[tensor]))
        assert parts is not None
        return parts

    def weights_buffer(self, tensor: str, slot: int, box: Box) -> Shared:
        """The buffer of a constant that holds ``box``; reaching it in a circular buffer fetches what it leads to."""
        waiting = self._phased.get((tensor, slot), [])
        while True:
            holder = next((s for s in self._live[tensor] if contains(s.buffer.box, box)), None)
            if holder is not None:
                while waiting and waiting[0].ring_position <= holder.buffer.ring_position + waiting[0].ring_lead:
                    self._open(waiting.pop(0))
                return holder
            if not waiting:
                # Where tiles of other cores begin elsewhere, no buffer holds those of the first: one with a part of it.
                return next((s for s in self._live[tensor] if overlap(s.buffer.box, box)), self._live[tensor][-1])
            self._open(waiting.pop(0))

    def copy(self, cores: Sequence[int], ready: float, move: CopyTime, turns: BroadcastTurns) -> float:
        """One copy into core memories (a broadcast if several ``cores`` receive it); when it has arrived."""
        issuer = turns.issuer(cores)
        start = max(self.copy_in[issuer], ready)
        self.copy_in[issuer] = self.links.body(start + move.issue, move)
        return self.over(self.copy_in[issuer] + move.latency)

    def load(self, segment: int, cells: Sequence[Cell], areas: Mapping[str, Area]) -> dict[str, list[float]]:
        """Bring tensors from shared to local memory, each to its area on each core; when each portion has arrived.

        ``cells`` are those of core 0, 1 …. Equal boxes are one broadcast; portions come in turn.
        """
        names = list(areas)
        moves = [self._plan.transfer[segment, name] for name in names]
        loads = [
            self.copies.load(tuple([cell.tensors.get(move.tensor) for cell in cells]), move.portion) for move in moves
        ]
        arrivals = [[0.0] * load.turns for load in loads]
        for number, turn in self.copies.order(loads):
            name = names[number]
            for group in loads[number].groups:
                if turn < len(group.portions):
                    arrived = self._portion(moves[number], group, group.portions[turn], areas[name])
                    if arrived > arrivals[number][turn]:
                        arrivals[number][turn] = arrived
        return {name: list(accumulate(times, max)) for name, times in zip(names, arrivals, strict=True)}

    def _portion(self, transfer: Transfer, group: SharedLoad, portion: Box, area: Area) -> float:
        """Bring a portion of a box to its cores; when it has arrived."""
        arrived, name = 0.0, transfer.tensor
        for shared, part in self.holding(name, portion):
            boxes = (shared.buffer.box, group.box)
            move = self.transfers.transfer(("shared", "local"), part, boxes, self.graph.tensor[name].dtype)
            arrived = self.copy(group.cores, max(shared.ready(part), area.floor), move, self.turns(transfer))
            area.ready = max(area.ready, arrived)
            area.use(arrived)
            shared.area.use(arrived)
        return arrived

    def store(
        self, segment: int, cells: Sequence[Cell], name: str, ready: Callable[[Cell, Box], float], area: Area,
        together: int,
    ) -> None:  # fmt: skip
        """Bring each core's share of a result to shared memory, and from there to main memory if planned.

        ``ready``: when a portion of a cell's share is there; ``together``: how many cores are that far at one time.
        """
        owners = [c for c in cells if name in c.owned]
        if not owners or name not in self._live:
            return
        extents = self._plan.transfer[segment, name].portion
        shares = [(cell, self.copies.portions(cell.owned[name], extents)) for cell in owners]
        largest, _ = max(shares, key=lambda share: volume(share[0].owned[name]))
        used: dict[int, tuple[Shared, float]] = {}
        for turn in range(max(len(parts) for _, parts in shares)):
            # All owners store their portions side by side; one stands for them.
            stored = [(cell, parts[turn]) for cell, parts in shares if turn < len(parts)]
            writer, portion = next((pair for pair in stored if pair[0] is largest), stored[0])
            targets = [held for _, part in stored for held in self.holding(name, part)]
            begin = max(ready(writer, portion), *(shared.area.floor for shared, _ in targets))
            stop = self._write(name, writer.allocated(name), portion, begin, len(stored), together)
            area.use(stop)
            for shared, box in _by_buffer(targets):
                shared.write(box, stop)
                used[id(shared)] = shared, stop
        for shared, stop in used.values():
            if shared.buffer.store:
                self._save(shared, stop)
            elif not self.machine.has_shared:
                self._stored.setdefault(name, []).append((shared.buffer.box, stop))

    def _write(self, name: str, room: Box, portion: Box, begin: float, copies: int, together: int) -> float:
        """Copy a portion out of ``room`` in local memory, as ``copies`` cores do at once; when it has arrived."""
        stop = begin
        for shared, part in self.holding(name, portion):
            boxes = (room, shared.buffer.box)
            move = self.transfers.transfer(("local", "shared"), part, boxes, self.graph.tensor[name].dtype)
            start = max(self.copy_out, begin)
            self.copy_out = self.links.body(start + move.issue, move, copies, min(copies, together))
            stop = self.over(self.copy_out + move.latency)
        return stop


def _by_buffer(parts: Sequence[tuple[Shared, Box]]) -> list[tuple[Shared, Box]]:
    """Each buffer once, with the smallest box that contains its parts."""
    buffers = {id(shared): shared for shared, _ in parts}
    hulls: dict[int, Box | None] = {}
    for shared, part in parts:
        hulls[id(shared)] = hull(hulls.get(id(shared)), part)
    return [(buffers[number], box) for number, box in hulls.items() if box is not None]
