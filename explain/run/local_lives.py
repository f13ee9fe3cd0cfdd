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
from .instruction_columns import InstructionColumns
from .memory_accesses import Accesses, MemoryAccesses


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
    parts: list[np.ndarray] = []
    for core in range(machine.cores):
        touched = accesses.of(memory, core)
        touched = touched.where(slots[touched.row] >= 0)
        touched = touched.where(np.argsort(segment_of[slots[touched.row]], kind="stable"))
        segments = segment_of[slots[touched.row]]
        for segment, numbers in by_segment.items():
            low, high = np.searchsorted(segments, [segment, segment + 1])
            if low == high:
                continue
            some = touched.where(np.arange(low, high))
            slot = slots[some.row]
            step, position = step_of[slot], position_of[slot]
            for number in numbers:
                for version in range(buffers[number].depth):
                    mask = _within(some, position, buffers[number], version)
                    if mask.any():
                        parts.append(_lives(columns, (core, number, version), step[mask], some.row[mask]))
    rows = np.concatenate([np.zeros((0, 6), np.int64), *parts])
    rows = rows[np.lexsort((rows[:, 3], rows[:, 2], rows[:, 1], rows[:, 0]))]
    return LocalLives(name, buffers, *(np.ascontiguousarray(column) for column in rows.T))


def _slot_tables(plan: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The step, the position in its segment, and the segment of each slot."""
    rows = [
        (number, position, step.segment)
        for number, step in enumerate(plan.steps)
        for position in range(len(plan.segments[step.segment].ops))
    ]
    step, position, segment = np.array(rows, np.int64).reshape(-1, 3).T
    return step, position, segment


def _within(accesses: Accesses, position: np.ndarray, buffer: LocalBuffer, version: int) -> np.ndarray:
    size = buffer.bytes // buffer.depth
    address = buffer.address + version * size
    return (
        (accesses.low < address + size)
        & (accesses.high > address)
        & (position >= buffer.live[0])
        & (position < buffer.live[1])
    )


def _lives(columns: InstructionColumns, which: tuple[int, int, int], step: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(core, step, buffer, version, begin, end) of each step; ``which`` are the core, the buffer and the version."""
    core, number, version = which
    steps, place = np.unique(step, return_inverse=True)
    begin = np.full(len(steps), np.iinfo(np.int64).max)
    end = np.zeros(len(steps), np.int64)
    np.minimum.at(begin, place, columns.start[rows])
    np.maximum.at(end, place, columns.end[rows])
    same = np.ones(len(steps), np.int64)
    return np.stack([same * core, steps, same * number, same * version, begin, end], 1)
