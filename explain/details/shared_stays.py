"""When each buffer of the shared memory held its box during the run, and which transfers wrote and read it.

A transfer says at which address it writes or reads, and for which operator, but not of which buffer, since buffers
share addresses one after the other. What it fetches is known by its address in main memory; what it stores is a result
of its operator. Each byte of a buffer is written once, so that writes belong to the buffers of the tensor at that
address in the order of their lifetimes, each until it is full. A read belongs to the buffer there, of a tensor that its
operator reads, that was begun last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from ...ir.box import volume
from ...ir.graph import DTYPES
from ...ir.isa.footprint import Strided, footprint
from ...ir.isa.table import Instruction
from ...ir.plan import SharedBuffer
from ..compilation import Compilation
from ..cycles.fetched_tensors import fetched_tensors


@dataclass(frozen=True)
class Copy:
    """One transfer: what it is (fetch, load, broadcast, store or spill), by whom, between which memories, and when."""

    kind: str
    queue: str
    op: str
    source: str
    target: str
    bytes: int
    begin: int
    end: int


@dataclass
class Stay:
    """The contents of a buffer in the run: the transfers that wrote and that read it, in the order of their starts."""

    buffer: SharedBuffer
    room: int
    written: int = 0
    writes: list[Copy] = field(default_factory=list[Copy])
    reads: list[Copy] = field(default_factory=list[Copy])

    @property
    def begin(self) -> int | None:
        """The first cycle in which it is written; ``None`` if no transfer that wrote it is known."""
        return self.writes[0].begin if self.writes else None

    @property
    def end(self) -> int | None:
        """The cycle after the last one in which it is written or read."""
        return max((copy.end for copy in (*self.writes, *self.reads)), default=None)


@dataclass(frozen=True)
class _Access:
    """One end of a transfer that is in the shared memory."""

    low: int
    high: int
    writes: bool
    bytes: int
    tensor: str
    copy: Copy


def shared_stays(compilation: Compilation) -> Sequence[Stay]:
    """One for each buffer of the plan in the shared memory, in the order of the plan."""
    graph, plan, machine = compilation.graph, compilation.plan, compilation.machine
    shared = machine.role("shared").name
    stays = [Stay(b, volume(b.box) * DTYPES[graph.tensor[b.tensor].dtype]) for b in plan.shared if b.memory == shared]
    by_tensor: dict[str, list[Stay]] = defaultdict(list)
    for stay in sorted(stays, key=lambda s: s.buffer.live):
        by_tensor[stay.buffer.tensor].append(stay)
    accesses = sorted(_accesses(compilation), key=lambda a: (a.copy.begin, a.copy.end, a.low))
    for access in accesses:
        if access.writes:
            _write(access, by_tensor, graph.op[access.copy.op].outputs)
    for access in accesses:
        if not access.writes:
            op = graph.op[access.copy.op]
            _read(access, by_tensor, (*op.inputs, *op.outputs))
    return stays


def _write(access: _Access, by_tensor: Mapping[str, Sequence[Stay]], results: Sequence[str]) -> None:
    for name in (access.tensor,) if access.tensor else results:
        for stay in by_tensor.get(name, ()):
            if stay.written < stay.room and _inside(access, stay.buffer):
                stay.written += access.bytes
                stay.writes.append(access.copy)
                return


def _read(access: _Access, by_tensor: Mapping[str, Sequence[Stay]], tensors: Sequence[str]) -> None:
    there = [
        stay
        for name in dict.fromkeys(tensors)
        for stay in by_tensor.get(name, ())
        if stay.writes and stay.writes[0].begin <= access.copy.begin and _inside(access, stay.buffer)
    ]
    if there:
        max(there, key=lambda stay: stay.writes[0].begin).reads.append(access.copy)


def _inside(access: _Access, buffer: SharedBuffer) -> bool:
    return buffer.address <= access.low and access.high <= buffer.address + buffer.bytes


def _accesses(compilation: Compilation) -> list[_Access]:
    graph, program, machine, trace = (
        compilation.graph, compilation.program, compilation.machine, compilation.trace,
    )  # fmt: skip
    tensor_of = fetched_tensors(graph, compilation.plan, program, machine)
    roles = {memory.role: number for number, memory in enumerate(machine.memories)}
    names = [memory.name for memory in machine.memories]

    @cache
    def operands(mnemonic: str, values: tuple[int | float, ...]) -> tuple[Strided, ...]:
        return footprint(Instruction(mnemonic, 0, values))

    accesses: list[_Access] = []
    for queue, stream, starts, ends in zip(program.queues, program.streams, trace.start, trace.end, strict=True):
        begins, stops = starts.tolist(), ends.tolist()
        for index, instruction in enumerate(stream):
            row = instruction.row
            if row.kind not in ("copy", "broadcast", "dma") or stops[index] < 0:
                continue
            values, bases = list(instruction.values), list[int]()
            for operand in row.operands:
                position = row.position[f"{operand.name}.base"]
                bases.append(int(values[position]))
                values[position] = 0
            places = operands(instruction.mnemonic, tuple(values))
            target = next(place for place in places if place.writes)
            source = next((place for place in places if place.reads), None)
            if source is None or roles["shared"] not in (target.memory, source.memory):
                continue
            tensor = tensor_of(instruction)[1] if row.kind == "dma" else ""
            if target.memory == roles["main"]:
                kind = "spill"
            elif target.memory == roles["shared"]:
                kind = "fetch" if source.memory == roles["main"] else "store"
            else:
                kind = "broadcast" if row.kind == "broadcast" else "load"
            op = program.ops[instruction.op].name
            copy = Copy(
                kind, str(queue), op, names[source.memory], names[target.memory], source.bytes, begins[index],
                stops[index],
            )  # fmt: skip
            for place, base in zip(places, bases, strict=True):
                if place.memory == roles["shared"]:
                    accesses.append(
                        _Access(base + place.low, base + place.high, place.writes, place.bytes, tensor, copy)
                    )
    return accesses
