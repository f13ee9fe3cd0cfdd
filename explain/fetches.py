"""What the DMA fetches, and for which operator: the one that needs the data, not the one during which it is fetched."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.graph import Graph
from ..ir.isa.table import Instruction
from ..ir.machine import Machine
from ..ir.plan import Plan, SharedBuffer
from ..ir.program import Program

Fetched = Callable[[Instruction], tuple[int, str]]
"""From an instruction to the operator whose work it is, as an index in ``program.ops``, and the tensor it fetches."""


def fetched(graph: Graph, plan: Plan, program: Program, machine: Machine) -> Fetched:
    """What each instruction is for.

    That is the operator it is marked with, and no tensor (``""``), unless it reads a tensor's home in main memory: then
    it is the first operator from there on, in the order of the plan, that reads the tensor.
    """
    main = next(i for i, m in enumerate(machine.memories) if m.role == "main")
    homes = [b for b in plan.shared if b.memory == machine.memories[main].name]
    order = {name: i for i, name in enumerate(op for segment in plan.segments for op in segment.ops)}
    slots: dict[str, list[int]] = {}
    for slot, (_, op) in enumerate(plan.slots):
        slots.setdefault(op, []).append(slot)
    index = {op.name: i for i, op in enumerate(program.ops)}
    known: dict[tuple[int, int], tuple[int, str]] = {}

    def lives(home: SharedBuffer, op: str) -> bool:
        return any(home.live[0] <= slot < home.live[1] for slot in slots.get(op, ()))

    def find(address: int, marked: int) -> tuple[int, str]:
        op = program.ops[marked].name
        for home in homes:
            if home.address <= address < home.address + home.bytes and lives(home, op):
                readers = [c.name for c in graph.consumers[home.tensor] if order[c.name] >= order[op]]
                return (index[min(readers, key=order.__getitem__)] if readers else marked), home.tensor
        return marked, ""

    def what(instruction: Instruction) -> tuple[int, str]:
        row = instruction.row
        for operand in row.operands:
            if operand.access == "r" and instruction.values[row.position[f"{operand.name}.mem"]] == main:
                key = int(instruction.values[row.position[f"{operand.name}.base"]]), instruction.op
                if key not in known:
                    known[key] = find(*key)
                return known[key]
        return instruction.op, ""

    return what
