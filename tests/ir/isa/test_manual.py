"""The manual in ``docs/`` says what the table says."""

from __future__ import annotations

from pathlib import Path

from girih.ir.isa.encoding import encode
from girih.ir.isa.manual import manual
from girih.ir.isa.table import BY_OPCODE, make

PAGE = Path(__file__).parents[3] / "docs" / "isa.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == manual(), "run `make docs`"


def test_every_instruction_is_there() -> None:
    text = manual()
    for row in BY_OPCODE:
        line = next(line for line in text.splitlines() if f"| `{row.mnemonic}` |" in line)
        cells = [cell.strip() for cell in line.replace("\\|", "").strip("|").split("|")]
        assert cells[0] == str(row.opcode)
        assert all(f"{f.name}:{f.bits}" in cells[2] for f in row.scalars)
        assert all(f"`{o.name}[{','.join(o.dims)}]` {o.access}" in cells[3] for o in row.operands)
        assert int(cells[4]) == len(encode(make(row.mnemonic, 0, {})))
        assert row.latency in cells[5] and ("special" in cells[5]) == row.special
        # Opcode, operator, and what the fields add up to, in whole bytes.
        assert int(cells[4]) == -(-(48 + sum(f.bits for f in row.fields)) // 8)
