"""Programs as files."""

from __future__ import annotations

import contextlib
import hashlib
import re
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from girih.ir.errors import UsageError
from girih.ir.isa.table import make
from girih.ir.program import HostKernel, Placed, Program, ProgramOp, ProgramPort, Queue, disassemble

PROGRAM = Program(
    machine="tiny",
    machine_sha256="1" * 64,
    graph_sha256="2" * 64,
    plan_sha256="3" * 64,
    replicas=2,
    queues=(Queue("VME", 0), Queue("DMR")),
    streams=(
        (make("vfill.s", 0, {"n0": 1, "imm0": float("-inf")}), make("wait", 1, {"queue": 1, "count": 1})),
        (make("dcopy", 1, {"n3": 5, "src.s3": -2}),),
    ),
    ops=(ProgramOp("fill", ("node_0",), 5, 6), ProgramOp("sort", ("top", "k"), host=True)),
    constants=(Placed("w", 64, "float16", (3, 4), "4" * 64),),
    inputs=(ProgramPort("x", (4, 3), "float32", 0, 128, "float16", (2, 3)),),
    outputs=(ProgramPort("y", (4,), "int64", None, 256, "int32", (4,)),),
    kernels=(HostKernel("sort", '{"tir": 1}', "data-dependent", (Placed("a", 0, "int8", (1,)),), ()),),
    lower_bound_cycles=77,
    batch=4,
)
DATA = PROGRAM.to_bytes()


def test_round_trip() -> None:
    assert Program.from_bytes(DATA) == PROGRAM
    assert Program.from_bytes(DATA).to_bytes() == DATA
    assert Program.from_bytes(DATA).sha256 == PROGRAM.sha256
    empty = replace(PROGRAM, queues=(), streams=())
    assert Program.from_bytes(empty.to_bytes()) == empty


def refusal(data: bytes) -> str:
    with pytest.raises(UsageError) as error:
        Program.from_bytes(data)
    return str(error.value)


def test_every_flipped_bit_is_refused() -> None:
    reasons: dict[str, int] = {}
    for bit in range(len(DATA) * 8):
        damaged = bytearray(DATA)
        damaged[bit // 8] ^= 1 << bit % 8
        reason = re.sub(r"[\d,]+", "N", refusal(bytes(damaged)).split(":")[0])
        reasons[reason] = reasons.get(reason, 0) + 1
    # 8 bytes are the signature, 4 the version; of the rest those of the file's size are found first.
    assert reasons == {
        "not a Girih program": 64,
        "program format version N": 32,
        "damaged program": len(DATA) * 8 - 96,
    }


def test_every_cut_file_is_refused() -> None:
    for size in range(len(DATA)):
        assert "cut short" in refusal(DATA[:size]) or "header says" in refusal(DATA[:size])


@given(st.binary(max_size=200), st.integers(0, len(DATA)))
def test_whatever_follows_the_file_is_refused(more: bytes, size: int) -> None:
    if DATA[:size] + more != DATA:
        refusal(DATA[:size] + more)


def sealed(content: bytes) -> bytes:
    """A file whose size and checksum are right."""
    whole = content[:44] + struct.pack("<Q", len(content) + 32) + content[52:]
    return whole + hashlib.sha256(whole).digest()


@given(st.integers(0, len(DATA) - 33), st.binary(min_size=1, max_size=8))
def test_nonsense_with_a_right_checksum_is_a_program_or_refused(at: int, data: bytes) -> None:
    """A writer gone wrong: nothing but a UsageError may come of it."""
    content = DATA[:-32]
    with contextlib.suppress(UsageError):
        Program.from_bytes(sealed(content[:at] + data + content[at + len(data) :]))


def test_a_program_for_another_instruction_set() -> None:
    content = bytearray(DATA[:-32])
    content[12] ^= 1
    assert "for another instruction set" in refusal(sealed(bytes(content)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\x03\x04" + DATA, "not a Girih program"),
        (DATA[:-1], "header says"),
        (DATA + b"\0", "header says"),
        (DATA[:200] + b"\xff" + DATA[201:], "checksum"),
        (DATA[:8] + b"\x63" + DATA[9:], "format version 99"),
    ],
)
def test_the_message_names_the_damage(data: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Program.from_bytes(data)


def test_text() -> None:
    text = disassemble(PROGRAM, ("DDR", "LLB"))
    assert "queue 0 VME0:" in text and "queue 1 DMR:" in text
    assert "vfill.s op=0 n0=1 n1=0 n2=0 imm0=-inf dst=DDR[0x0]f32(0,0,0)  ; fill" in text
    assert str(PROGRAM).startswith("program for tiny: 3 instructions in 2 queues")
