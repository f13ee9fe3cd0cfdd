"""The instructions of a run with their times, and those of them that cross links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.isa.table import Instruction
from ...ir.machine import Engine, Machine
from ...ir.program import Program
from ...ir.trace import Trace
from ..cycles.instruction_costs import InstructionCosts


@dataclass(frozen=True)
class TimedInstruction:
    """An instruction that came to its end. Its engine worked from ``begin + issue`` to ``end``."""

    engine: Engine
    core: int | None
    instruction: Instruction
    begin: int
    end: int


@dataclass(frozen=True)
class LinkTransfer:
    """Bytes that cross a link, evenly from ``begin`` to ``end``; ``link`` and ``op`` are numbers.

    ``op`` is the operator that the instruction is marked with.
    """

    link: int
    op: int
    begin: int
    end: int
    bytes: int


def timed_instructions(program: Program, trace: Trace, machine: Machine) -> Iterator[TimedInstruction]:
    """Everything but synchronisation that ended, queue by queue."""
    for queue, stream, begins, ends in zip(program.queues, program.streams, trace.start, trace.end, strict=True):
        engine = machine.engine[queue.engine]
        for instruction, begin, end in zip(stream, begins.tolist(), ends.tolist(), strict=True):
            if end >= 0 and instruction.row.kind != "sync":
                yield TimedInstruction(engine, queue.core, instruction, begin, end)


def link_transfers(program: Program, machine: Machine, trace: Trace) -> Iterator[LinkTransfer]:
    """The transfers of copies, broadcasts and DMA, from the end of their issue on, queue by queue."""
    costs = InstructionCosts(program, machine)
    for timed in timed_instructions(program, trace, machine):
        if timed.instruction.row.kind in ("copy", "broadcast", "dma"):
            begin = timed.begin + timed.engine.issue
            for link, count in costs.cost(timed.engine, timed.instruction).cost.links:
                yield LinkTransfer(link, timed.instruction.op, begin, timed.end, count)
