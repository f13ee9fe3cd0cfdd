"""The manual of the instruction set, from the table: ``python -m girih.ir.isa.manual`` prints it."""

from __future__ import annotations

import re

from . import table as isa
from .encoding import encode
from .row import Field, Operand, Row
from .table import BY_OPCODE, DTYPE_NAMES, ROWS, make

_KINDS = {
    "vector": ("Vector", "On the vector engine of a core."),
    "matrix": ("Matrix", "On the matrix engine of a core."),
    "copy": ("Copy", "On an engine that moves data to and from a core."),
    "broadcast": ("Broadcast", "On an engine that moves data to several cores at once."),
    "dma": ("DMA", "On an engine that moves data between the memories of a cluster."),
    "sync": ("Synchronisation", "In every queue; they hold no engine and take no time of their own."),
    "host": ("Host", "On the host."),
    "scalar": ("Scalar", "On the scalar engine of a cluster."),
}

_SUFFIX = {"unsigned": "", "signed": "s", "float": "f"}

_ENCODING = """\
An instruction is a little-endian number of whole bytes: bits 0 to 15 hold the opcode, bits 16 to 47 the number of the
operator that it belongs to, and then come its fields in the order of the tables, without gaps: first those that are
listed as *fields*, as `name:bits` (`s` for two's complement, `f` for binary32), then for each operand `X[...]` its
`X.mem:8`, `X.dtype:8`, `X.base:40` and a stride `X.s0:32s`, `X.s1:32s`, ... for each of its dimensions. In brackets
are the fields that hold the extents of these dimensions; `r`, `w` and `rw` say whether an operand is read, written or
both (`w` with a field `acc`: also read when that is 1), `window` and `by b` that not all of it is accessed. *Bytes* is
the length, *rule* the [rule of time](timing.md), *special* marks the slower function unit. A program file refuses to
load when a bit of it changed, when it is cut short, and when it was written for another table."""


def manual() -> str:
    """The whole manual as Markdown."""
    body = re.sub(r":data:`(\w+)`|``", lambda m: f"`{m[1]}`" if m[1] else "`", str(isa.__doc__)).strip()
    title, _, rest = body.partition("\n\n")
    dtypes = ", ".join(f"{code} {name}" for code, name in enumerate(DTYPE_NAMES))
    parts = [
        "# The instruction set",
        "<!-- Written by `make docs` from ir/isa/table.py; changes belong there. -->",
        f"{title}\n\n{rest}",
        f"Codes of dtypes: {dtypes}.",
        f"## Encoding\n\n{_ENCODING}",
        f"There are {len(ROWS)} instructions.",
    ]
    for kind, (heading, where) in _KINDS.items():
        rows = [row for row in BY_OPCODE if row.kind == kind]
        parts.append(f"## {heading}\n\n{where}\n\n" + "\n".join([*_HEAD, *map(_line, rows)]))
    return "\n\n".join(parts) + "\n"


_HEAD = (
    "| opcode | instruction | fields | operands | bytes | rule | what it does |",
    "|---|---|---|---|---|---|---|",
)


def _line(row: Row) -> str:
    fields = " ".join(_field(f) for f in row.scalars)
    operands = "<br>".join(_operand(o) for o in row.operands)
    rule = f"{row.latency}, special" if row.special else row.latency
    cells = [f"{row.opcode}", f"`{row.mnemonic}`", fields and f"`{fields}`", operands]
    cells += [f"{len(encode(make(row.mnemonic, 0, {})))}", rule, re.sub(r"([|*])", r"\\\1", row.sentence)]
    return f"| {' | '.join(cells)} |"


def _field(field: Field) -> str:
    return f"{field.name}:{field.bits}{_SUFFIX[field.number]}"


def _operand(operand: Operand) -> str:
    some = " window" if operand.window else f" by {operand.picked}" if operand.picked else ""
    return f"`{operand.name}[{','.join(operand.dims)}]` {operand.access}{some}"


if __name__ == "__main__":
    print(manual(), end="")
