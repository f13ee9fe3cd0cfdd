"""How full memories and how busy links were during a run, as step functions of time.

A transfer's bytes cross its links evenly from the end of its issue to its own end. A memory is looked at in a
thousand pieces: a piece is occupied from a write to the last read before the next write. Constants and inputs are
written before the run, outputs are read after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, prod

import numpy as np

from ..ir.graph import DTYPES
from ..ir.isa.footprint import Strided, reach
from ..ir.isa.table import Instruction
from ..ir.isa.timing import instruction_cost
from ..ir.machine import Engine, Machine
from ..ir.program import Placed, Program, ProgramPort
from ..ir.trace import Trace

STEPS = 2000
"""Steps of a function, at most."""
PIECES = 1024
"""Pieces in which a memory is looked at, at most."""

Place = tuple[str, int | None]
"""A memory, and the core that it belongs to (``None``: the cluster)."""


@dataclass(frozen=True)
class Steps:
    """``values[i]`` holds from cycle ``i * width`` on, for ``width`` cycles."""

    width: int
    values: np.ndarray


@dataclass(frozen=True)
class _Ran:
    """An instruction that came to its end. Its engine worked from ``begin + issue`` to ``end``."""

    engine: Engine
    core: int | None
    instruction: Instruction
    begin: int
    end: int


def occupancy(program: Program, machine: Machine, trace: Trace) -> tuple[dict[Place, Steps], dict[str, Steps]]:
    """The most bytes occupied in each memory, and the mean bytes a cycle on each link, in each step of the run."""
    width = max(1, ceil(trace.cycles / STEPS))
    steps = ceil(trace.cycles / width)
    touched = _touched(program, machine, trace)
    crossed = _crossed(program, machine, trace)
    memories = {place: Steps(width, _most(_levels(rows), steps, width)) for place, rows in touched.items()}
    return memories, {link: Steps(width, _mean(rows, steps, width)) for link, rows in crossed.items()}


def _ran(program: Program, trace: Trace, machine: Machine) -> Iterator[_Ran]:
    """Everything but synchronisation that ended, queue by queue."""
    for queue, stream, begins, ends in zip(program.queues, program.streams, trace.start, trace.end, strict=True):
        engine = machine.engine[queue.engine]
        for instruction, begin, end in zip(stream, begins.tolist(), ends.tolist(), strict=True):
            if end >= 0 and instruction.row.kind != "sync":
                yield _Ran(engine, queue.core, instruction, begin, end)


def _crossed(program: Program, machine: Machine, trace: Trace) -> dict[str, list[tuple[int, int, int]]]:
    """For each link, (begin, end, bytes) of every transfer."""
    found: dict[str, list[tuple[int, int, int]]] = {link.name: [] for link in machine.links}

    @cache
    def links(engine: str, mnemonic: str, values: tuple[int | float, ...]) -> tuple[tuple[int, int], ...]:
        return instruction_cost(machine, machine.engine[engine], Instruction(mnemonic, 0, values)).links

    for ran in _ran(program, trace, machine):
        if ran.instruction.row.kind in ("copy", "broadcast", "dma"):
            bare = _without_addresses(ran.instruction)
            for link, count in links(ran.engine.name, ran.instruction.mnemonic, bare):
                found[machine.links[link].name].append((ran.begin + ran.engine.issue, ran.end, count))
    return found


def _touched(program: Program, machine: Machine, trace: Trace) -> dict[Place, list[tuple[int, int, int, int, bool]]]:
    """For each place, (low, high, begin, end, writes) of every access, ``low <= address < high``."""
    found: dict[Place, list[tuple[int, int, int, int, bool]]] = {
        (memory.name, core): []
        for memory in machine.memories
        for core in (range(machine.cores) if memory.scope == "core" else (None,))
    }
    main = found[machine.role("main").name, None]

    @cache
    def operands(mnemonic: str, values: tuple[int | float, ...]) -> tuple[Strided, ...]:
        return reach(Instruction(mnemonic, 0, values))

    main += [(*_span(placed), 0, 0, True) for placed in program.constants]
    main += [(*_span(_tensor(port)), 0, 0, True) for port in program.inputs]
    for ran in _ran(program, trace, machine):
        instruction, position = ran.instruction, ran.instruction.row.position
        for at in operands(instruction.mnemonic, _without_addresses(instruction)):
            base, memory = int(instruction.values[position[f"{at.name}.base"]]), machine.memories[at.memory]
            for core in _owners(machine, ran, at) if at.low < at.high else ():
                access = base + at.low, base + at.high, ran.begin, ran.end, at.writes
                found[memory.name, core].append(access)
        if instruction.row.kind == "host":
            kernel = program.kernels[int(instruction.values[0])]
            main += [(*_span(placed), ran.begin, ran.end, False) for placed in kernel.inputs]
            main += [(*_span(placed), ran.begin, ran.end, True) for placed in kernel.outputs]
    main += [(*_span(_tensor(port)), trace.cycles, trace.cycles, False) for port in program.outputs]
    return found


def _without_addresses(instruction: Instruction) -> tuple[int | float, ...]:
    values = list(instruction.values)
    for operand in instruction.row.operands:
        values[instruction.row.position[f"{operand.name}.base"]] = 0
    return tuple(values)


def _owners(machine: Machine, ran: _Ran, at: Strided) -> Sequence[int | None]:
    """The cores in whose memory the operand is."""
    if machine.memories[at.memory].scope != "core":
        return (None,)
    if at.writes and ran.instruction.row.kind == "broadcast":
        mask = int(ran.instruction.values[ran.instruction.row.position["cores"]])
        return [core for core in range(machine.cores) if mask >> core & 1]
    return (ran.core,)


def _tensor(port: ProgramPort) -> Placed:
    return Placed(port.name, port.address, port.tensor_dtype, port.tensor_shape)


def _span(placed: Placed) -> tuple[int, int]:
    return placed.address, placed.address + prod(placed.shape) * DTYPES[placed.dtype]


def _levels(rows: Sequence[tuple[int, int, int, int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    """(times, bytes): how much is occupied from each of these cycles on."""
    low, high, begin, end, writes = np.array(rows, np.int64).reshape(-1, 5).T
    size = 1 << max(0, ceil(int(high.max(initial=0)) / PIECES) - 1).bit_length()
    first, last = low // size, (high - 1) // size
    number = np.repeat(np.arange(len(low)), last - first + 1)
    piece = np.arange(len(number)) - np.repeat(np.cumsum(last - first + 1) - (last + 1), last - first + 1)
    order = np.lexsort((writes[number], begin[number], piece))
    number, piece = number[order], piece[order]
    # What was read to its end is forgotten when it is written again.
    same, written = piece[1:] == piece[:-1], writes[number].astype(bool)
    fresh = ~written[:-1] & written[1:] & (end[number[:-1]] <= begin[number[1:]])
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(piece)), bool), ~same | fresh]))
    if not len(starts):
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    bytes_ = np.minimum(size, int(high.max()) - piece[starts] * size)
    moments = np.concatenate([begin[number[starts]], np.maximum.reduceat(end[number], starts)])
    times, where = np.unique(np.concatenate([np.zeros(1, np.int64), moments]), return_inverse=True)
    change = np.zeros(len(times), np.int64)
    np.add.at(change, where[1:], np.concatenate([bytes_, -bytes_]))
    return times, np.cumsum(change)


def _most(levels: tuple[np.ndarray, np.ndarray], steps: int, width: int) -> np.ndarray:
    """The largest level in each step."""
    times, level = levels
    most = level[np.searchsorted(times, np.arange(steps) * width, "right") - 1]
    inside = times < steps * width
    np.maximum.at(most, times[inside] // width, level[inside])
    return most


def _mean(rows: Sequence[tuple[int, int, int]], steps: int, width: int) -> np.ndarray:
    """Bytes a cycle in each step."""
    begin, end, count = np.array(rows, np.float64).reshape(-1, 3).T
    moments = np.concatenate([np.zeros(1), begin, end])
    rate = np.concatenate([np.zeros(1), count, -count]) / np.concatenate([np.ones(1), end - begin, end - begin])
    order = np.argsort(moments, kind="stable")
    moved = np.cumsum(np.cumsum(rate[order])[:-1] * np.diff(moments[order]))
    edges = np.interp(np.arange(steps + 1) * width, moments[order], np.concatenate([np.zeros(1), moved]))
    return np.diff(edges) / width
