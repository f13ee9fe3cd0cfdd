"""Whether the waits of a program put all its conflicting instructions in an order: written to judge the simulator's
race check, and sharing nothing with it but what an instruction reaches.

Compiled programs synchronise by `wait` alone, which is all that is understood here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from girih.ir.graph import DTYPES
from girih.ir.isa.footprint import Strided, footprint
from girih.ir.isa.table import Instruction
from girih.ir.machine import Machine
from girih.ir.program import Placed, Program, Queue

Place = tuple[int, int]
"""Queue and index of an instruction."""
Where = tuple[int, int]
"""A memory and a core; -1 for the cluster's."""
Vectors = list[list[np.ndarray]]
"""For each instruction, how many of each queue are certain to have retired when it begins."""


def knowledge(program: Program) -> tuple[Vectors, list[Place]]:
    """The vectors, and an order of the instructions that keeps to them; what is stuck is in neither."""
    count = len(program.queues)
    vectors: Vectors = [[] for _ in program.queues]
    latest = [np.zeros(count, np.int64) for _ in program.queues]
    order: list[Place] = []
    moved = True
    while moved:
        moved = False
        for queue, stream in enumerate(program.streams):
            while len(vectors[queue]) < len(stream):
                instruction = stream[len(vectors[queue])]
                if instruction.mnemonic == "wait":
                    awaited, wanted = (int(v) for v in instruction.values)
                    if wanted and (awaited >= count or wanted > len(vectors[awaited])):
                        break
                    if wanted:
                        latest[queue] = np.maximum(latest[queue], vectors[awaited][wanted - 1])
                        latest[queue][awaited] = max(latest[queue][awaited], wanted)
                order.append((queue, len(vectors[queue])))
                # Of a wait, what is known after it: whoever counts it knows that, too.
                vectors[queue].append(latest[queue])
                moved = True
    return vectors, order


def unordered(program: Program, machine: Machine) -> tuple[Place, Place] | None:
    """Two instructions that touch a byte, one of them writing it, and that nothing orders."""
    vectors, order = knowledge(program)
    main = machine.memories.index(machine.levels.home.memory)
    accesses = [list(_accesses(program, machine, main, *place)) for place in order]
    sizes: dict[Where, int] = {}
    for where, at in (access for touched in accesses for access in touched):
        sizes[where] = max(sizes.get(where, 0), at.high)
    # Of each memory, the last instruction of a queue that wrote or read each byte, and of all bytes; counted from 1.
    last: dict[Where, dict[tuple[int, bool], tuple[np.ndarray, int]]] = {where: {} for where in sizes}
    for (queue, index), touched in zip(order, accesses, strict=True):
        vector = vectors[queue][index]
        for where, at in touched:
            for (earlier_queue, wrote), (seen, latest) in last[where].items():
                if earlier_queue != queue and (wrote or at.writes) and latest > vector[earlier_queue]:
                    latest = int(_bytes(seen, at).max())
                    if latest > vector[earlier_queue]:
                        return (earlier_queue, latest - 1), (queue, index)
        for where, at in touched:
            for wrote in (True, False):
                if at.writes if wrote else at.reads:
                    seen, _ = last[where].get((queue, wrote)) or (np.zeros(sizes[where], np.int32), 0)
                    _bytes(seen, at)[...] = index + 1
                    last[where][queue, wrote] = seen, index + 1
    return None


def _bytes(array: np.ndarray, at: Strided) -> np.ndarray:
    """One number for each byte of an operand."""
    wide = tuple(s * array.itemsize for s in at.strides)
    offset = at.start * array.itemsize
    return np.ndarray((*at.extents, at.itemsize), array.dtype, array, offset, (*wide, array.itemsize))


def _accesses(program: Program, machine: Machine, main: int, queue: int, index: int) -> Iterator[tuple[Where, Strided]]:
    instruction, place = program.streams[queue][index], program.queues[queue]
    if instruction.mnemonic == "hcall":
        kernel = program.kernels[int(instruction.values[0])]
        for placed, writes in (*((p, False) for p in kernel.inputs), *((p, True) for p in kernel.outputs)):
            yield (main, -1), _dense(placed, main, writes)
        return
    for at in footprint(instruction):
        if at.low < at.high:
            for core in _cores(machine, place, instruction, at):
                yield (at.memory, core), at


def _cores(machine: Machine, queue: Queue, instruction: Instruction, at: Strided) -> list[int]:
    if machine.memories[at.memory].scope != "core":
        return [-1]
    if at.writes and instruction.mnemonic == "mbcast":
        mask = int(instruction.values[instruction.row.position["cores"]])
        return [core for core in range(machine.cores) if mask >> core & 1]
    return [queue.core if queue.core is not None else -1]


def _dense(placed: Placed, main: int, writes: bool) -> Strided:
    size = DTYPES[placed.dtype] * int(np.prod(placed.shape, dtype=np.int64))
    return Strided(placed.tensor, not writes, writes, main, 3, placed.address, (size,), (1,), placed.address,
                   placed.address + size)  # fmt: skip
