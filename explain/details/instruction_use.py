"""The instructions of an operator: how many of each on each engine, what they take, and when they ran."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.isa.assembly import print_instruction
from ...ir.isa.table import Instruction
from ..compilation import Compilation
from ..cycles.fetched_tensors import fetched_tensors
from ..cycles.instruction_costs import InstructionCosts

_SHOWN = 2
"""Instructions of each kind that are disassembled."""


@dataclass(frozen=True)
class InstructionRow:
    """The instructions of one mnemonic on one engine, on all its ``queues`` together.

    ``cycles_alone``: what they take if nothing else runs; ``cycles``: what they took in the run, both summed over the
    queues. ``first``: the first ones of the first queue, disassembled, each with the number that it has in the queue.
    """

    engine: str
    mnemonic: str
    kind: str
    queues: tuple[str, ...]
    instructions: int
    cycles_alone: int
    cycles: int
    begin: int
    end: int
    first: tuple[str, ...]


@dataclass
class _Sum:
    kind: str
    queues: dict[str, None]
    instructions: int
    alone: int
    cycles: int
    begin: int
    end: int
    first: list[str]


def instruction_rows(compilation: Compilation, operator: str) -> tuple[InstructionRow, ...]:
    """One row for each mnemonic on each engine, by queue; a fetch counts for the operator that reads what it fetches.

    Waits are rows, too: their cycles are those in which the queue waited.
    """
    program, machine, trace = compilation.program, compilation.machine, compilation.trace
    costs = InstructionCosts(program, machine)
    memories = tuple(memory.name for memory in machine.memories)
    sums: dict[tuple[str, str], _Sum] = {}
    for queue, index, instruction in instructions_of(compilation, operator):
        begin, end = int(trace.start[queue][index]), int(trace.end[queue][index])
        if end < 0:
            continue
        name = program.queues[queue]
        key, kind = (name.engine, instruction.mnemonic), instruction.row.kind
        row = sums.setdefault(key, _Sum(kind, {}, 0, 0, 0, begin, end, []))
        row.queues[str(name)] = None
        row.instructions += 1
        row.cycles += end - begin
        row.begin, row.end = min(row.begin, begin), max(row.end, end)
        if kind != "sync":
            row.alone += costs.cost(machine.engine[name.engine], instruction).cost.busy
        if len(row.first) < _SHOWN and len(row.queues) == 1:
            row.first.append(f"{name} {index}: {print_instruction(instruction, memories)}")
    order = {engine.name: number for number, engine in enumerate(machine.engines)}
    return tuple(
        InstructionRow(
            engine, mnemonic, s.kind, tuple(s.queues), s.instructions, s.alone, s.cycles, s.begin, s.end, tuple(s.first)
        )
        for (engine, mnemonic), s in sorted(
            sums.items(), key=lambda item: (order[item[0][0]], item[1].kind == "sync", -item[1].cycles, item[0][1])
        )
    )


def instructions_of(compilation: Compilation, operator: str) -> Iterator[tuple[int, int, Instruction]]:
    """(queue, index, instruction) of all that works for an operator."""
    program = compilation.program
    tensor_of = fetched_tensors(compilation.graph, compilation.plan, program, compilation.machine)
    wanted = next((i for i, op in enumerate(program.ops) if op.name == operator), -1)
    for queue, stream in enumerate(program.streams):
        for index, instruction in enumerate(stream):
            if tensor_of(instruction)[0] == wanted:
                yield queue, index, instruction
