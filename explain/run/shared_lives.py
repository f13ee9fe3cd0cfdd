"""When each buffer of the plan in shared and main memory held its data: from its first write to its last read.

The program says which slot of the plan each instruction works for, and the plan which buffers live in it:

- A fetch fills a buffer that is fetched in its slot and holds its address; of several, of a circular buffer, the first
  that still misses bytes.
- A core's store writes to the buffer of its operator's result that holds the address in the slot of the store.
- A read of a tensor is from the buffer with the address that lives in its slot; of several, again of a circular buffer,
  the one that was written last before the read began.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.box import volume
from ...ir.graph import DTYPES, Graph
from ...ir.machine import Machine
from ...ir.plan import Plan, SharedBuffer
from ...ir.program import Program
from .grouped import grouped
from .instruction_columns import InstructionColumns
from .memory_accesses import Accesses, MemoryAccesses


@dataclass(frozen=True)
class SharedLives:
    """Row b is of ``buffers[b]``: cycles of its life, of its fetch from main memory and of its store there.

    All are -1 where there is none; a life without an access cannot be seen in the run. The instruction in row
    ``access_row[i]`` wrote or read the buffer ``access_buffer[i]``.
    """

    memory: str
    buffers: tuple[SharedBuffer, ...]
    begin: np.ndarray
    end: np.ndarray
    fetch_begin: np.ndarray
    fetch_end: np.ndarray
    store_begin: np.ndarray
    store_end: np.ndarray
    access_row: np.ndarray
    access_buffer: np.ndarray


class _Lives:
    """Earliest begin and latest end by buffer."""

    def __init__(self, count: int) -> None:
        self.begin = np.full(count, np.iinfo(np.int64).max)
        self.end = np.full(count, -1, np.int64)

    def add(self, buffers: np.ndarray, begin: np.ndarray, end: np.ndarray) -> None:
        np.minimum.at(self.begin, buffers, begin)
        np.maximum.at(self.end, buffers, end)

    @property
    def begins(self) -> np.ndarray:
        return np.where(self.end < 0, -1, self.begin)


def shared_lives(
    graph: Graph, plan: Plan, program: Program, machine: Machine, columns: InstructionColumns, slots: np.ndarray,
    accesses: MemoryAccesses,
) -> SharedLives:  # fmt: skip
    """Lives in the shared memory; ``slots`` is the slot of each row, or -1."""
    shared = machine.memories.index(machine.levels.exchange.memory)
    buffers = tuple(b for b in plan.shared if b.memory == machine.memories[shared].name)
    lives, fetches, stores = _Lives(len(buffers)), _Lives(len(buffers)), _Lives(len(buffers))
    touched = accesses.of_memory(shared, None)
    is_dma = np.array([c.instruction.row.kind == "dma" for c in columns.classes] or [False])[columns.class_of]
    writes = touched.where(touched.writes)
    fetched = writes.where(is_dma[writes.row])
    which = _fetched_buffers(graph, buffers, columns, fetched, slots)
    fetches.add(which, columns.start[fetched.row], columns.end[fetched.row])
    stored = writes.where(~is_dma[writes.row])
    target = _stored_buffers(graph, program, buffers, columns, stored, slots)
    for part, numbers in ((fetched, which), (stored, target)):
        known = numbers >= 0
        lives.add(numbers[known], columns.start[part.row[known]], columns.end[part.row[known]])
    reads = touched.where(~touched.writes)
    source = _read_buffers(graph, plan, program, buffers, columns, reads, slots, lives.begins)
    known = source >= 0
    lives.add(source[known], columns.start[reads.row[known]], columns.end[reads.row[known]])
    out = known & is_dma[reads.row]
    stores.add(source[out], columns.start[reads.row[out]], columns.end[reads.row[out]])
    rows, numbers = np.concatenate([fetched.row, stored.row, reads.row]), np.concatenate([which, target, source])
    return SharedLives(
        machine.memories[shared].name, buffers, lives.begins, lives.end,
        fetches.begins, fetches.end, stores.begins, stores.end, rows[numbers >= 0], numbers[numbers >= 0],
    )  # fmt: skip


def _fetched_buffers(
    graph: Graph, buffers: tuple[SharedBuffer, ...], columns: InstructionColumns, fetched: Accesses, slots: np.ndarray
) -> np.ndarray:
    """The buffer of each fetch: one that is fetched in its slot, holds the address and misses bytes."""
    opening: dict[int, list[int]] = {}
    missing: dict[int, int] = {}
    for number, buffer in enumerate(buffers):
        if buffer.fetch:
            missing[number] = volume(buffer.box) * DTYPES[graph.tensor[buffer.tensor].dtype]
            for slot in range(buffer.live[0], buffer.live[0] + 1 if buffer.opens_with_slot else buffer.live[1]):
                opening.setdefault(slot, []).append(number)
    payload = columns.of_class([c.cost.cost.payload for c in columns.classes])[fetched.row].tolist()
    numbers: list[int] = []
    for low, count, slot in zip(fetched.low.tolist(), payload, slots[fetched.row].tolist(), strict=True):
        able = (
            n
            for n in opening.get(slot, ())
            if missing[n] > 0 and buffers[n].address <= low < buffers[n].address + buffers[n].bytes
        )
        number = next(able, -1)
        numbers.append(number)
        if number >= 0:
            missing[number] -= count
    return np.array(numbers, np.int64)


def _stored_buffers(
    graph: Graph, program: Program, buffers: tuple[SharedBuffer, ...], columns: InstructionColumns, stored: Accesses,
    slots: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The buffer of each store of a core, or -1."""
    numbers = np.full(len(stored.row), -1, np.int64)
    ops, slot = columns.op[stored.row], slots[stored.row]
    by_tensor = _by_tensor(buffers)
    for op, indices in grouped(ops):
        low, when = stored.low[indices], slot[indices]
        for number in by_tensor.get(graph.op[program.ops[op].name].output, ()):
            buffer = buffers[number]
            inside = (low >= buffer.address) & (low < buffer.address + buffer.bytes)
            numbers[indices[inside & (when >= buffer.live[0]) & (when < buffer.live[1])]] = number
    return numbers


def _read_buffers(
    graph: Graph, plan: Plan, program: Program, buffers: tuple[SharedBuffer, ...], columns: InstructionColumns,
    reads: Accesses, slots: np.ndarray, written: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The buffer of each read, or -1; ``written`` is when each buffer was first written, or -1."""
    numbers = np.full(len(reads.row), -1, np.int64)
    latest = np.full(len(reads.row), -1, np.int64)
    ops, begin, slot = columns.op[reads.row], columns.start[reads.row], slots[reads.row]
    opened, closed = (np.array([b.live[end] for b in buffers], np.int64) for end in (0, 1))
    by_tensor = {tensor: np.array(group, np.int64) for tensor, group in _by_tensor(buffers).items()}
    low = np.array([b.address for b in buffers], np.int64)
    high = np.array([b.address + b.bytes for b in buffers], np.int64)
    # A local buffer is loaded by the operator with which its life begins, which may not be the one that reads it.
    loaded: dict[str, dict[str, None]] = {}
    for local in plan.local:
        loaded.setdefault(plan.segments[local.segment].ops[local.live[0]], {})[local.name] = None
    for op, indices in grouped(ops):
        node = graph.op[program.ops[op].name]
        for tensor in dict.fromkeys((*node.inputs, *node.outputs, *loaded.get(node.name, ()))):
            candidates = by_tensor.get(tensor)
            if candidates is None:
                continue
            first, last, since = low[candidates], high[candidates], written[candidates]
            live, dead = opened[candidates], closed[candidates]
            # The latest of all that were written before and hold the address; by reads or by buffers, what is less.
            if len(indices) < len(candidates):
                for row in indices.tolist():
                    address = reads.low[row]
                    fits = (first <= address) & (address < last) & (since >= 0) & (since < begin[row])
                    fits &= (live <= slot[row]) & (slot[row] < dead)
                    at = int(np.argmax(np.where(fits, since, -1)))
                    if fits[at] and since[at] > latest[row]:
                        numbers[row], latest[row] = candidates[at], since[at]
                continue
            for at, number in enumerate(candidates.tolist()):
                if since[at] < 0:
                    continue
                fits = (
                    (reads.low[indices] >= first[at])
                    & (reads.low[indices] < last[at])
                    & (since[at] < begin[indices])
                    & (since[at] > latest[indices])
                    & (live[at] <= slot[indices])
                    & (slot[indices] < dead[at])
                )
                numbers[indices[fits]] = number
                latest[indices[fits]] = since[at]
    return numbers


def _by_tensor(buffers: tuple[SharedBuffer, ...]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for number, buffer in enumerate(buffers):
        numbers.setdefault(buffer.tensor, []).append(number)
    return numbers
