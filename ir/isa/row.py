"""What a row of the instruction table says: fields, operands, and how instructions of it are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["vector", "matrix", "copy", "broadcast", "dma", "sync", "host", "scalar"]
Number = Literal["unsigned", "signed", "float"]
AccessMode = Literal["r", "w", "rw"]
Rule = Literal["vector", "reduction", "window", "matrix", "copy", "fill", "gather", "sync", "kernel"]
"""The rules of time in :mod:`girih.ir.isa.timing` that give the cycles of an instruction."""


@dataclass(frozen=True)
class Field:
    """One field of an instruction; a float field holds a binary32 number."""

    name: str
    bits: int
    number: Number = "unsigned"

    @property
    def range(self) -> tuple[int, int]:
        """The integers that it holds: ``low <= value < high``."""
        return (0, 1 << self.bits) if self.number == "unsigned" else (-1 << self.bits - 1, 1 << self.bits - 1)


@dataclass(frozen=True)
class Operand:
    """An array that an instruction reads or writes; ``dims`` names the field with the extent of each dimension.

    A destination of a row with a field ``acc`` is also read when ``acc`` is 1. A ``window`` is accessed only at the
    rows and columns that the instruction visits and that are in bounds, see :mod:`girih.ir.isa.footprint`. With
    ``picked``, only those positions of the dimension ``entries`` are accessed that the operand of that name holds.
    """

    name: str
    access: AccessMode
    dims: tuple[str, ...]
    window: bool = False
    picked: str = ""


@dataclass(frozen=True)
class Row:
    """One instruction of the set.

    ``func`` is the element function or the combiner; ``special`` marks the slower function unit; ``latency`` names
    the rule of time. ``sentence`` is its manual.
    """

    mnemonic: str
    opcode: int
    kind: Kind
    func: str
    fields: tuple[Field, ...]
    operands: tuple[Operand, ...]
    latency: Rule
    sentence: str
    special: bool = False

    @cached_property
    def position(self) -> dict[str, int]:
        """Where each field is in :attr:`girih.ir.isa.table.Instruction.values`."""
        return {f.name: i for i, f in enumerate(self.fields)}

    @cached_property
    def ranges(self) -> tuple[tuple[Field, int, int], ...]:
        """Each field with the integers ``low <= value < high`` that it holds as they are: none if it holds floats."""
        bounds = [(0, 0) if f.number == "float" else f.range for f in self.fields]
        return tuple((f, low, high) for f, (low, high) in zip(self.fields, bounds, strict=True))

    @cached_property
    def family(self) -> str:
        """The mnemonic without its suffix."""
        return self.mnemonic.partition(".")[0]

    @cached_property
    def scalars(self) -> tuple[Field, ...]:
        """The fields that belong to no operand; they come first."""
        return tuple(f for f in self.fields if "." not in f.name)

    @cached_property
    def indices(self) -> frozenset[str]:
        """The operands that hold positions in another operand."""
        return frozenset(o.picked for o in self.operands if o.picked)
