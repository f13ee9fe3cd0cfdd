"""The instruction table, and what derives from it: fields, bytes, text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from girih.ir.errors import UsageError
from girih.ir.isa.assembly import print_instruction
from girih.ir.isa.encoding import decode, decode_stream, encode, encode_stream
from girih.ir.isa.row import Field, Row
from girih.ir.isa.scalar_functions import ELEMENTS
from girih.ir.isa.table import BY_OPCODE, DTYPE_NAMES, ROWS, Instruction, field, make
from tests.support.assembly import parse_instruction

NAMES = ("DDR", "LLB", "L1", "L1W", "IM")


def values(spec: Field) -> st.SearchStrategy[int | float]:
    if spec.number == "float":
        return st.floats(width=32)
    if spec.number == "signed":
        return st.integers(-(1 << spec.bits - 1), (1 << spec.bits - 1) - 1)
    return st.integers(0, (1 << spec.bits) - 1)


@st.composite
def instructions(draw: st.DrawFn, rows: st.SearchStrategy[Row] = st.sampled_from(BY_OPCODE)) -> Instruction:  # noqa: B008
    row = draw(rows)
    fields = {spec.name: draw(values(spec)) for spec in row.fields}
    return make(row.mnemonic, draw(st.integers(0, (1 << 32) - 1)), fields)


@pytest.mark.parametrize("row", BY_OPCODE, ids=lambda row: row.mnemonic)
@given(st.data(), st.booleans())
@settings(max_examples=10, deadline=None)
def test_decode_reads_what_encode_wrote_and_parse_what_print_did(row: Row, data: st.DataObject, named: bool) -> None:
    instruction = data.draw(instructions(st.just(row)))
    coded = encode(instruction)
    assert decode(coded) == (instruction, len(coded))
    # The bytes are the only ones: what they say is written as they are.
    assert encode(decode(coded)[0]) == coded
    names = NAMES if named else ()
    assert parse_instruction(print_instruction(instruction, names), names) == instruction


@given(st.lists(instructions(), max_size=5))
def test_streams(stream: list[Instruction]) -> None:
    data = encode_stream(stream)
    assert decode_stream(data, len(stream), "s") == tuple(stream)
    with pytest.raises(UsageError, match="s"):
        decode_stream(data, len(stream) + 1, "s")
    with pytest.raises(UsageError, match="s"):
        decode_stream(data + b"\0", len(stream), "s")


def test_text() -> None:
    text = "vadd.vs op=12 n0=1 n1=56 n2=64 imm0=0.5 dst=L1[0x1000]f16(0,128,2) a=IM[0x0]f32(0,-256,4)"
    instruction = parse_instruction(text, NAMES)
    assert print_instruction(instruction, NAMES) == text
    assert field(instruction, "a.s1") == -256
    assert field(instruction, "dst.dtype") == DTYPE_NAMES.index("float16")


@pytest.mark.parametrize(
    "text", ["vodd.v op=0", "vneg.v op=x", "vneg.v speed=3", "vneg.v a=L1[0x0]f16(2)", "wait queue=-1"]
)
def test_text_that_is_no_instruction(text: str) -> None:
    with pytest.raises(UsageError):
        parse_instruction(text, NAMES)


def test_every_row_has_its_manual() -> None:
    assert [row.opcode for row in BY_OPCODE] == list(range(len(ROWS)))
    for row in BY_OPCODE:
        assert row.sentence.endswith(".")
        assert len({f.name for f in row.fields}) == len(row.fields)
        for operand in row.operands:
            assert all(dim in row.position for dim in operand.dims)


def test_every_element_function_has_rows() -> None:
    forms = {1: {"v"}, 2: {"vv", "vs", "sv"}, 3: {"vvv", "vvs", "vsv", "vss"}}
    for name, element in ELEMENTS.items():
        found = {m.rpartition(".")[2] for m in ROWS if m.startswith(f"v{name}.")}
        assert found == set(element.forms) <= forms[element.arity]


def test_absent_fields_are_zero() -> None:
    assert set(make("mmatmul", 3, {"m": 7}).values) == {0, 7}


@pytest.mark.parametrize(
    ("mnemonic", "fields", "message"),
    [
        ("vodd.v", {}, "no instruction"),
        ("vneg.v", {"n3": 1}, "no field 'n3'"),
        ("vneg.v", {"n0": -1}, "n0 holds 0 to 4294967295, and -1"),
        ("vneg.v", {"a.s0": 1 << 31}, "a.s0 holds -2147483648 to 2147483647"),
        ("vneg.v", {"n0": 1.0}, "takes an integer"),
        ("mmatmul", {"acc": 2}, "acc holds 0 to 1"),
    ],
)
def test_values_that_do_not_fit(mnemonic: str, fields: dict[str, int | float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make(mnemonic, 0, fields)


def test_immediates_are_binary32() -> None:
    assert field(make("vfill.s", 0, {"imm0": 0.1}), "imm0") != 0.1
    assert field(make("vfill.s", 0, {"imm0": 1e300}), "imm0") == math.inf
    assert make("vfill.s", 0, {"imm0": math.nan}) == make("vfill.s", 0, {"imm0": -math.nan})
