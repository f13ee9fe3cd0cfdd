"""The instruction set: one table, from which encoder, assembler, simulator, timing and documentation derive.

An operand ``X`` is a strided array in one memory: fields ``X.mem`` (index in the machine's memories), ``X.dtype``
(index in :data:`DTYPE_NAMES`), ``X.base`` (byte address of its first element) and ``X.s0, X.s1, ...`` (signed byte
strides, one for each of its dimensions). A core-scoped memory means that of the core whose queue holds the
instruction.

Arithmetic: sources are converted from their dtypes, the result is rounded once, to the dtype of ``dst``. Vector
instructions compute in float32; or in int64 when every vector source is an integer or bool, every immediate is
integral, and the function is neither special (except div and mod) nor a power. Matrix instructions and reductions
along the lanes sum exactly (the simulator: in float64, integers: int64) and round once, so that the result of an
instruction does not depend on the order of its sum. Rounding is to nearest even; float to integer truncates and
saturates (NaN gives 0), integer to integer wraps, anything to bool is ``x != 0``. An instruction with an extent of 0
does nothing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from .elements import ELEMENTS, Element
from .errors import UsageError
from .graph import DTYPES

DTYPE_NAMES: tuple[str, ...] = tuple(DTYPES)
"""The dtypes in the order of their codes in ``X.dtype`` fields."""

Kind = Literal["vector", "matrix", "copy", "broadcast", "dma", "sync", "host"]
Number = Literal["unsigned", "signed", "float"]
AccessMode = Literal["r", "w", "rw"]


@dataclass(frozen=True)
class Field:
    """One field of an instruction; a float field holds a binary32 number."""

    name: str
    bits: int
    number: Number = "unsigned"


@dataclass(frozen=True)
class Operand:
    """An array that an instruction reads or writes; ``dims`` names the field with the extent of each dimension.

    A destination of a row with a field ``acc`` is also read when ``acc`` is 1. The feature map ``a`` of ``mconv`` is
    accessed only at the in-bounds rows and columns, see :mod:`girih.ir.reach`.
    """

    name: str
    access: AccessMode
    dims: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One instruction of the set.

    ``func`` is the element function or the combiner; ``special`` marks the slower function unit; ``latency`` names
    the rule in :mod:`girih.ir.timing` that gives its cycles. ``sentence`` is its manual.
    """

    mnemonic: str
    opcode: int
    kind: Kind
    func: str
    fields: tuple[Field, ...]
    operands: tuple[Operand, ...]
    latency: str
    sentence: str
    special: bool = False

    @cached_property
    def position(self) -> dict[str, int]:
        """Where each field is in :attr:`Instruction.values`."""
        return {f.name: i for i, f in enumerate(self.fields)}

    @cached_property
    def family(self) -> str:
        """The mnemonic without its suffix."""
        return self.mnemonic.partition(".")[0]


@dataclass(frozen=True)
class Instruction:
    """One instruction: ``values`` in the order of the row's fields; ``op`` indexes :attr:`Program.ops`."""

    mnemonic: str
    op: int
    values: tuple[int | float, ...]

    @property
    def row(self) -> Row:
        return ROWS[self.mnemonic]


_LANES = ("n0", "n1", "n2")
_BOX = ("n0", "n1", "n2", "n3")
_ACC = Field("acc", 1)


def _extents(*names: str, bits: int = 32) -> tuple[Field, ...]:
    return tuple(Field(name, bits) for name in names)


def _immediates(count: int) -> tuple[Field, ...]:
    return tuple(Field(f"imm{i}", 32, "float") for i in range(count))


def _operand_fields(operand: Operand) -> Iterator[Field]:
    yield Field(f"{operand.name}.mem", 8)
    yield Field(f"{operand.name}.dtype", 8)
    yield Field(f"{operand.name}.base", 40)
    for dim in range(len(operand.dims)):
        yield Field(f"{operand.name}.s{dim}", 32, "signed")


@dataclass(frozen=True)
class _Draft:
    """A row before it has its opcode and the fields of its operands."""

    mnemonic: str
    kind: Kind
    func: str
    scalars: tuple[Field, ...]
    operands: tuple[Operand, ...]
    latency: str
    sentence: str
    special: bool = False

    def row(self, opcode: int) -> Row:
        fields = self.scalars + tuple(f for operand in self.operands for f in _operand_fields(operand))
        return Row(
            self.mnemonic, opcode, self.kind, self.func, fields, self.operands,
            self.latency, self.sentence, self.special,
        )  # fmt: skip


def _element(element: Element, form: str) -> _Draft:
    """A vector row of one element function; ``form`` tells of each argument if it is a vector or an immediate."""
    names = "abc"[: element.arity]
    vectors = tuple(Operand(n, "r", _LANES) for n, f in zip(names, form, strict=True) if f == "v")
    scalars = [n for n, f in zip(names, form, strict=True) if f == "s"]
    sentence = f"dst = {element.sentence}"
    if element.arity == 1:
        sentence += ", where x is a"
    elif element.name in ("max", "min", "and", "or"):
        sentence += " of a and b"
    if scalars:
        sentence += "; " + " and ".join(f"{n} is the immediate imm{i}" for i, n in enumerate(scalars))
    fields = _extents(*_LANES) + _immediates(len(scalars))
    operands = (Operand("dst", "w", _LANES), *vectors)
    return _Draft(
        f"v{element.name}.{form}", "vector", element.name, fields, operands, "vector", sentence + ".", element.special
    )


def _element_rows() -> Iterator[_Draft]:
    forms = {1: ("v",), 2: ("vv", "vs", "sv"), 3: ("vvv", "vvs", "vsv", "vss")}
    for element in ELEMENTS.values():
        for form in forms[element.arity]:
            yield _element(element, form)


def _other_vector_rows() -> Iterator[_Draft]:
    box = _extents(*_LANES)
    w, rw = Operand("dst", "w", _LANES), Operand("dst", "rw", _LANES)
    a, b = Operand("a", "r", _LANES), Operand("b", "r", _LANES)
    rows = Operand("dst", "w", _LANES[:2])
    yield _Draft("vfill.s", "vector", "fill", box + _immediates(1), (w,), "vector", "dst = imm0.")
    for how, text in {"sum": "dst + a", "max": "max(dst, a)", "min": "min(dst, a)", "prod": "dst * a"}.items():
        yield _Draft(f"vacc.{how}", "vector", how, box, (rw, a), "vector", f"dst = {text}, element by element.")
    yield _Draft("vmacc.vv", "vector", "macc", box, (rw, a, b), "vector", "dst = dst + a * b, element by element.")
    yield _Draft("vmacc.vs", "vector", "macc", box + _immediates(1), (rw, a), "vector", "dst = dst + a * imm0.")
    for how in ("sum", "max", "min", "prod"):
        text = f"dst[n0,n1] = {how} of a[n0,n1,n2] over n2, and of the old dst when acc is 1."
        yield _Draft(f"vred.{how}", "vector", how, (*box, _ACC), (rows, a), "reduction", text)
    text = "dst[n0,n1] = sum of a * b over n2, plus the old dst when acc is 1."
    yield _Draft("vdot.vv", "vector", "dot", (*box, _ACC), (rows, a, b), "reduction", text)


def _matrix_rows() -> Iterator[_Draft]:
    yield _Draft(
        "mmatmul", "matrix", "matmul", (*_extents("m", "n", "k"), _ACC),
        (Operand("dst", "w", ("m", "n")), Operand("a", "r", ("m", "k")), Operand("b", "r", ("k", "n"))),
        "matrix", "dst[m,n] = sum of a[m,k] * b[k,n] over k, plus the old dst when acc is 1.",
    )  # fmt: skip
    scalars = (
        *_extents("oh", "ow", "n", "kh", "kw", "ci"),
        *_extents("sh", "sw", "dh", "dw", bits=16),
        Field("h0", 32, "signed"),
        Field("w0", 32, "signed"),
        *_extents("H", "W"),
        _ACC,
    )
    operands = (
        Operand("dst", "w", ("oh", "ow", "n")),
        Operand("a", "r", ("H", "W", "ci")),
        Operand("b", "r", ("kh", "kw", "ci", "n")),
    )
    yield _Draft(
        "mconv", "matrix", "conv", scalars, operands, "matrix",
        "dst[oh,ow,n] = sum of a[oh*sh+kh*dh+h0, ow*sw+kw*dw+w0, ci] * b[kh,kw,ci,n] over kh, kw and ci, where a is 0 "
        "at rows outside [0,H) and columns outside [0,W), plus the old dst when acc is 1. a.base is the address of "
        "row 0, column 0.",
    )  # fmt: skip


def _move_rows() -> Iterator[_Draft]:
    operands = (Operand("dst", "w", _BOX), Operand("src", "r", _BOX))
    box = _extents(*_BOX)
    yield _Draft("mcopy", "copy", "copy", box, operands, "copy", "dst = src, to or from a core's own memories.")
    yield _Draft(
        "mbcast", "broadcast", "copy", (*box, Field("cores", 64)), operands, "copy",
        "dst = src, at the same address in every core whose bit is set in cores.",
    )  # fmt: skip
    yield _Draft("dcopy", "dma", "copy", box, operands, "copy", "dst = src, between memories of the cluster.")


def _control_rows() -> Iterator[_Draft]:
    yield _Draft(
        "wait", "sync", "wait", (Field("queue", 16), Field("count", 32)), (), "wait",
        "The queue stalls until queue number `queue` has retired `count` instructions.",
    )  # fmt: skip
    yield _Draft("hcall", "host", "call", (Field("kernel", 16),), (), "host", "The host runs kernel number `kernel`.")


def _table() -> dict[str, Row]:
    drafts = [*_element_rows(), *_other_vector_rows(), *_matrix_rows(), *_move_rows(), *_control_rows()]
    return {draft.mnemonic: draft.row(opcode) for opcode, draft in enumerate(drafts)}


ROWS: dict[str, Row] = _table()
"""Every instruction by mnemonic, in the order of opcodes."""

BY_OPCODE: tuple[Row, ...] = tuple(ROWS.values())


def make(mnemonic: str, op: int, fields: Mapping[str, int | float]) -> Instruction:
    """An instruction from the values of its fields; a field that is not given is 0.

    Immediates are rounded to binary32. Raises :class:`UsageError` for an unknown mnemonic or field, and for a value
    that its field cannot hold.
    """
    row = ROWS.get(mnemonic)
    if row is None:
        raise UsageError(f"there is no instruction {mnemonic!r}")
    if not fields.keys() <= row.position.keys():
        unknown = sorted(fields.keys() - row.position.keys())
        raise UsageError(f"{mnemonic} has no field {unknown[0]!r}; its fields are {', '.join(row.position)}")
    return Instruction(mnemonic, op, tuple(_checked(row, f, fields.get(f.name, 0)) for f in row.fields))


def field(instruction: Instruction, name: str) -> int | float:
    """The value of one field."""
    return instruction.values[instruction.row.position[name]]


def binary32(value: float) -> float:
    """The nearest binary32 number; every NaN becomes the one object ``math.nan``, so that instructions compare."""
    if value != value:
        return math.nan
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _checked(row: Row, spec: Field, value: int | float) -> int | float:
    if spec.number == "float":
        return binary32(value)
    if type(value) is not int:
        if not hasattr(value, "__index__"):
            raise UsageError(f"{row.mnemonic}: field {spec.name} takes an integer, not {value!r}")
        value = value.__index__()  # type: ignore[union-attr]
    low, high = (0, 1 << spec.bits) if spec.number == "unsigned" else (-1 << spec.bits - 1, 1 << spec.bits - 1)
    if not low <= value < high:
        raise UsageError(f"{row.mnemonic}: field {spec.name} holds {low} to {high - 1}, and {value} is outside")
    return value
