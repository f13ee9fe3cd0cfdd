"""What the instructions of a program cost when nothing else runs, and what they would cost at peak rates."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

from ...ir.isa.table import DTYPE_NAMES, ROWS, Instruction
from ...ir.isa.timing import Cost, instruction_cost, matrix_blocks, matrix_fill, matrix_shape, vector_shape
from ...ir.machine import Engine, Machine
from ...ir.program import Program

_WITHOUT_ADDRESSES = {
    row.mnemonic: itemgetter(*(i for i, f in enumerate(row.fields) if not f.name.endswith(".base")))
    for row in ROWS.values()
}
"""Takes the values of an instruction that its cost depends on: all but addresses."""


@dataclass(frozen=True)
class InstructionCost:
    """``cost`` as the machine says; ``peak``, ``fill`` of the array and ``issue`` of it in cycles of the engine.

    Starting a kernel of the host or the scalar engine is part of its peak, as it is for the lower bound.
    """

    cost: Cost
    peak: float
    fill: int
    issue: int


_NOTHING = InstructionCost(Cost(0, 0, 0), 0.0, 0, 0)


class InstructionCosts:
    """The costs of one program's instructions, each found once for all that differ in addresses alone."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self._machine = machine
        self._kernels = [kernel.work for kernel in program.kernels]
        self._known: dict[tuple[object, ...], InstructionCost] = {}

    def cost(self, engine: Engine, instruction: Instruction) -> InstructionCost:
        """The cost of an instruction on its engine; synchronisation costs nothing."""
        if instruction.row.kind == "sync":
            return _NOTHING
        key = engine.name, instruction.mnemonic, _WITHOUT_ADDRESSES[instruction.mnemonic](instruction.values)
        known = self._known.get(key)
        if known is None:
            cost = instruction_cost(self._machine, engine, instruction, self._kernels)
            issue = 0 if instruction.row.latency == "kernel" else cost.issue
            fill = matrix_fill(engine, *matrix_shape(instruction)) if instruction.row.kind == "matrix" else 0
            peak = _peak(self._machine, engine, instruction, cost, fill)
            known = self._known[key] = InstructionCost(cost, peak, fill, issue)
        return known


def _peak(machine: Machine, engine: Engine, instruction: Instruction, cost: Cost, fill: int) -> float:
    """Cycles that an instruction would take at the peak rate of its engine and of the links that it crosses."""
    row = instruction.row
    if row.kind == "matrix":
        m, n, k = matrix_shape(instruction)
        blocks, steps = matrix_blocks(engine, m, n, k)
        full = blocks * steps * engine.rows * engine.columns * engine.depth
        return (cost.body - fill) * m * n * k / full if full else 0.0
    if row.kind == "vector":
        *_, along = vector_shape(instruction)
        operand = row.operands[0 if row.latency == "vector" else 1].name
        lanes = (engine.lanes or {})[DTYPE_NAMES[int(instruction.values[row.position[f"{operand}.dtype"]])]]
        full = -(-along // lanes) * lanes
        return cost.body * along / full if full else 0.0
    if row.latency == "kernel":
        return float(cost.busy)
    if not cost.payload:
        return 0.0
    rates = (engine.bytes_per_cycle, *(machine.links[number].bytes_per_cycle for number, _ in cost.links))
    return cost.payload / min(rates)
