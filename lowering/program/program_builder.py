"""The program under construction: streams, buffer lifetimes, and strided copies between buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...ir.box import Box, Span, shape_of, volume
from ...ir.graph import Graph, Op
from ...ir.isa.table import DTYPE_NAMES
from ...ir.machine import Level, Machine
from ...ir.plan import LocalBuffer, Plan, SharedBuffer, Transfer, WeightStream
from ...ir.semantics.portions import BroadcastTurns
from ...ir.semantics.staging.staging_rooms import StagingRooms
from ..emission.vector import copies
from ..loops.axes import ByteAccess
from .addresses import PlannedBuffers, QueueTable, box_offset
from .dependences import Dependences, LiveBuffer
from .stamp import Relocatable, relocatable
from .tile_kernels import OperatorDegrees

_MNEMONIC = {"copy": "mcopy", "broadcast": "mbcast", "dma": "dcopy"}


@dataclass(frozen=True)
class TensorBuffer:
    """A buffer that holds ``box`` of a tensor in a memory, with the given byte strides.

    ``areas`` has one entry, but for the target of a broadcast: one for each core.
    """

    memory: str
    areas: tuple[LiveBuffer, ...]
    address: int
    box: Box
    strides: tuple[int, ...]

    def at(self, box: Box) -> int:
        """The address of the corner of ``box``."""
        return self.address + box_offset(box, self.box, self.strides)


def parts_within(box: Box, most: int) -> Iterator[Box]:
    """A box cut into parts of at most so many elements, by halves of its outermost dimensions."""
    cut = next((d for d, span in enumerate(box) if span.size > 1), None)
    if volume(box) <= most or cut is None:
        yield box
        return
    middle = (box[cut].lo + box[cut].hi) // 2
    for span in (Span(box[cut].lo, middle), Span(middle, box[cut].hi)):
        yield from parts_within((*box[:cut], span, *box[cut + 1 :]), most)


class ProgramBuilder:
    """Emits copies and tracks the lifetimes of the plan's buffers; one instance for one lowering."""

    def __init__(self, graph: Graph, plan: Plan, machine: Machine) -> None:
        self.graph = graph
        self.plan = plan
        self.machine = machine
        self.levels = machine.levels
        self.layout = PlannedBuffers(graph, plan, machine)
        self.queues = QueueTable(machine)
        self.dependences = Dependences(len(self.queues.all))
        self.home_areas: dict[str, LiveBuffer] = {}
        """Of the homes whose lifetime has begun."""
        self.shared_areas: dict[SharedBuffer, LiveBuffer] = {}
        self._segment = -1
        self._own_buffers: dict[tuple[int, str], list[LocalBuffer]] = {}
        """By segment and operator: buffers for sums and weights."""
        for local in plan.local:
            if local.use != self.levels.activations.use:
                self._own_buffers.setdefault((local.segment, local.op), []).append(local)
        self._local: dict[tuple[str, str, str], tuple[LocalBuffer, list[list[LiveBuffer]]]] = {}
        self._rooms: dict[tuple[str, int, int], list[list[LiveBuffer]]] = {}
        self._wholes: Mapping[str, str] = {}
        self._known: dict[tuple[object, ...], list[tuple[Relocatable, tuple[int, ...]]]] = {}
        self._staging: dict[tuple[int, int], StagingRooms] = {}
        self._turns: dict[Transfer | WeightStream, BroadcastTurns] = {}

    def turns(self, move: Transfer | WeightStream) -> BroadcastTurns:
        """Whose turn it is to issue a broadcast of an operand."""
        if move not in self._turns:
            self._turns[move] = BroadcastTurns(move.issuers)
        return self._turns[move]

    # Lifetimes.

    def open_segment(self, number: int, wholes: Mapping[str, str]) -> None:
        """Local buffers belong to one segment; ``wholes``: the tensor whose buffer another one lies in."""
        self._segment = number
        self._local.clear()
        self._rooms.clear()
        self._wholes = wholes

    def open_local(self, buffer: LocalBuffer) -> None:
        """Begin the lifetime of a local buffer on every core.

        Private buffers of one operator at one address are one area: within a tile, they take turns.
        """
        memory = self.layout.memory[buffer.memory]
        size = buffer.bytes // buffer.depth
        owner = "" if buffer.use == self.levels.activations.use else buffer.op
        room = (buffer.op, buffer.address, buffer.bytes)
        private = buffer.use == self.levels.sums.use
        if private and room in self._rooms:
            self._local[owner, buffer.use, buffer.name] = (buffer, self._rooms[room])
            return
        areas = [
            [self.dependences.area(memory, core, buffer.address + v * size, size) for v in range(buffer.depth)]
            for core in range(self.machine.cores)
        ]
        self._local[(owner, buffer.use, buffer.name)] = (buffer, areas)
        if private:
            self._rooms[room] = areas

    def copies_of(self, op: str, level: Level, name: str, core: int) -> list[LiveBuffer]:
        """The copies of a multi-buffered buffer of sums or weights on a core, as many as its multi-buffering degree."""
        return self._local[(op, level.use, name)][1][core]

    def room(self, memory: int, core: int, size: int, alignment: int) -> LiveBuffer:
        """Room for operands in a staging memory of a core, one behind the other."""
        if (memory, core) not in self._staging:
            staging = self.machine.memories[memory]
            self._staging[memory, core] = StagingRooms(staging.capacity, staging.alignment)
        address = self._staging[memory, core].open(size, alignment).address
        return self.dependences.area(memory, core, address, size)

    def degrees(self, op: Op) -> OperatorDegrees:
        """The multi-buffering degrees of what an operator of the running segment has of its own."""
        own_buffers = self._own_buffers.get((self._segment, op.name), ())
        private = tuple((b.name, b.depth) for b in own_buffers if b.use == self.levels.sums.use)
        return OperatorDegrees(
            private, max((b.depth for b in own_buffers if b.use == self.levels.weights.use), default=0)
        )

    @property
    def segment(self) -> int:
        """The number of the running segment."""
        return self._segment

    def ring(self, name: str, core: int) -> list[LiveBuffer]:
        """The versions of the data buffer of a constant that comes tile by tile; none if it comes as a whole."""
        key = ("", self.levels.activations.use, name)
        areas = self._local[key][1][core] if key in self._local else []
        return areas if len(areas) > 1 else []

    def has_data(self, name: str) -> bool:
        """Whether the running segment keeps a tensor in local memory."""
        return ("", self.levels.activations.use, self._wholes.get(name, name)) in self._local

    def data(self, name: str, core: int, box: Box) -> TensorBuffer:
        """The local buffer of a tensor, which holds ``box`` (its room in the cell) on this core."""
        buffer, areas = self._local[("", self.levels.activations.use, self._wholes.get(name, name))]
        return TensorBuffer(buffer.memory, (areas[core][0],), buffer.address, box, self.layout.strides(name, box))

    def open_home(self, home: SharedBuffer) -> None:
        """Begin the lifetime of a home in main memory: who writes it comes after what used its bytes before."""
        area = self.dependences.area(self.layout.memory[home.memory], -1, home.address, home.bytes)
        self.home_areas[home.tensor] = area
        if not self.levels.has_exchange:
            self.shared_areas[home] = area

    def open_shared(self, buffer: SharedBuffer, op: int) -> None:
        """Begin the lifetime of a shared buffer and, if planned, fetch it from main memory."""
        area = self.dependences.area(self.layout.memory[self.levels.exchange.name], -1, buffer.address, buffer.bytes)
        self.shared_areas[buffer] = area
        if buffer.fetch:
            self.copy("dma", op, buffer.tensor, buffer.box, None, self.home(buffer.tensor), self.resident(buffer))

    def home(self, name: str) -> TensorBuffer:
        """The place of a tensor in main memory."""
        home = self.layout.homes[name]
        return TensorBuffer(
            home.memory, (self.home_areas[name],), home.address, home.box, self.layout.strides(name, home.box)
        )

    def resident(self, buffer: SharedBuffer) -> TensorBuffer:
        """A shared buffer whose lifetime has begun."""
        strides = self.layout.strides(buffer.tensor, buffer.box)
        return TensorBuffer(buffer.memory, (self.shared_areas[buffer],), buffer.address, buffer.box, strides)

    def broadcasts(self, name: str, level: Level) -> bool:
        """Whether one instruction brings what several cores need of a tensor to this level of theirs."""
        source = self.levels.source_of(constant=name in self.graph.constant_names)
        return self.machine.moves("broadcast", source, level)

    # Copies.

    def copy(
        self,
        kind: str,
        op: int,
        name: str,
        box: Box,
        core: int | None,
        source: TensorBuffer,
        target: TensorBuffer,
        cores: int = 0,
    ) -> None:
        """Copy ``box`` of a tensor from one buffer to another.

        ``kind`` is copy, broadcast or dma; ``core`` issues it; ``cores`` is the mask of a broadcast's receivers.
        Where no engine copies so, a part at a time goes through a staging memory of the core.
        """
        stop = self.machine.stopover(source.memory, target.memory) if kind == "copy" else None
        if stop is not None and core is not None:
            number = self.layout.memory[stop.name]
            for part in parts_within(box, stop.capacity // 2 // self.layout.itemsize(name)):
                size = volume(part) * self.layout.itemsize(name)
                room = self.room(number, core, size, stop.alignment)
                between = TensorBuffer(stop.name, (room,), room.address, part, self.layout.strides(name, part))
                self.copy(kind, op, name, part, core, source, between)
                self.copy(kind, op, name, part, core, between, target)
            return
        queue = self.queues.move(kind, source.memory, target.memory, core)
        ends = target.at(box), source.at(box)
        areas = [target.areas, source.areas]
        for copy, offsets in self._copies(kind, self.graph.tensor[name].dtype, shape_of(box), source, target, cores):
            bases = [end + offset for end, offset in zip(ends, offsets, strict=True)]
            self.dependences.emit(queue, copy.stamp(op, bases), copy, bases, areas)

    def _copies(
        self, kind: str, dtype: str, shape: tuple[int, ...], source: TensorBuffer, target: TensorBuffer, cores: int
    ) -> list[tuple[Relocatable, tuple[int, ...]]]:
        """The instructions of a copy, and where target and source of each begin, counted from their corners."""
        key = (kind, dtype, shape, source.memory, source.strides, target.memory, target.strides, cores)
        if key not in self._known:
            accesses = (ByteAccess("dst", 0, target.strides), ByteAccess("src", 0, source.strides))
            copy_instructions: list[tuple[Relocatable, tuple[int, ...]]] = []
            for piece in copies(shape, *accesses):
                fields: dict[str, int | float] = {f"n{i}": e for i, e in enumerate(piece.extents)}
                for operand, memory, walk in (("dst", target.memory, 0), ("src", source.memory, 1)):
                    fields[f"{operand}.mem"] = self.layout.memory[memory]
                    fields[f"{operand}.dtype"] = DTYPE_NAMES.index(dtype)
                    fields |= {f"{operand}.s{i}": s for i, s in enumerate(piece.strides[walk])}
                if kind == "broadcast":
                    fields["cores"] = cores
                copy_instructions.append((relocatable(_MNEMONIC[kind], fields), piece.bases))
            self._known[key] = copy_instructions
        return self._known[key]
