"""Instructions as text, for people to read and for tests to write.

vadd.vv op=12 n0=1 n1=56 n2=64 dst=L1[0x1000]f16(0,128,2) a=L1[0x3000]f16(0,128,2) b=IM[0x0]f32(0,0,4)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import UsageError
from .table import DTYPE_NAMES, ROWS, Instruction, make

_SHORT = {
    "float32": "f32", "float16": "f16", "int8": "i8", "uint8": "u8", "int32": "i32", "int64": "i64", "bool": "b8",
    "float64": "f64",
}  # fmt: skip
_LONG = {short: name for name, short in _SHORT.items()}
_OPERAND = re.compile(r"(?P<mem>[^\[\]=]+)\[(?P<base>0x[0-9a-f]+)\](?P<dtype>\w+)\((?P<strides>[-0-9,]*)\)")


def print_instruction(instruction: Instruction, memories: Sequence[str] = ()) -> str:
    """One line; ``memories`` names the machine's memories in order (without: ``m0``, ``m1``, ...)."""
    row = instruction.row
    scalars = len(row.fields) - sum(3 + len(o.dims) for o in row.operands)
    words = [row.mnemonic, f"op={instruction.op}"]
    words += [f"{f.name}={v}" for f, v in zip(row.fields[:scalars], instruction.values[:scalars], strict=True)]
    position = scalars
    for operand in row.operands:
        mem, dtype, base, *strides = (int(v) for v in instruction.values[position : position + 3 + len(operand.dims)])
        position += 3 + len(operand.dims)
        place = memories[mem] if mem < len(memories) else f"m{mem}"
        kind = _SHORT[DTYPE_NAMES[dtype]] if dtype < len(DTYPE_NAMES) else f"d{dtype}"
        words.append(f"{operand.name}={place}[{base:#x}]{kind}({','.join(map(str, strides))})")
    return " ".join(words)


def parse_instruction(text: str, memories: Sequence[str] = ()) -> Instruction:
    """Read what :func:`print_instruction` wrote with the same ``memories``; raises :class:`UsageError`."""
    mnemonic, *words = text.split()
    row = ROWS.get(mnemonic)
    if row is None:
        raise UsageError(f"there is no instruction {mnemonic!r}")
    operands = {o.name: o for o in row.operands}
    fields: dict[str, int | float] = {}
    numbers = {f.name: f.number for f in row.fields}
    for word in words:
        name, _, value = word.partition("=")
        try:
            if name in operands:
                fields |= _parse_operand(name, value, len(operands[name].dims), memories)
            else:
                fields[name] = float(value) if numbers.get(name) == "float" else int(value, 0)
        except (ValueError, KeyError) as error:
            raise UsageError(f"{mnemonic}: cannot read {word!r}") from error
    op = fields.pop("op", 0)
    return make(mnemonic, int(op), fields)


def _parse_operand(name: str, text: str, dims: int, memories: Sequence[str]) -> dict[str, int]:
    found = _OPERAND.fullmatch(text)
    if found is None:
        raise ValueError(text)
    strides = [int(s) for s in found["strides"].split(",")]
    if len(strides) != dims:
        raise ValueError(text)
    mem = memories.index(found["mem"]) if found["mem"] in memories else int(found["mem"].removeprefix("m"))
    dtype = found["dtype"]
    code = DTYPE_NAMES.index(_LONG[dtype]) if dtype in _LONG else int(dtype.removeprefix("d"))
    base = {f"{name}.mem": mem, f"{name}.dtype": code, f"{name}.base": int(found["base"], 16)}
    return base | {f"{name}.s{i}": s for i, s in enumerate(strides)}
