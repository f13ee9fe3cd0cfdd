"""A stamped instruction is the one that is made of the same fields, and touches what that touches."""

from __future__ import annotations

import random
from itertools import product

import pytest

from girih.ir.errors import UsageError
from girih.ir.isa.footprint import footprint
from girih.ir.isa.table import ROWS, make
from girih.lowering.program.stamp import relocatable

WITH_OPERANDS = [name for name, row in ROWS.items() if row.operands]


def _fields(rng: random.Random, mnemonic: str) -> dict[str, int | float]:
    fields: dict[str, int | float] = {}
    for field in ROWS[mnemonic].fields:
        if field.number == "float":
            fields[field.name] = rng.uniform(-2, 2)
        elif ".s" in field.name:
            fields[field.name] = rng.choice((-64, 0, 4, 64, 256))
        elif ".mem" not in field.name and ".base" not in field.name:
            fields[field.name] = rng.randint(0, min(4, (1 << field.bits - (field.number == "signed")) - 1))
    return fields


@pytest.mark.parametrize("mnemonic", WITH_OPERANDS)
def test_a_stamp_is_what_is_made(mnemonic: str) -> None:
    rng = random.Random(mnemonic)
    names = [operand.name for operand in ROWS[mnemonic].operands]
    for _ in range(5):
        fields = _fields(rng, mnemonic)
        bases = [rng.randrange(1 << 30) for _ in names]
        found = relocatable(mnemonic, fields)
        wanted = make(mnemonic, 7, fields | {f"{n}.base": b for n, b in zip(names, bases, strict=True)})
        assert found.stamp(7, bases) == wanted
        for touch, base, array in zip(found.footprints, bases, footprint(wanted), strict=True):
            assert (base + touch.low, base + touch.high, touch.writes) == (array.low, array.high, array.writes)
            if touch.empty:
                continue
            steps = [[abs(s) * i for i in range(e)] for s, e in zip(array.strides, array.extents, strict=True)]
            firsts = [sum(point) for point in product(*steps)]
            for pitch, width in touch.patterns:
                covered = {(first + byte) % pitch for first in firsts for byte in range(array.itemsize)}
                assert covered <= set(range(width)) and width - 1 in covered and width <= pitch


@pytest.mark.parametrize("base", [-1, 1 << 40])
def test_an_address_that_no_field_holds_is_refused(base: int) -> None:
    with pytest.raises(UsageError, match=r"src\.base"):
        relocatable("mcopy", {"n0": 1}).stamp(0, [0, base])
