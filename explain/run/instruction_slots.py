"""Which slot of the plan each instruction of a run works for."""

from __future__ import annotations

import numpy as np

from ...ir.program import Program
from .instruction_columns import InstructionColumns


def instruction_slots(program: Program, columns: InstructionColumns) -> np.ndarray:
    """The slot of each row, as the program says; -1 where it does not."""
    slots = np.full(len(columns.start), -1, np.int64)
    for queue, runs in enumerate(program.slots):
        known = np.repeat([slot for slot, _ in runs], [count for _, count in runs]).astype(np.int64)
        rows = slice(columns.first[queue], columns.first[queue + 1])
        slots[rows] = known[columns.index[rows]]
    return slots
