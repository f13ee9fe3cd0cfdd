"""Read back instructions that were printed as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from girih.ir.errors import UsageError
from girih.ir.isa.assembly import SHORT_DTYPES
from girih.ir.isa.table import DTYPE_NAMES, ROWS, Instruction, make

_LONG = {short: name for name, short in SHORT_DTYPES.items()}
_OPERAND = re.compile(r"(?P<mem>[^\[\]=]+)\[(?P<base>0x[0-9a-f]+)\](?P<dtype>\w+)\((?P<strides>[-0-9,]*)\)")


def parse_instruction(text: str, memories: Sequence[str] = ()) -> Instruction:
    """Read what :func:`girih.ir.isa.assembly.print_instruction` wrote with the same ``memories``; raises :class:`UsageError`."""
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
    match = _OPERAND.fullmatch(text)
    if match is None:
        raise ValueError(text)
    strides = [int(s) for s in match["strides"].split(",")]
    if len(strides) != dims:
        raise ValueError(text)
    mem = memories.index(match["mem"]) if match["mem"] in memories else int(match["mem"].removeprefix("m"))
    dtype = match["dtype"]
    code = DTYPE_NAMES.index(_LONG[dtype]) if dtype in _LONG else int(dtype.removeprefix("d"))
    base = {f"{name}.mem": mem, f"{name}.dtype": code, f"{name}.base": int(match["base"], 16)}
    return base | {f"{name}.s{i}": s for i, s in enumerate(strides)}
