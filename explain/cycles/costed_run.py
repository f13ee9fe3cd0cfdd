"""A run of a program with what its instructions cost alone and what they waited for: the accounts begin here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...ir.machine import Machine
from ...ir.program import Program
from ...ir.trace import Trace
from .critical_path import CriticalPath
from .instruction_costs import InstructionCost, InstructionCosts


@dataclass(frozen=True)
class CostedRun:
    """A program, its machine, and a trace of the program on it."""

    program: Program
    machine: Machine
    trace: Trace

    @cached_property
    def costs(self) -> list[list[InstructionCost]]:
        """``costs[q][i]``: the cost of instruction i of queue q."""
        costs = InstructionCosts(self.program, self.machine)
        return [
            [costs.cost(self.machine.engine[queue.engine], instruction) for instruction in stream]
            for queue, stream in zip(self.program.queues, self.program.streams, strict=True)
        ]

    @cached_property
    def path(self) -> CriticalPath:
        """What let each instruction start."""
        latency = [[cost.cost.latency for cost in costs] for costs in self.costs]
        return CriticalPath(self.program, self.trace, latency)
