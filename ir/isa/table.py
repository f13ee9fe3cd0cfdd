"""The instruction set: one table, from which encoder, assembler, simulator, timing and documentation derive.

An operand ``X`` is a strided array in one memory: fields ``X.mem`` (index in the machine's memories), ``X.dtype``
(index in :data:`DTYPE_NAMES`), ``X.base`` (byte address of its first element) and ``X.s0, X.s1, ...`` (signed byte
strides, one for each of its dimensions). A core-scoped memory means that of the core whose queue holds the
instruction.

Arithmetic: sources are converted from their dtypes, the result is rounded once, to the dtype of ``dst``. Vector
instructions compute in float32; or in int64 when every vector source is an integer or bool, every immediate is
whole and fits int64, and the function is neither special (except div, mod and a running sum) nor quant, dequant or a
mean. Matrix instructions, fused multiply-adds, sums over windows and reductions along the lanes sum exactly (the
simulator: in float64, integers: int64) and round once, so that the result of an instruction does not depend on the
order of its sum.
Rounding is to nearest even; float to integer truncates and saturates (NaN gives 0), integer to integer wraps, anything
to bool is ``x != 0``. Infinities and NaNs follow IEEE 754; a maximum or minimum with a NaN is a NaN (and found where
the first NaN is), that of two zeros is either of them. An instruction reads all of its sources before it writes; no two
elements of its destination may overlap. Instructions of the copy, broadcast and dma classes move bits, but for fills.
An instruction with an extent of 0 does nothing.

Windows: the instruction visits ``a[oh*sh+kh*dh+h0, ow*sw+kw*dw+w0]`` for each output and each position of the kernel;
``a.base`` is the address of row 0, column 0, and what is outside of [0,H) or [0,W) is never accessed. Along the lanes
of a vector instruction are the ``n`` channels of ``p`` positions that have the same kernel.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from ..errors import UsageError
from ..graph import DTYPES
from .row import AccessMode, Field, Kind, Operand, Row, Rule
from .scalar_functions import ELEMENTS, Element

DTYPE_NAMES: tuple[str, ...] = tuple(DTYPES)
"""The dtypes in the order of their codes in ``X.dtype`` fields."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: ``values`` in the order of the row's fields.

    ``op`` indexes :attr:`girih.ir.program.Program.ops`.
    """

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


def _window(*inner: str) -> tuple[Field, ...]:
    """The scalars of an instruction that visits windows; ``inner`` are its extents after those of the kernel."""
    return (
        *_extents("oh", "ow", "n", "kh", "kw", *inner),
        *_extents("sh", "sw", "dh", "dw", bits=16),
        Field("h0", 32, "signed"),
        Field("w0", 32, "signed"),
        *_extents("H", "W"),
    )


def _w(*dims: str, access: AccessMode = "w") -> Operand:
    return Operand("dst", access, dims)


def _r(name: str, *dims: str) -> Operand:
    return Operand(name, "r", dims)


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
    latency: Rule
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
    vectors = tuple(_r(n, *_LANES) for n, f in zip(names, form, strict=True) if f == "v")
    scalars = [n for n, f in zip(names, form, strict=True) if f == "s"]
    # The functions of one argument call it x.
    sentence = "dst = " + (re.sub(r"\bx\b", "a", element.sentence) if element.arity == 1 else element.sentence)
    if scalars:
        sentence += "; " + " and ".join(f"{n} is the immediate imm{i}" for i, n in enumerate(scalars))
    return _Draft(
        f"v{element.name}.{form}", "vector", element.name, _extents(*_LANES) + _immediates(len(scalars)),
        (_w(*_LANES), *vectors), "vector", sentence + ".", element.special,
    )  # fmt: skip


def _element_rows() -> Iterator[_Draft]:
    for element in ELEMENTS.values():
        for form in element.forms:
            yield _element(element, form)


def _combining_rows() -> Iterator[_Draft]:
    box = _extents(*_LANES)
    old, rows = _w(*_LANES, access="rw"), _w("n0", "n1")
    a, b = _r("a", *_LANES), _r("b", *_LANES)
    yield _Draft("vfill.s", "vector", "fill", box + _immediates(1), (_w(*_LANES),), "vector", "dst = imm0.")
    for how, text in {"sum": "dst + a", "max": "max(dst, a)", "min": "min(dst, a)", "prod": "dst * a"}.items():
        yield _Draft(f"vacc.{how}", "vector", how, box, (old, a), "vector", f"dst = {text}, element by element.")
    yield _Draft("vmacc.vv", "vector", "macc", box, (old, a, b), "vector", "dst = dst + a * b, element by element.")
    yield _Draft("vmacc.vs", "vector", "macc", box + _immediates(1), (old, a), "vector", "dst = dst + a * imm0.")
    for how in ("sum", "max", "min", "prod"):
        text = f"dst[n0,n1] = {how} of a[n0,n1,n2] over n2, and of the old dst when acc is 1."
        yield _Draft(f"vred.{how}", "vector", how, (*box, _ACC), (rows, a), "reduction", text)
    text = "dst[n0,n1] = sum of a * b over n2, plus the old dst when acc is 1."
    yield _Draft("vdot.vv", "vector", "dot", (*box, _ACC), (rows, a, b), "reduction", text)
    for how, text in {"max": "largest", "min": "smallest"}.items():
        text = f"dst[n0,n1] = the n2 of the {text} a[n0,n1,n2]; of several, the first."
        yield _Draft(f"varg.{how}", "vector", how, box, (rows, a), "reduction", text)
    text = "dst[n0,n1,n2] = sum of a[n0,n1,i] over i <= n2."
    yield _Draft("vscan.sum", "vector", "sum", box, (_w(*_LANES), a), "vector", text, special=True)


def _window_rows() -> Iterator[_Draft]:
    dst, a = _w("oh", "ow", "p", "n"), Operand("a", "r", ("H", "W", "p", "n"), window=True)
    where = "the positions of the window that are in bounds"
    none = "0 where none is"
    for how in ("max", "sum"):
        text = f"dst[oh,ow,p,n] = {how} of a[...,p,n] over {where}, and of the old dst when acc is 1; else, {none}."
        yield _Draft(f"vpool.{how}", "vector", how, (*_window("p"), _ACC), (dst, a), "window", text)
    text = f"dst[oh,ow,p,n] = mean of a[...,p,n] over {where}; {none}."
    yield _Draft("vpool.avg", "vector", "avg", _window("p"), (dst, a), "window", text)
    text = f"dst[oh,ow,p,n] = sum of a[...,p,n] * b[kh,kw,n] over {where}, plus the old dst when acc is 1."
    operands = (dst, a, _r("b", "kh", "kw", "n"))
    yield _Draft("vdwconv.vv", "vector", "dwconv", (*_window("p"), _ACC), operands, "window", text)


def _matrix_rows() -> Iterator[_Draft]:
    matmul = (_w("m", "n"), _r("a", "m", "k"), _r("b", "k", "n"))
    conv = (_w("oh", "ow", "n"), Operand("a", "r", ("H", "W", "ci"), window=True), _r("b", "kh", "kw", "ci", "n"))
    product = "dst[m,n] = sum of a[m,k] * b[k,n] over k"
    windows = "dst[oh,ow,n] = sum of a[...,ci] * b[kh,kw,ci,n] over kh, kw and ci, where a is 0 out of bounds"
    old, bias = ", plus the old dst when acc is 1", ", plus c[n]"
    relu = "; negative results become 0 when relu is 1."
    c, post = _r("c", "n"), (_ACC, Field("relu", 1))
    for name, scalars, operands, text in (
        ("matmul", _extents("m", "n", "k"), matmul, product),
        ("conv", _window("ci"), conv, windows),
    ):
        yield _Draft(f"m{name}", "matrix", name, (*scalars, _ACC), operands, "matrix", f"{text}{old}.")
        yield _Draft(
            f"m{name}.bias", "matrix", name, (*scalars, *post), (*operands, c), "matrix", text + bias + old + relu
        )


def _move_rows() -> Iterator[_Draft]:
    box, flipped = _extents(*_BOX), ("n0", "n2", "n1", "n3")
    straight, turned = (_w(*_BOX), _r("src", *_BOX)), (_w(*flipped), _r("src", *_BOX))
    places: dict[Kind, tuple[str, str]] = {
        "copy": ("m", "to or from a core's own memories"),
        "dma": ("d", "between memories of the cluster"),
    }
    for kind, (letter, where) in places.items():
        yield _Draft(f"{letter}copy", kind, "copy", box, straight, "copy", f"dst = src, {where}.")
        text = (
            f"dst[n0,n2,n1,n3] = src[n0,n1,n2,n3], {where}; the engine turns blocks, so that both sides move in runs."
        )
        yield _Draft(f"{letter}trans", kind, "copy", box, turned, "copy", text)
        text = f"dst = imm0 in every element, {where}."
        yield _Draft(f"{letter}fill", kind, "fill", box + _immediates(1), straight[:1], "fill", text)
    yield _Draft(
        "mbcast", "broadcast", "copy", (*box, Field("cores", 64)), straight, "copy",
        "dst = src, at the same address in every core whose bit is set in cores.",
    )  # fmt: skip


def _indexed_rows() -> Iterator[_Draft]:
    scalars, table = _extents(*_LANES, "entries"), ("n0", "entries", "n2")
    out, index = _w(*_LANES), ("n0", "n1")
    text = "dst[n0,n1,n2] = a[n0,b[n0,n1],n2]."
    operands = (out, Operand("a", "r", table, picked="b"), _r("b", *index))
    yield _Draft("vgather.row", "vector", "gather", scalars, operands, "vector", text)
    text = "dst[n0,n1,n2] = a[n0,n1,b[n0,n1,n2]]: with strides of 0, a table of one function."
    operands = (out, Operand("a", "r", ("n0", "n1", "entries"), picked="b"), _r("b", *_LANES))
    yield _Draft("vgather.lane", "vector", "gather", scalars, operands, "vector", text, special=True)
    text = "dst[n0,b[n0,n1],n2] = a[n0,n1,n2]; where b names an entry twice, the last one stays."
    operands = (Operand("dst", "w", table, picked="b"), _r("a", *_LANES), _r("b", *index))
    yield _Draft("vscatter.row", "vector", "scatter", scalars, operands, "vector", text)
    text = "dst[n0,b[n0,n1],n2] += a[n0,n1,n2], for an entry that b names several times the exact sum of them all."
    operands = (Operand("dst", "rw", table, picked="b"), _r("a", *_LANES), _r("b", *index))
    yield _Draft("vscatter.add", "vector", "scatter", scalars, operands, "vector", text)
    text = "dst[n0,n1,n2] = src[n0,index[n0,n1],n2], "
    operands = (out, Operand("src", "r", table, picked="index"), _r("index", *index))
    yield _Draft("mgather", "copy", "gather", scalars, operands, "gather", text + "to or from a core's own memories.")
    yield _Draft("dgather", "dma", "gather", scalars, operands, "gather", text + "between memories of the cluster.")
    text = "dst[n0,index[n0,n1],n2] = src[n0,n1,n2], between memories of the cluster; of two for one entry, the last."
    operands = (Operand("dst", "w", table, picked="index"), _r("src", *_LANES), _r("index", *index))
    yield _Draft("dscatter", "dma", "scatter", scalars, operands, "gather", text)


def _control_rows() -> Iterator[_Draft]:
    yield _Draft(
        "wait", "sync", "wait", (Field("queue", 16), Field("count", 32)), (), "sync",
        "The queue stalls until queue number `queue` has retired `count` instructions.",
    )  # fmt: skip
    yield _Draft(
        "post", "sync", "post", (Field("token", 16),), (), "sync",
        "Posts `token` once everything before it in the queue has retired; one queue alone may post a token.",
    )  # fmt: skip
    yield _Draft(
        "take", "sync", "take", (Field("token", 16),), (), "sync",
        "The queue stalls until `token` was posted, the n-th take for the n-th post; one queue alone may take a token.",
    )  # fmt: skip
    yield _Draft(
        "barrier", "sync", "barrier", (Field("barrier", 16), Field("queues", 16)), (), "sync",
        "The queue stalls until `queues` queues, itself among them, have come to `barrier` for the n-th time and have "
        "retired everything before it.",
    )  # fmt: skip
    yield _Draft("hcall", "host", "call", (Field("kernel", 16),), (), "kernel", "The host runs kernel number `kernel`.")
    yield _Draft(
        "scall", "scalar", "call", (Field("kernel", 16),), (), "kernel",
        "The scalar engine runs kernel number `kernel`.",
    )  # fmt: skip


def _table() -> dict[str, Row]:
    drafts = chain(
        _element_rows(), _combining_rows(), _window_rows(), _indexed_rows(), _matrix_rows(), _move_rows(),
        _control_rows(),
    )  # fmt: skip
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
    values: list[int | float] = []
    for spec, low, high in row.ranges:
        value = fields.get(spec.name, 0)
        values.append(value if type(value) is int and low <= value < high else _checked(row, spec, value))
    return Instruction(mnemonic, op, tuple(values))


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
    low, high = spec.range
    if not low <= value < high:
        raise UsageError(f"{row.mnemonic}: field {spec.name} holds {low} to {high - 1}, and {value} is outside")
    return value
