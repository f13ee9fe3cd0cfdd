"""A run and the plan brought together: the instructions that ended, their slots, and what they touched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.graph import Graph
from ...ir.plan import Plan
from ..cycles.costed_run import CostedRun
from .instruction_columns import InstructionColumns, instruction_columns
from .instruction_slots import instruction_slots
from .memory_accesses import MemoryAccesses


@dataclass(frozen=True)
class Execution:
    """``slots`` has the plan's slot of each row of ``columns``."""

    columns: InstructionColumns
    slots: np.ndarray
    accesses: MemoryAccesses


def execution(graph: Graph, plan: Plan, run: CostedRun) -> Execution:
    """Bring a run and its plan together."""
    columns = instruction_columns(graph, plan, run)
    accesses = MemoryAccesses(run.program, run.machine, columns)
    return Execution(columns, instruction_slots(run.program, columns), accesses)
