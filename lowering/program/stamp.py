"""Instructions without their addresses: built and checked once, stamped wherever the same is done elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.isa.footprint import Strided, footprint
from ...ir.isa.table import ROWS, Instruction, make


@dataclass(frozen=True)
class OperandFootprint:
    """The bytes ``low..high`` that one operand covers, counted from its base, and whether it ``writes`` them.

    ``patterns``: pairs (pitch, width), the narrowest first: all of them lie in rows of ``width`` bytes every ``pitch``
    bytes, the first of which begins at ``low``.
    """

    low: int
    high: int
    patterns: tuple[tuple[int, int], ...]
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
    footprints = tuple(operand_footprint(array) for array in footprint(instruction))
    return Relocatable(mnemonic, instruction.values, positions, largest, footprints)


def operand_footprint(array: Strided) -> OperandFootprint:
    """What an array that begins at address 0 covers."""
    return OperandFootprint(array.low, array.high, _patterns(array), array.writes)


def _patterns(array: Strided) -> tuple[tuple[int, int], ...]:
    """For each stride of which the larger ones are multiples: (the stride, the bytes that the smaller ones span)."""
    dims = sorted((abs(s), e) for s, e in zip(array.strides, array.extents, strict=True) if e > 1 and s)
    width = array.itemsize
    patterns: list[tuple[int, int]] = []
    for number, (stride, extent) in enumerate(dims):
        if stride > width and not any(larger % stride for larger, _ in dims[number + 1 :]):
            patterns.append((stride, width))
        width += stride * (extent - 1)
    return tuple(patterns)
