"""Instructions without their addresses: made and checked once, stamped wherever the same is done elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.isa.footprint import Strided, reach
from ...ir.isa.table import ROWS, Instruction, make


@dataclass(frozen=True)
class Touch:
    """What one operand covers, counted from its base: bytes ``low..high``, in rows of ``width`` every ``pitch`` bytes
    (0: no such pattern). ``writes``: what it is there for. ``empty``: nothing is touched."""

    low: int
    high: int
    pitch: int
    width: int
    writes: bool

    @property
    def empty(self) -> bool:
        return self.high <= self.low


@dataclass(frozen=True)
class Template:
    """An instruction whose operands begin at 0; ``at`` and ``most``: place and largest value of each base."""

    mnemonic: str
    values: tuple[int | float, ...]
    at: tuple[int, ...]
    most: tuple[int, ...]
    touches: tuple[Touch, ...]

    def stamp(self, op: int, bases: Sequence[int]) -> Instruction:
        """The instruction with its operands at these addresses, in the order of the row."""
        values = list(self.values)
        for position, base, most in zip(self.at, bases, self.most, strict=True):
            if not 0 <= base <= most:
                row = ROWS[self.mnemonic]
                fields = {f.name: v for f, v in zip(row.fields, values, strict=True)}
                return make(self.mnemonic, op, fields | {row.fields[position].name: base})
            values[position] = base
        return Instruction(self.mnemonic, op, tuple(values))


def template(mnemonic: str, fields: Mapping[str, int | float]) -> Template:
    """The template of an instruction; ``fields`` without bases. Raises what :func:`~girih.ir.isa.table.make` does."""
    instruction = make(mnemonic, 0, fields)
    row = ROWS[mnemonic]
    at = tuple(row.position[f"{operand.name}.base"] for operand in row.operands)
    most = tuple((1 << row.fields[position].bits) - 1 for position in at)
    return Template(mnemonic, instruction.values, at, most, tuple(_touch(array) for array in reach(instruction)))


def _touch(array: Strided) -> Touch:
    pitch, width = _pattern(array)
    return Touch(array.low, array.high, pitch, width, array.writes)


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
