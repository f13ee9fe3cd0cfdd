"""Every access of a run to a memory, as columns: who touched which bytes of which memory, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...ir.isa.table import Instruction
from ...ir.machine import Machine
from ...ir.program import Program
from .instruction_columns import InstructionClass, InstructionColumns


@dataclass(frozen=True)
class Accesses:
    """Accesses to one memory of one core, or of the cluster, in the order of the rows of the instructions.

    Bytes ``low <= address < high`` are accessed by row ``row``, as its operand ``operand``; ``writes``: or else read.
    """

    row: np.ndarray
    operand: np.ndarray
    low: np.ndarray
    high: np.ndarray
    writes: np.ndarray

    def where(self, mask: np.ndarray) -> Accesses:
        """Those of them for which ``mask`` holds."""
        return Accesses(self.row[mask], self.operand[mask], self.low[mask], self.high[mask], self.writes[mask])


class MemoryAccesses:
    """The accesses of a run; a broadcast writes to all its receivers, at the same address."""

    def __init__(self, program: Program, machine: Machine, columns: InstructionColumns) -> None:
        self._machine, self._columns = machine, columns
        self._core = np.array([-1 if q.core is None else q.core for q in program.queues] or [-1])[columns.queue]
        self._is_broadcast = columns.of_class([c.instruction.row.kind == "broadcast" for c in columns.classes], np.bool)
        self._receivers = columns.of_class([_receivers(c.instruction) for c in columns.classes], np.uint64)

    def of_memory(self, memory: int, core: int | None) -> Accesses:
        """The accesses to memory number ``memory``, for a memory of cores to that of ``core``."""
        columns = self._columns
        parts: list[Accesses] = []
        for number in range(columns.bases.shape[1]):

            def column(value: Callable[[InstructionClass], int], operand: int = number) -> np.ndarray:
                return columns.of_class([value(c) if operand < len(c.operands) else -1 for c in columns.classes])

            touched = column(lambda c, n=number: c.operands[n].memory) == memory
            low, high = (column(lambda c, n=number: c.operands[n].low), column(lambda c, n=number: c.operands[n].high))
            writes = column(lambda c, n=number: int(c.operands[n].writes)) == 1
            if core is not None:
                received = (self._receivers >> np.uint64(core) & np.uint64(1)) == 1
                touched &= np.where(writes & self._is_broadcast, received, self._core == core)
            row = np.flatnonzero(touched & (low < high))
            base = columns.bases[row, number]
            parts.append(Accesses(row, np.full(len(row), number), base + low[row], base + high[row], writes[row]))
        together = Accesses(
            np.concatenate([p.row for p in parts]),
            np.concatenate([p.operand for p in parts]),
            np.concatenate([p.low for p in parts]),
            np.concatenate([p.high for p in parts]),
            np.concatenate([p.writes for p in parts]),
        )
        return together.where(np.argsort(together.row, kind="stable"))


def _receivers(instruction: Instruction) -> int:
    """The cores that a broadcast writes to, a bit for each of up to 64; 0 for other instructions."""
    if instruction.row.kind != "broadcast":
        return 0
    return int(instruction.values[instruction.row.position["cores"]])
