"""What a wait for an instruction is a wait for, by the engine that runs it and what it does there."""

from __future__ import annotations

from ...ir.isa.table import Instruction, field
from ...ir.machine import Machine
from .movement import movement


def cause_of(machine: Machine, engine: str, instruction: Instruction) -> str:
    """One of :data:`.breakdown.CAUSES`, or "compute" or "fetch", which depend on more than the instruction.

    "compute" is "engine" for a wait of the same core, and "cores" for one of another. "fetch" is "fetch_weights" if a
    constant is fetched, and "fetch_data" if not. ``instruction`` is none of synchronisation.
    """
    row = instruction.row
    if row.latency == "kernel":
        return "host"
    if row.kind in ("matrix", "vector") or _stages(machine, engine, instruction):
        return "compute"
    return movement(machine, row.kind, _memory(machine, instruction, row.operands[0].name))


def _stages(machine: Machine, engine: str, instruction: Instruction) -> bool:
    """Whether a core copies between its own memories what one of its engines computes on."""
    if instruction.mnemonic != "mcopy":
        return False
    source, target = (_memory(machine, instruction, end) for end in ("src", "dst"))
    within = machine.memory[source].scope == machine.memory[target].scope == "core"
    return within and (engine, source, target) in machine.staging_copies


def _memory(machine: Machine, instruction: Instruction, operand: str) -> str:
    """The name of the memory that an operand is in."""
    return machine.memories[int(field(instruction, f"{operand}.mem"))].name
