"""Instructions without their addresses: built and checked once, stamped wherever the same is done elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.isa.footprint import Strided, footprint
from ...ir.isa.table import ROWS, Instruction, make


@dataclass(frozen=True)
class OperandFootprint:
    """The bytes ``low..high`` that one operand covers, counted from its base, and whether it ``writes`` them.

    They are rows of ``width`` bytes every ``pitch`` bytes; both are 0 if there is no such pattern.
    """

    low: int
    high: int
    pitch: int
    width: int
    writes: bool

    @property
    def empty(self) -> bool:
        return self.high <= self.low


@dataclass(frozen=True)
class Relocatable:
    """An instruction whose operands begin at address 0.

    For each operand, in the order of the row: the position of its base address in ``values``, the largest base that the
    field holds, and what it covers.
    """

    mnemonic: str
    values: tuple[int | float, ...]
    positions: tuple[int, ...]
    largest: tuple[int, ...]
    footprints: tuple[OperandFootprint, ...]

    def stamp(self, op: int, bases: Sequence[int]) -> Instruction:
        """The instruction with its operands at these addresses, in the order of the row."""
        values = list(self.values)
        for position, base, largest in zip(self.positions, bases, self.largest, strict=True):
            if not 0 <= base <= largest:
                row = ROWS[self.mnemonic]
                fields = {f.name: v for f, v in zip(row.fields, values, strict=True)}
                return make(self.mnemonic, op, fields | {row.fields[position].name: base})
            values[position] = base
        return Instruction(self.mnemonic, op, tuple(values))


def relocatable(mnemonic: str, fields: Mapping[str, int | float]) -> Relocatable:
    """An instruction from its fields but the bases; raises what :func:`~girih.ir.isa.table.make` does."""
    instruction = make(mnemonic, 0, fields)
    row = ROWS[mnemonic]
    positions = tuple(row.position[f"{operand.name}.base"] for operand in row.operands)
    largest = tuple((1 << row.fields[position].bits) - 1 for position in positions)
    footprints = tuple(_operand_footprint(array) for array in footprint(instruction))
    return Relocatable(mnemonic, instruction.values, positions, largest, footprints)


def _operand_footprint(array: Strided) -> OperandFootprint:
    pitch, width = _pattern(array)
    return OperandFootprint(array.low, array.high, pitch, width, array.writes)


def _pattern(array: Strided) -> tuple[int, int]:
    """(pitch, width) if the array is rows of equal width at a common pitch, else zeros."""
    dims = sorted((abs(s), e) for s, e in zip(array.strides, array.extents, strict=True) if e > 1 and s)
    width = array.itemsize
    while dims and dims[0][0] <= width:
        stride, extent = dims.pop(0)
        width = max(width, stride * (extent - 1) + width)
    if not dims:
        return 0, 0
    pitch = dims[0][0]
    if any(stride % pitch for stride, _ in dims):
        return 0, 0
    return pitch, width
