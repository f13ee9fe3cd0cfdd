"""What is the same for all instructions that differ by addresses alone: cost, operands, and most violations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import copysign

import numpy as np

from ...ir.errors import UnsupportedError
from ...ir.graph import DTYPES
from ...ir.isa.footprint import Strided, footprint, overlaps_itself
from ...ir.isa.row import Row
from ...ir.isa.table import DTYPE_NAMES, ROWS, Instruction, make
from ...ir.isa.timing import Cost, KernelWork, instruction_cost
from ...ir.machine import Engine, Machine
from ...ir.trace import ViolationKind

_IMMEDIATES = {row.mnemonic: [i for i, f in enumerate(row.fields) if f.number == "float"] for row in ROWS.values()}
"""Where each row's floats are."""


def identity(instruction: Instruction) -> tuple[object, ...]:
    """What equals only that of an instruction that does the same, of whatever operator; 0.0 and -0.0 differ."""
    mnemonic, values = instruction.mnemonic, instruction.values
    immediates = _IMMEDIATES[mnemonic]
    if not immediates:
        return mnemonic, values
    return mnemonic, values, *(copysign(1.0, values[i]) for i in immediates)


@dataclass(frozen=True, eq=False)
class InstructionTemplate:
    """``instruction`` has base addresses 0, and ``operands`` are where they would be then.

    ``bases`` are the positions of the operands' base addresses in an instruction's values. ``problems`` are
    violations (kind, message) wherever it is placed. All instructions of a synchronising row share one template.
    """

    row: Row
    engine: Engine
    instruction: Instruction
    cost: Cost
    operands: tuple[Strided, ...]
    bases: tuple[int, ...]
    problems: tuple[tuple[ViolationKind, str], ...]

    @cached_property
    def idle(self) -> bool:
        """Whether an extent is 0, so that nothing is done; what windows visit may all be out of bounds."""
        extents = {dim for operand in self.row.operands if not operand.window for dim in operand.dims}
        extents |= {"kh", "kw"} & self.row.position.keys()
        return any(self.instruction.values[self.row.position[name]] == 0 for name in extents)


class InstructionTemplates:
    """All templates of a program; equal ones are one object. ``sync``: those of synchronisation, by mnemonic."""

    def __init__(self, machine: Machine, kernels: tuple[KernelWork, ...]) -> None:
        """``kernels``: what each kernel of the host or a scalar engine does."""
        self._machine = machine
        self._kernels = kernels
        self._known: dict[tuple[object, ...], InstructionTemplate] = {}
        self._bases: dict[str, tuple[int, ...]] = {}
        self.sync = {
            row.mnemonic: InstructionTemplate(
                row, machine.engines[0], make(row.mnemonic, 0, {}), Cost(0, 0, 0), (), (), ()
            )
            for row in ROWS.values()
            if row.kind == "sync"
        }

    def template(self, engine: Engine, instruction: Instruction) -> InstructionTemplate:
        """The template of an instruction that is no synchronisation."""
        mnemonic = instruction.mnemonic
        bases = self._bases.get(mnemonic)
        if bases is None:
            row = instruction.row
            bases = self._bases[mnemonic] = tuple(row.position[f"{o.name}.base"] for o in row.operands)
        values = list(instruction.values)
        for position in bases:
            values[position] = 0
        bare = Instruction(mnemonic, 0, tuple(values))
        key = engine.name, identity(bare)
        template = self._known.get(key)
        if template is None:
            template = self._known[key] = _make(self._machine, engine, bare, bases, self._kernels)
        return template


def _make(
    machine: Machine, engine: Engine, bare: Instruction, bases: tuple[int, ...], kernels: tuple[KernelWork, ...]
) -> InstructionTemplate:
    problems = list(_problems(machine, engine, bare, kernels))
    kinds = {kind for kind, _ in problems}
    operands = () if "operand" in kinds else footprint(bare)
    for operand in operands:
        if operand.writes and overlaps_itself(operand):
            message = f"elements of {operand.name} overlap: strides {list(operand.strides)} bytes"
            problems.append(("operand", f"{message} for extents {list(operand.extents)}"))
    cost = Cost(engine.issue, 0, engine.latency)
    if not kinds & {"operand", "access"}:
        try:
            cost = instruction_cost(machine, engine, bare, kernels)
        except UnsupportedError as error:
            problems.append(("operand", str(error)))
    return InstructionTemplate(bare.row, engine, bare, cost, operands, bases if operands else (), tuple(problems))


def _problems(
    machine: Machine, engine: Engine, bare: Instruction, kernels: tuple[KernelWork, ...]
) -> Iterator[tuple[ViolationKind, str]]:
    row, values = bare.row, bare.values
    if row.kind != "sync" and row.kind not in engine.classes:
        yield "access", f"{engine.name} does not run {row.kind} instructions"
    if row.latency == "kernel" and int(values[0]) >= len(kernels):
        yield "operand", f"there is no kernel number {int(values[0])}"
    if row.kind == "broadcast" and int(values[row.position["cores"]]) >> machine.cores:
        yield "operand", f"the mask names a core beyond the {machine.cores} of the cluster"
    dtypes: set[int] = set()
    for operand in row.operands:
        at = row.position[f"{operand.name}.mem"]
        memory, dtype, _, *strides = (int(v) for v in values[at : at + 3 + len(operand.dims)])
        if operand.name not in row.indices:
            dtypes.add(dtype)
        if memory >= len(machine.memories) or dtype >= len(DTYPE_NAMES):
            yield "operand", f"{operand.name} names memory {memory} and dtype {dtype}, and one of them does not exist"
            continue
        name = machine.memories[memory].name
        if operand.name in row.indices and np.dtype(DTYPE_NAMES[dtype]).kind not in "iu":
            yield "operand", f"{operand.name} holds indices, and {DTYPE_NAMES[dtype]} is no integer"
        # An old value that an engine accumulates into never leaves the memory's own adder.
        if operand.access == "r" and name not in engine.sources:
            yield "access", f"{engine.name} cannot read {operand.name} from {name}"
        if "w" in operand.access and name not in engine.writes:
            yield "access", f"{engine.name} cannot write {operand.name} to {name}"
        if "w" in operand.access and machine.memories[memory].read_only:
            yield "access", f"{name} is read-only, and {operand.name} cannot be written there"
        if machine.memories[memory].scope == "core" and engine.scope != "core":
            yield "access", f"{engine.name} belongs to no core, and {name} to each core"
        size = DTYPES[DTYPE_NAMES[dtype]]
        if any(stride % size for stride in strides):
            yield "alignment", f"strides {strides} of {operand.name} are not all multiples of its {size} bytes"
    if row.latency in ("copy", "gather") and len(dtypes) > 1:
        yield "operand", "the two sides of a copy differ in dtype"
