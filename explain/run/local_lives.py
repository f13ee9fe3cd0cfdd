"""When each local buffer of the plan was in use on each core: from its first access to its last, in each step.

The versions of a buffer that is held several times (double buffering) have lives of their own: what comes next at their
place waits for one version alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ...ir.machine import Machine
from ...ir.plan import LocalBuffer, Plan
from .grouped import grouped
from .instruction_columns import InstructionColumns
from .memory_accesses import MemoryAccesses


@dataclass(frozen=True)
class LocalLives:
    """Lives of the buffers of one memory: one row for each core, step, buffer and version that the core touched in it.

    ``buffer`` indexes ``buffers``; the core used this version in step ``step`` of the plan from cycle ``begin`` to
    ``end``. Each version has ``bytes // depth`` bytes, one after the other.
    """

    memory: str
    buffers: tuple[LocalBuffer, ...]
    core: np.ndarray
    step: np.ndarray
    buffer: np.ndarray
    version: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def local_lives(
    plan: Plan, machine: Machine, columns: InstructionColumns, slots: np.ndarray, accesses: MemoryAccesses, memory: int
) -> LocalLives:
    """Lives in one memory of the cores; ``slots`` is the slot of each row, or -1."""
    name = machine.memories[memory].name
    buffers = tuple(b for b in plan.local if b.memory == name)
    by_segment: dict[int, list[int]] = defaultdict(list)
    for number, buffer in enumerate(buffers):
        by_segment[buffer.segment].append(number)
    step_of, position_of, segment_of = _slot_tables(plan)
    cores = [accesses.of_memory(memory, core) for core in range(machine.cores)]
    row, low, high = (np.concatenate([getattr(touched, name) for touched in cores]) for name in ("row", "low", "high"))
    core = np.repeat(np.arange(machine.cores), [len(touched.row) for touched in cores])
    known = np.flatnonzero(slots[row] >= 0)
    row, low, high, core = row[known], low[known], high[known], core[known]
    slot = slots[row]
    step, position = step_of[slot], position_of[slot]
    touches: list[tuple[np.ndarray, int, int]] = []
    for segment, indices in grouped(segment_of[slot]):
        for number in by_segment[segment]:
            buffer = buffers[number]
            size = buffer.bytes // buffer.depth
            live = indices[(position[indices] >= buffer.live[0]) & (position[indices] < buffer.live[1])]
            for version in range(buffer.depth):
                address = buffer.address + version * size
                touches.append((live[(low[live] < address + size) & (high[live] > address)], number, version))
    counts = [len(where) for where, _, _ in touches]
    where = np.concatenate([np.zeros(0, np.int64), *(where for where, _, _ in touches)])
    number = np.repeat(np.array([n for _, n, _ in touches], np.int64), counts)
    version = np.repeat(np.array([v for _, _, v in touches], np.int64), counts)
    keys = np.stack([core[where], step[where], number, version])
    order = np.lexsort(keys[::-1])
    keys, rows = keys[:, order], row[where[order]]
    first = np.flatnonzero(np.concatenate([np.ones(min(1, len(rows)), bool), (np.diff(keys) != 0).any(0)]))
    begin = np.minimum.reduceat(columns.start[rows], first) if len(rows) else rows
    end = np.maximum.reduceat(columns.end[rows], first) if len(rows) else rows
    at_core, at_step, of_buffer, of_version = keys[:, first]
    return LocalLives(name, buffers, at_core, at_step, of_buffer, of_version, begin, end)


def _slot_tables(plan: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The step, the position in its segment, and the segment of each slot."""
    rows = [
        (number, position, step.segment)
        for number, step in enumerate(plan.steps)
        for position in range(len(plan.segments[step.segment].ops))
    ]
    step, position, segment = np.array(rows, np.int64).reshape(-1, 3).T
    return step, position, segment
