"""Which tensor a DMA instruction fetches, and for which operator: the one that reads it, which may come much later."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import cache

from ...ir.graph import Graph
from ...ir.isa.table import ROWS, Instruction
from ...ir.machine import Machine
from ...ir.plan import Plan, SharedBuffer
from ...ir.program import Program

FetchedTensor = Callable[[Instruction], tuple[int, str]]
"""From an instruction to the operator that it works for, as an index in ``program.ops``, and the tensor it fetches."""

_PAGE = 1 << 16
"""Bytes of a memory with homes whose buffers are looked through for an address: networks have thousands of them."""


def fetched_tensors(graph: Graph, plan: Plan, program: Program, machine: Machine) -> FetchedTensor:
    """A function that tells the operator and the fetched tensor of each instruction of the program.

    They are the operator that the instruction is marked with, and no tensor (``""``), unless it reads a tensor's home:
    then the operator is the first from there on, in the order of the plan, that reads the tensor.
    """
    numbers = {memory.name: number for number, memory in enumerate(machine.memories)}
    homes = {numbers[name] for name in machine.levels.homes}
    buffers = [b for b in plan.shared if numbers[b.memory] in homes]
    ops = [op for segment in plan.segments for op in segment.ops]
    order = {name: i for i, name in enumerate(ops)}
    slots: dict[str, list[int]] = {}
    for slot, (_, op) in enumerate(plan.slots):
        slots.setdefault(op, []).append(slot)
    index = {op.name: i for i, op in enumerate(program.ops)}
    known: dict[tuple[int, int, int], tuple[int, str]] = {}

    def is_live(buffer: SharedBuffer, op: str) -> bool:
        return any(buffer.live[0] <= slot < buffer.live[1] for slot in slots.get(op, ()))

    pages: dict[tuple[int, int], list[SharedBuffer]] = {}
    for buffer in buffers:
        for page in range(buffer.address // _PAGE, -(-(buffer.address + buffer.bytes) // _PAGE)):
            pages.setdefault((numbers[buffer.memory], page), []).append(buffer)

    @cache
    def readers_of(tensor: str) -> list[int]:
        """Positions, in the order of the plan, of the operators that read a tensor."""
        return sorted(order[consumer.name] for consumer in graph.consumers[tensor])

    def find(memory: int, address: int, marked: int) -> tuple[int, str]:
        op = program.ops[marked].name
        live = [
            buffer
            for buffer in pages.get((memory, address // _PAGE), ())
            if buffer.address <= address < buffer.address + buffer.bytes and is_live(buffer, op)
        ]
        if not live:
            return marked, ""
        # An operator of many instances may see several homes at one address: its own input is the likeliest.
        buffer = next((b for b in live if order[op] in readers_of(b.tensor)), live[0])
        readers = readers_of(buffer.tensor)
        first = bisect_left(readers, order[op])
        return (index[ops[readers[first]]] if first < len(readers) else marked), buffer.tensor

    read = {
        row.mnemonic: [
            (row.position[f"{operand.name}.mem"], row.position[f"{operand.name}.base"])
            for operand in row.operands
            if operand.access == "r"
        ]
        for row in ROWS.values()
    }
    """By mnemonic: where the memory and the address of each operand are that is read."""

    def tensor_of(instruction: Instruction) -> tuple[int, str]:
        values = instruction.values
        for memory, base in read[instruction.mnemonic]:
            if values[memory] in homes:
                key = int(values[memory]), int(values[base]), instruction.op
                if key not in known:
                    known[key] = find(*key)
                return known[key]
        return instruction.op, ""

    return tensor_of
