"""When each tensor's home in main memory held its data: from its first write to its last read.

Constants and inputs are written before the run, outputs are read after it; so are tensors that nothing touched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan, SharedBuffer
from ...ir.program import Program
from .instruction_columns import InstructionColumns


@dataclass(frozen=True)
class HomeLives:
    """Row b is of ``buffers[b]``, a tensor's place in main memory: the cycles of its life, -1 without an access."""

    memory: str
    buffers: tuple[SharedBuffer, ...]
    begin: np.ndarray
    end: np.ndarray


def home_lives(graph: Graph, plan: Plan, program: Program, machine: Machine, columns: InstructionColumns,
               cycles: int, memory: str = "") -> HomeLives:  # fmt: skip
    """Lives in main memory, or in another ``memory`` (by name) that has homes."""
    main = machine.memories.index(machine.memory[memory] if memory else machine.levels.home.memory)
    buffers = tuple(b for b in plan.shared if b.memory == machine.memories[main].name)
    home = {buffer.tensor: number for number, buffer in enumerate(buffers)}
    begin = np.full(len(buffers), np.iinfo(np.int64).max)
    end = np.full(len(buffers), -1, np.int64)

    def touch(tensor: str, first: int, last: int) -> None:
        if tensor in home:
            number = home[tensor]
            begin[number], end[number] = min(begin[number], first), max(end[number], last)

    for tensor in (*graph.constant_names, *graph.input_tensors):
        touch(tensor, 0, 0)
    for tensor in graph.output_tensors:
        touch(tensor, cycles, cycles)
    starts, ends = columns.start.tolist(), columns.end.tolist()
    kinds = [c.instruction.row.kind for c in columns.classes]
    moving = ("dma", "host", "scalar")
    if not machine.levels.has_exchange:
        moving = (*moving, "copy", "broadcast")
    for row in np.flatnonzero(np.isin(columns.class_of, [i for i, k in enumerate(kinds) if k in moving])):
        described = columns.classes[columns.class_of[row]]
        op = graph.op[program.ops[columns.op[row]].name]
        if kinds[columns.class_of[row]] in ("host", "scalar"):
            for tensor in (*op.inputs, *op.outputs):
                touch(tensor, starts[row], ends[row])
        elif columns.tensor[row] >= 0:
            touch(columns.tensors[columns.tensor[row]], starts[row], ends[row])
        elif any(o.writes and o.memory == main for o in described.operands):
            touch(op.output, starts[row], ends[row])
    return HomeLives(machine.memories[main].name, buffers, np.where(end < 0, -1, begin), end)
