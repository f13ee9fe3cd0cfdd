"""What the machine runs: queues of instructions, where the data is placed, and what the host contributes.

A program is for one cluster; ``replicas`` clusters run it at once on their parts of the batch. The data of the
constants travels beside it, as a mapping from tensor name to array.
"""

from __future__ import annotations

import gc
import hashlib
import struct
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from .codec import from_json, to_json
from .errors import UsageError
from .graph import DTYPES
from .isa.assembly import print_instruction
from .isa.encoding import TABLE_SHA256, decode_stream, encode_stream
from .isa.table import Instruction
from .isa.timing import KernelWork

MAGIC = b"\x7fGIRIH\r\n"
VERSION = 2
_HEADER = struct.Struct("<8sI32sQQ")
"""Magic, version, SHA-256 of the instruction table, bytes of the whole file, bytes of the metadata."""
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Queue:
    """An in-order queue: one for each instance of an engine. ``core`` is ``None`` for a cluster's engine."""

    engine: str
    core: int | None = None

    def __str__(self) -> str:
        return self.engine if self.core is None else f"{self.engine}{self.core}"


@dataclass(frozen=True)
class ProgramOp:
    """An operator as counters and reports know it; ``macs`` and ``elements`` are of one replica."""

    name: str
    origin: tuple[str, ...] = ()
    macs: int = 0
    elements: int = 0
    host: bool = False


@dataclass(frozen=True)
class Placed:
    """A dense row-major tensor in main memory; ``sha256`` is of its bytes where they are known in advance."""

    tensor: str
    address: int
    dtype: str
    shape: tuple[int, ...]
    sha256: str = ""


@dataclass(frozen=True)
class ProgramPort:
    """An input or output of the whole chip, and where one replica's part of it is in main memory.

    ``shape`` and ``dtype`` are what the user passes. ``tensor_shape`` and ``tensor_dtype`` are of one replica. With a
    ``batch_axis`` replica r holds part r of that axis, in pieces of ``tensor_shape[batch_axis]``; the last is padded.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    batch_axis: int | None
    address: int
    tensor_dtype: str
    tensor_shape: tuple[int, ...]


@dataclass(frozen=True)
class HostKernel:
    """A kernel for the host or a scalar engine: its TIR as TVM's JSON, and its tensors in main memory.

    ``reason`` says why no other engine runs it; for ``operations`` and ``special`` see :class:`~.graph.Host`.
    """

    name: str
    tir: str
    reason: str
    inputs: tuple[Placed, ...]
    outputs: tuple[Placed, ...]
    operations: int = 0
    special: int = 0

    @property
    def work(self) -> KernelWork:
        """What it reads, writes and computes."""
        read, written = (
            sum(DTYPES[p.dtype] * prod(p.shape) for p in {p.tensor: p for p in placed}.values())
            for placed in (self.inputs, self.outputs)
        )
        return KernelWork(read, written, self.operations, self.special)


@dataclass(frozen=True)
class Program:
    """Instructions of one cluster: ``streams[q]`` runs in order on ``queues[q]``."""

    machine: str
    machine_sha256: str
    graph_sha256: str
    plan_sha256: str
    replicas: int
    queues: tuple[Queue, ...]
    streams: tuple[tuple[Instruction, ...], ...]
    ops: tuple[ProgramOp, ...]
    constants: tuple[Placed, ...]
    inputs: tuple[ProgramPort, ...]
    outputs: tuple[ProgramPort, ...]
    kernels: tuple[HostKernel, ...] = ()
    lower_bound_cycles: int = 0
    batch: int | None = None
    slots: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Of each stream, what it works for, in order: (slot of the plan, number of instructions)."""

    @cached_property
    def instructions(self) -> int:
        return sum(len(stream) for stream in self.streams)

    def to_bytes(self) -> bytes:
        """The program as a file: header, metadata (JSON), each stream (count, bytes, data), SHA-256 of it all."""
        metadata = to_json(replace(self, streams=()))
        parts = [metadata]
        for stream in self.streams:
            data = encode_stream(stream)
            parts += [struct.pack("<QQ", len(stream), len(data)), data]
        body = b"".join(parts)
        total = _HEADER.size + len(body) + _DIGEST
        content = _HEADER.pack(MAGIC, VERSION, TABLE_SHA256, total, len(metadata)) + body
        return content + hashlib.sha256(content).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Program:
        """Read what :meth:`to_bytes` wrote; raises :class:`UsageError` that names the damage."""
        if len(data) < _HEADER.size + _DIGEST or not data.startswith(MAGIC):
            raise UsageError("not a Girih program: the first bytes are not its signature, or it is cut short")
        _, version, table, total, size = _HEADER.unpack_from(data)
        if version != VERSION:
            raise UsageError(f"program format version {version}: this is version {VERSION}; compile the model again")
        if len(data) != total:
            raise UsageError(f"damaged program: {len(data):,} bytes, and its header says {total:,}")
        content, digest = data[:-_DIGEST], data[-_DIGEST:]
        if hashlib.sha256(content).digest() != digest:
            raise UsageError("damaged program: its checksum (SHA-256) does not match its contents")
        if table != TABLE_SHA256:
            raise UsageError(
                f"the program is for another instruction set (SHA-256 {table.hex()[:12]}; this is "
                f"{TABLE_SHA256.hex()[:12]}); compile the model again"
            )
        return _read_body(content, size)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def __str__(self) -> str:
        head = (
            f"program for {self.machine}: {self.instructions:,} instructions in {len(self.queues)} queues, "
            f"{len(self.ops)} operators, {len(self.kernels)} kernels, {self.replicas} replicas"
        )
        rows = [f"  {i:3} {q!s:8} {len(s):>8,}" for i, (q, s) in enumerate(zip(self.queues, self.streams, strict=True))]
        return "\n".join([head, *rows])


def _read_body(content: bytes, metadata_size: int) -> Program:
    position = _HEADER.size + metadata_size
    program = from_json(content[_HEADER.size : position], Program)
    streams: list[tuple[Instruction, ...]] = []
    for number, queue in enumerate(program.queues):
        if position + 16 > len(content):
            raise UsageError(f"damaged program: stream {number} ({queue}) is missing")
        count, size = struct.unpack_from("<QQ", content, position)
        position += 16
        streams.append(decode_stream(content[position : position + size], count, f"stream {number} ({queue})"))
        position += size
    if position != len(content):
        raise UsageError(f"damaged program: {len(content) - position} bytes follow the last stream")
    return replace(program, streams=tuple(streams))


def disassemble(program: Program, memories: tuple[str, ...] = ()) -> str:
    """The program as text, queue by queue; ``memories`` names the machine's memories, in order."""
    lines = [str(program)]
    for number, (queue, stream) in enumerate(zip(program.queues, program.streams, strict=True)):
        lines.append(f"queue {number} {queue}:")
        for index, instruction in enumerate(stream):
            name = program.ops[instruction.op].name if instruction.op < len(program.ops) else "?"
            lines.append(f"  {index:6}  {print_instruction(instruction, memories)}  ; {name}")
    return "\n".join(lines)


@contextmanager
def uncollected() -> Generator[None]:
    """Without Python's garbage collector, which would walk over a whole program again and again to find no cycle."""
    active = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if active:
            gc.enable()
