"""Shared and main memory: buffers in place and alone, and every read finds the right contents in one of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NoReturn

import numpy as np

from ..box import Box, contains, full, is_empty, spread, volume
from ..errors import CheckError
from ..graph import DTYPES, Graph
from ..machine import Machine
from ..plan import SharedBuffer
from ..semantics.box_arrays import Boxes, Int, SortedBoxes, stack
from ..semantics.portions import portions
from .plan_facts import Facts, Loaded, Stored, Stream


def _fail(message: str) -> NoReturn:
    raise CheckError(f"invalid plan: {message}")


def _name(buffer: SharedBuffer) -> str:
    box = "x".join(f"{s.lo}:{s.hi}" for s in buffer.box)
    return f"the buffer of {buffer.tensor}[{box}] in {buffer.memory} during {buffer.live}"


def _outside(machine: Machine) -> tuple[str, str, str]:
    """The memories outside of the cores: of homes, of those of constants, and what the cores load from."""
    levels = machine.levels
    return levels.home.name, levels.constants.name, levels.exchange.name


def check_shared(facts: Facts) -> None:
    """All buffers of the shared and the main memory."""
    machine = facts.machine
    main, constants, shared = _outside(machine)
    for buffer in facts.plan.shared:
        _check_place(facts, buffer)
    homes = [b for b in facts.plan.shared if b.memory in (main, constants)]
    on_chip = [b for b in facts.plan.shared if b.memory == shared or (shared == main and b.memory == constants)]
    for name in dict.fromkeys((main, constants, shared)):
        _check_alone([b for b in facts.plan.shared if b.memory == name])
    _Contents(facts, homes, on_chip).check()


def _is_of_user(graph: Graph, tensor: str) -> bool:
    """Whether it is written before the run, or read after it."""
    return tensor in graph.constant_names or tensor in graph.input_tensors or tensor in graph.output_tensors


def _check_place(facts: Facts, buffer: SharedBuffer) -> None:
    """Of a known tensor, in a known memory, aligned, inside, large enough, in the life of the plan."""
    main, constants, shared = _outside(facts.machine)
    memories, homes = tuple(dict.fromkeys((main, constants, shared))), (main, constants)
    if buffer.tensor not in facts.graph.tensor:
        _fail(f"there is a buffer of {buffer.tensor}, which is no tensor of the graph")
    tensor = facts.graph.tensor[buffer.tensor]
    if buffer.memory not in memories:
        _fail(f"{_name(buffer)} should be in {' or '.join(memories)}")
    if len(buffer.box) != len(tensor.shape) or is_empty(buffer.box) or not contains(full(tensor.shape), buffer.box):
        _fail(f"{_name(buffer)} is no part of shape {tensor.shape}")
    memory = facts.machine.memory[buffer.memory]
    if memory.read_only and buffer.tensor not in facts.graph.constant_names:
        _fail(f"{_name(buffer)} is of no constant, and {memory.name} is read-only")
    if buffer.address < 0 or buffer.address % memory.alignment:
        _fail(f"{_name(buffer)} is at address {buffer.address}, and {memory.name} is aligned to {memory.alignment}")
    if buffer.address + buffer.bytes > memory.capacity:
        over = buffer.address + buffer.bytes - memory.capacity
        _fail(f"{_name(buffer)} ends {over} bytes beyond the {memory.capacity} of {memory.name}")
    need = volume(buffer.box) * DTYPES[tensor.dtype]
    if buffer.bytes < need:
        _fail(f"{_name(buffer)} has {buffer.bytes} bytes and needs {need}")
    slots = len(facts.plan.slots)
    if not 0 <= buffer.live[0] < buffer.live[1] <= slots:
        _fail(f"{_name(buffer)} does not live within the {slots} slots")
    if buffer.memory in homes and buffer.box != full(tensor.shape):
        _fail(f"{_name(buffer)} is a home, and must hold the whole tensor")
    if buffer.memory in homes and _is_of_user(facts.graph, buffer.tensor) and buffer.live != (0, slots):
        _fail(f"{_name(buffer)} is a home of what the user writes or reads, and must be there all the time")
    if buffer.memory in homes and (buffer.fetch or buffer.store):
        _fail(f"{_name(buffer)} is a home, and cannot be fetched or stored")
    ring = buffer.ring_position, buffer.ring_lead
    if min(ring) < 0 or (max(ring) and (not buffer.fetch or buffer.live[1] - buffer.live[0] != 1)):
        _fail(
            f"{_name(buffer)} has ring position {buffer.ring_position} and lead {buffer.ring_lead}, and only what is "
            "fetched for one slot has any"
        )


def _check_alone(buffers: list[SharedBuffer]) -> None:
    """No two share a byte in one slot, but for positions of a ring that are further apart than the later's lead."""
    if not buffers:
        return
    low = np.array([b.address for b in buffers])
    high = low + np.array([b.bytes for b in buffers])
    first = np.array([b.live[0] for b in buffers])
    last = np.array([b.live[1] for b in buffers])
    for i, a in enumerate(buffers):
        meets = (low[i + 1 :] < high[i]) & (high[i + 1 :] > low[i])
        meets &= (first[i + 1 :] < last[i]) & (last[i + 1 :] > first[i])
        for j in np.flatnonzero(meets):
            b = buffers[i + 1 + int(j)]
            if not _take_turns(a, b):
                shared = min(high[i], b.address + b.bytes) - max(a.address, b.address)
                _fail(f"{_name(a)} and {_name(b)} share {shared} bytes")


def _take_turns(a: SharedBuffer, b: SharedBuffer) -> bool:
    early, late = sorted((a, b), key=lambda buffer: buffer.ring_position)
    return a.tensor == b.tensor and a.live == b.live and early.ring_position < late.ring_position - late.ring_lead


def _fetched_at(buffer: SharedBuffer) -> int:
    """The ring position that fetches it."""
    return max(0, buffer.ring_position - buffer.ring_lead)


class _Contents:
    """Who wrote what into which buffers, a portion at a time (see :func:`girih.ir.box.spread`)."""

    def __init__(self, facts: Facts, homes: list[SharedBuffer], on_chip: list[SharedBuffer]) -> None:
        self.facts = facts
        self.homes = {b.tensor: b for b in homes}
        if len(self.homes) < len(homes):
            _fail("a tensor has two homes")
        self.on_chip: dict[str, list[SharedBuffer]] = {}
        for buffer in on_chip:
            self.on_chip.setdefault(buffer.tensor, []).append(buffer)
        self.written: dict[int, list[Stored]] = {}
        """By the identity of a buffer: what is stored into it."""
        self.targets: dict[tuple[str, int, int], list[tuple[SharedBuffer, Box]]] = {}
        """By tensor, slot and core: where the parts of the share go."""
        self._stacked: dict[int, tuple[Int, Int]] = {}
        """By the identity of a buffer: the boxes that are stored into it, and when."""
        self._sorted_tiles: dict[int, SortedBoxes] = {}
        """By their identity, as cells of several cores share their tiles."""
        self._lives = {
            name: np.array([b.live for b in buffers], dtype=np.int64) for name, buffers in self.on_chip.items()
        }
        self._made: dict[str, tuple[list[tuple[Stored, SharedBuffer]], Int]] = {}
        """By tensor: each part of a share with the buffer that it goes to, and their boxes."""

    def check(self) -> None:
        for name, shares in self.facts.shares.items():
            for m in shares:
                targets = self._holding(name, m.box, m.step, m.slot, f"core {m.core} stores")
                for buffer, part in targets:
                    if buffer.fetch:
                        _fail(f"core {m.core} stores {name} in slot {m.slot} into {_name(buffer)}, which is fetched")
                    self.written.setdefault(id(buffer), []).append(replace(m, box=part))
                self.targets[name, m.slot, m.core] = targets
        for buffers in self.on_chip.values():
            for buffer in buffers:
                if buffer.fetch:
                    self._check_fetch(buffer)
                if buffer.store:
                    self._check_store(buffer)
        for name, reads in self.facts.reads.items():
            # What several cores read alike is looked at for the first of them.
            first: dict[tuple[int, Box], Loaded] = {}
            for r in reads:
                first.setdefault((r.slot, r.box), r)
            for read in first.values():
                self._check_read(name, read)
        for name, streams in self.facts.streams.items():
            for stream in streams:
                self._check_stream(name, stream)
            self._check_rings(name, streams)
        self._check_ports()

    def _holding(self, name: str, box: Box, step: int, slot: int, user: str) -> list[tuple[SharedBuffer, Box]]:
        rooms: list[tuple[SharedBuffer, Box]] = []
        if name in self.on_chip:
            live = (self._lives[name][:, 0] <= slot) & (slot < self._lives[name][:, 1])
            rooms = [(self.on_chip[name][i], self.on_chip[name][i].box) for i in np.flatnonzero(live).tolist()]
        parts: list[tuple[SharedBuffer, Box]] = []
        plan = self.facts.plan
        for portion in portions(box, plan.transfer[plan.steps[step].segment, name].portion):
            held = spread(portion, rooms)
            if held is None:
                _fail(f"{user} {box} of {name} in slot {slot}, and no buffers of the shared memory hold it then")
            parts += held
        return parts

    def _check_fetch(self, buffer: SharedBuffer) -> None:
        """What is fetched lies in main memory by then."""
        self._check_home(buffer.tensor, buffer.box, buffer.live[0], f"{_name(buffer)} is fetched")
        if buffer.store:
            _fail(f"{_name(buffer)} is both fetched and stored")

    def _check_home(self, name: str, box: Box, slot: int, user: str) -> None:
        """``box`` of the home of a tensor has its contents when ``slot`` begins, or when the plan ends."""
        if name not in self.homes:
            _fail(f"{user}, and {name} has no home in main memory")
        if slot < len(self.facts.plan.slots):
            self._check_lives(name, slot, user)
        if name in self.facts.graph.constant_names or name in self.facts.graph.input_tensors:
            return
        if name in self.facts.by_host:
            if self.facts.by_host[name] >= slot:
                _fail(f"{user} in slot {slot}, and the host makes {name} in slot {self.facts.by_host[name]}")
            return
        parts, spans = self._parts_made(name)
        wanted = np.array(box, dtype=np.int64).reshape(len(box), 2)
        meet = (np.maximum(spans[:, :, 0], wanted[:, 0]) < np.minimum(spans[:, :, 1], wanted[:, 1])).all(axis=1)
        for i in np.flatnonzero(meet).tolist():
            m, buffer = parts[i]
            if not (buffer.store or buffer is self.homes[name]):
                _fail(f"{user}, and what core {m.core} makes of {name} in slot {m.slot} is not stored to main memory")
            if m.slot >= slot:
                _fail(f"{user} in slot {slot}, and core {m.core} makes a part of {name} in slot {m.slot}")

    def _check_lives(self, name: str, slot: int, user: str) -> None:
        """The home of a tensor is its own in ``slot``."""
        home = self.homes[name]
        if not home.live[0] <= slot < home.live[1]:
            _fail(f"{user} in slot {slot}, which is outside of the life of {_name(home)}")

    def _parts_made(self, name: str) -> tuple[list[tuple[Stored, SharedBuffer]], Int]:
        if name not in self._made:
            parts = [
                (m, buffer, part)
                for m in self.facts.shares.get(name, ())
                for buffer, part in self.targets[name, m.slot, m.core]
            ]
            rank = len(self.facts.graph.tensor[name].shape)
            self._made[name] = [(m, buffer) for m, buffer, _ in parts], stack([p for *_, p in parts], rank).spans
        return self._made[name]

    def _check_store(self, buffer: SharedBuffer) -> None:
        """A stored buffer is written in one slot, as a whole: each slot that writes it copies all of it."""
        if buffer.tensor not in self.homes:
            _fail(f"{_name(buffer)} is stored, and {buffer.tensor} has no home in main memory")
        writers = self.written.get(id(buffer), [])
        slots = {m.slot for m in writers}
        if len(slots) != 1:
            _fail(f"{_name(buffer)} is stored, and written in {len(slots)} slots")
        self._check_lives(buffer.tensor, min(slots), f"{_name(buffer)} is stored")
        written = self._written(buffer, buffer.box, len(self.facts.plan.slots))
        if written < volume(buffer.box):
            _fail(f"{_name(buffer)} is stored, and only {written} of its {volume(buffer.box)} elements are written")

    def _check_read(self, name: str, read: Loaded) -> None:
        """What a core loads is in the buffer: fetched, or written there by those who made it."""
        slot, core = read.slot, read.core
        for buffer, part in self._holding(name, read.box, read.step, slot, f"core {core} reads"):
            if not buffer.opens_with_slot:
                _fail(
                    f"core {core} loads {name} in slot {slot} from {_name(buffer)}, whose ring position "
                    f"{buffer.ring_position} waits for tiles of weights"
                )
            if buffer.fetch:
                continue
            written = self._written(buffer, part, slot)
            if written < volume(part):
                _fail(
                    f"core {core} reads {volume(part)} elements of {name} in slot {slot} from {_name(buffer)}, "
                    f"and {written} of them were written there before"
                )

    def _written(self, buffer: SharedBuffer, box: Box, slot: int) -> int:
        """Elements of ``box`` that are written into the buffer before ``slot``; no two cores make the same."""
        if buffer is self.homes.get(buffer.tensor):
            graph, by_host = self.facts.graph, self.facts.by_host
            present_at_start = buffer.tensor in graph.constant_names or buffer.tensor in graph.input_tensors
            if present_at_start or by_host.get(buffer.tensor, slot) < slot:
                return volume(box)
        writers = self.written.get(id(buffer), [])
        if id(buffer) not in self._stacked:
            when = np.array([m.slot for m in writers], dtype=np.int64)
            self._stacked[id(buffer)] = stack([m.box for m in writers], len(box)).spans, when
        spans, when = self._stacked[id(buffer)]
        wanted = np.array(box, dtype=np.int64).reshape(len(box), 2)
        low, high = np.maximum(spans[:, :, 0], wanted[:, 0]), np.minimum(spans[:, :, 1], wanted[:, 1])
        return int(np.prod(np.maximum(high - low, 0), axis=1)[when < slot].sum())

    def _check_stream(self, name: str, stream: Stream) -> None:
        """Each tile of weights lies in one buffer, and all buffers with any live since the first are brought."""
        inside = np.zeros(len(stream.tiles), dtype=np.bool_)
        for buffer in self.on_chip.get(name, ()):
            if buffer.live[0] <= stream.slot < buffer.live[1]:
                holds = self._sorted(stream.tiles).within(buffer.box)
                if buffer.live[0] > stream.since and holds.size:
                    _fail(
                        f"core {stream.core} fetches weights of {name} from slot {stream.since} on, and "
                        f"{_name(buffer)} begins after that"
                    )
                if not (buffer.fetch or buffer is self.homes.get(name)) and holds.size:
                    _fail(f"core {stream.core} reads weights from {_name(buffer)}, which nothing writes")
                inside[holds] = True
        if not inside.all():
            box = stream.tiles.box(int(np.argmin(inside)))
            _fail(
                f"core {stream.core} needs {box} of {name} in slot {stream.slot}, and no one buffer of the shared "
                "memory holds it then"
            )

    def _sorted(self, tiles: Boxes) -> SortedBoxes:
        if id(tiles) not in self._sorted_tiles:
            self._sorted_tiles[id(tiles)] = SortedBoxes(tiles)
        return self._sorted_tiles[id(tiles)]

    def _check_rings(self, name: str, streams: list[Stream]) -> None:
        """Where positions take turns, no core needs one whose place another has taken."""
        for slot in dict.fromkeys(s.slot for s in streams):
            rings = [b for b in self.on_chip.get(name, ()) if b.live == (slot, slot + 1)]
            late = {(b.ring_position, b.ring_lead) for b in rings if not b.opens_with_slot}
            if not late:
                continue
            for a, b in pairwise(rings):
                if b.ring_position < a.ring_position or _fetched_at(b) < _fetched_at(a):
                    _fail(
                        f"{_name(b)} with ring position {b.ring_position} and lead {b.ring_lead} comes in the list "
                        f"after one with {a.ring_position} and {a.ring_lead}, and neither may go back"
                    )
            begins: dict[int, int] = {}
            ends: dict[int, int] = {}
            for stream in (s for s in streams if s.slot == slot):
                positions = np.full(len(stream.tiles), -1)
                for buffer in reversed(rings):
                    # The first that holds a tile is the one that counts.
                    positions[self._sorted(stream.tiles).within(buffer.box)] = buffer.ring_position
                for position, when in zip(positions.tolist(), stream.when.tolist(), strict=True):
                    begins[position] = min(begins.get(position, when), when)
                    ends[position] = max(ends.get(position, when), when)
            for position, lead in sorted(late):
                # Reaching the position that leads to it, or any later one, fetches it into the place of an older one.
                fetched = min((t for p, t in begins.items() if p >= position - lead), default=None)
                needed = max((t for p, t in ends.items() if p < position - lead), default=-1)
                if fetched is not None and needed >= fetched:
                    _fail(
                        f"ring position {position} of {name} in slot {slot} is fetched at step {fetched} of the walk, "
                        f"and one {lead + 1} or more positions older is still needed at step {needed}"
                    )

    def _check_ports(self) -> None:
        """Results of the graph, and what the host reads, end up in main memory; ports have a home there."""
        graph, slots = self.facts.graph, len(self.facts.plan.slots)
        for name in sorted(graph.input_tensors | graph.output_tensors):
            if name not in self.homes:
                _fail(f"{name} is a port, and has no home in main memory")
        for name in sorted(graph.output_tensors):
            self._check_home(name, full(graph.tensor[name].shape), slots, f"{name} is an output")
        for name, reads in self.facts.host_reads.items():
            for slot in reads:
                self._check_home(name, full(graph.tensor[name].shape), slot, f"the host reads {name}")
        for name, slot in self.facts.by_host.items():
            if name not in self.homes:
                _fail(f"the host makes {name}, which has no home in main memory")
            self._check_lives(name, slot, f"the host makes {name}")
