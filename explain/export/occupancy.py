"""How full memories and how busy links were during a run, as step functions of time.

A transfer's bytes cross its links evenly from the end of its issue to its own end. A memory is divided into at most
1,024 blocks: a block is occupied from a write to the last read before the next write. Constants and inputs are written
before the run, outputs are read after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, prod

import numpy as np

from ...ir.graph import DTYPES
from ...ir.isa.footprint import Strided, footprint
from ...ir.isa.table import Instruction
from ...ir.machine import Machine
from ...ir.program import Placed, Program, ProgramPort
from ...ir.trace import Trace
from .timed_instructions import TimedInstruction, link_transfers, timed_instructions

STEPS = 2000
"""Steps of a function, at most."""
BLOCKS = 1024
"""Blocks that a memory is divided into, at most."""

TimedAccess = tuple[int, int, int, int, bool]
"""(low, high, begin, end, writes): bytes ``low <= address < high`` are accessed from cycle ``begin`` to ``end``."""

MemoryInstance = tuple[str, int | None]
"""A memory, and the core that it belongs to (``None``: the cluster)."""


@dataclass(frozen=True)
class Steps:
    """``values[i]`` holds from cycle ``i * width`` on, for ``width`` cycles."""

    width: int
    values: np.ndarray


def occupancy(program: Program, machine: Machine, trace: Trace) -> tuple[dict[MemoryInstance, Steps], dict[str, Steps]]:
    """The most bytes occupied in each memory, and the mean bytes a cycle on each link, in each step of the run."""
    width = max(1, ceil(trace.cycles / STEPS))
    steps = ceil(trace.cycles / width)
    accesses = _accesses(program, machine, trace)
    crossings: list[list[tuple[int, int, int]]] = [[] for _ in machine.links]
    for transfer in link_transfers(program, machine, trace):
        crossings[transfer.link].append((transfer.begin, transfer.end, transfer.bytes))
    links = {
        link.name: Steps(width, _means(rows, steps, width)) for link, rows in zip(machine.links, crossings, strict=True)
    }
    memories = {memory: Steps(width, _maxima(_levels(rows), steps, width)) for memory, rows in accesses.items()}
    return memories, links


def _accesses(program: Program, machine: Machine, trace: Trace) -> dict[MemoryInstance, list[TimedAccess]]:
    """For each memory, its accesses."""
    accesses: dict[MemoryInstance, list[TimedAccess]] = {
        (memory.name, core): []
        for memory in machine.memories
        for core in (range(machine.cores) if memory.scope == "core" else (None,))
    }

    def home(placed: Placed) -> list[TimedAccess]:
        return accesses[machine.levels.home_of(constant=bool(placed.sha256)).name, None]

    @cache
    def operands(mnemonic: str, values: tuple[int | float, ...]) -> tuple[Strided, ...]:
        return footprint(Instruction(mnemonic, 0, values))

    for placed in (*program.constants, *map(_tensor, program.inputs)):
        home(placed).append((*_span(placed), 0, 0, True))
    for timed in timed_instructions(program, trace, machine):
        instruction, position = timed.instruction, timed.instruction.row.position
        for operand in operands(instruction.mnemonic, _without_addresses(instruction)):
            base, memory = int(instruction.values[position[f"{operand.name}.base"]]), machine.memories[operand.memory]
            for core in _owners(machine, timed, operand) if operand.low < operand.high else ():
                access = base + operand.low, base + operand.high, timed.begin, timed.end, operand.writes
                accesses[memory.name, core].append(access)
        if instruction.row.latency == "kernel":
            kernel = program.kernels[int(instruction.values[0])]
            for placed, writes in (*((p, False) for p in kernel.inputs), *((p, True) for p in kernel.outputs)):
                home(placed).append((*_span(placed), timed.begin, timed.end, writes))
    for placed in map(_tensor, program.outputs):
        home(placed).append((*_span(placed), trace.cycles, trace.cycles, False))
    return accesses


def _without_addresses(instruction: Instruction) -> tuple[int | float, ...]:
    values = list(instruction.values)
    for operand in instruction.row.operands:
        values[instruction.row.position[f"{operand.name}.base"]] = 0
    return tuple(values)


def _owners(machine: Machine, timed: TimedInstruction, operand: Strided) -> Sequence[int | None]:
    """The cores in whose memory the operand is."""
    if machine.memories[operand.memory].scope != "core":
        return (None,)
    if operand.writes and timed.instruction.row.kind == "broadcast":
        mask = int(timed.instruction.values[timed.instruction.row.position["cores"]])
        return [core for core in range(machine.cores) if mask >> core & 1]
    return (timed.core,)


def _tensor(port: ProgramPort) -> Placed:
    return Placed(port.name, port.address, port.tensor_dtype, port.tensor_shape)


def _span(placed: Placed) -> tuple[int, int]:
    return placed.address, placed.address + prod(placed.shape) * DTYPES[placed.dtype]


def _levels(accesses: Sequence[TimedAccess]) -> tuple[np.ndarray, np.ndarray]:
    """(times, bytes): how much is occupied from each of these cycles on."""
    low, high, begin, end, writes = np.array(accesses, np.int64).reshape(-1, 5).T
    size = 1 << max(0, ceil(int(high.max(initial=0)) / BLOCKS) - 1).bit_length()
    first, last = low // size, (high - 1) // size
    access = np.repeat(np.arange(len(low)), last - first + 1)
    block = np.arange(len(access)) - np.repeat(np.cumsum(last - first + 1) - (last + 1), last - first + 1)
    order = np.lexsort((writes[access], begin[access], block))
    access, block = access[order], block[order]
    # A new life of a block begins with a write that overwrites what was read to its end.
    same, written = block[1:] == block[:-1], writes[access].astype(bool)
    fresh = ~written[:-1] & written[1:] & (end[access[:-1]] <= begin[access[1:]])
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(block)), bool), ~same | fresh]))
    if not len(starts):
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    bytes_ = np.minimum(size, int(high.max()) - block[starts] * size)
    moments = np.concatenate([begin[access[starts]], np.maximum.reduceat(end[access], starts)])
    times, where = np.unique(np.concatenate([np.zeros(1, np.int64), moments]), return_inverse=True)
    change = np.zeros(len(times), np.int64)
    np.add.at(change, where[1:], np.concatenate([bytes_, -bytes_]))
    return times, np.cumsum(change)


def _maxima(levels: tuple[np.ndarray, np.ndarray], steps: int, width: int) -> np.ndarray:
    """The largest level in each step."""
    times, level = levels
    most = level[np.searchsorted(times, np.arange(steps) * width, "right") - 1]
    inside = times < steps * width
    np.maximum.at(most, times[inside] // width, level[inside])
    return most


def _means(rows: Sequence[tuple[int, int, int]], steps: int, width: int) -> np.ndarray:
    """Bytes a cycle in each step."""
    begin, end, count = np.array(rows, np.float64).reshape(-1, 3).T
    moments = np.concatenate([np.zeros(1), begin, end])
    rate = np.concatenate([np.zeros(1), count, -count]) / np.concatenate([np.ones(1), end - begin, end - begin])
    order = np.argsort(moments, kind="stable")
    moved = np.cumsum(np.cumsum(rate[order])[:-1] * np.diff(moments[order]))
    edges = np.interp(np.arange(steps + 1) * width, moments[order], np.concatenate([np.zeros(1), moved]))
    return np.diff(edges) / width
