"""Instructions as bytes: opcode (16 bits), operator (32 bits), then the row's fields, packed from the lowest bit."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from ..codec import to_json
from ..errors import UsageError
from .row import Number, Row
from .table import BY_OPCODE, ROWS, Instruction, binary32

_PREFIX_BITS = 48

TABLE_SHA256: bytes = hashlib.sha256(to_json(BY_OPCODE)).digest()
"""Identifies the instruction table; programs for another table are refused."""


def _layout(row: Row) -> tuple[tuple[tuple[int, int, Number], ...], int]:
    """Shift, bits and number kind of each field, and the instruction's length in bytes."""
    fields: list[tuple[int, int, Number]] = []
    shift = _PREFIX_BITS
    for spec in row.fields:
        fields.append((shift, spec.bits, spec.number))
        shift += spec.bits
    return tuple(fields), -(-shift // 8)


_LAYOUT = {row.mnemonic: _layout(row) for row in BY_OPCODE}


def encode(instruction: Instruction) -> bytes:
    """The bytes of one instruction, little-endian."""
    fields, size = _LAYOUT[instruction.mnemonic]
    word = ROWS[instruction.mnemonic].opcode | instruction.op << 16
    for (shift, bits, number), value in zip(fields, instruction.values, strict=True):
        if number == "float":
            value = struct.unpack("<I", struct.pack("<f", value))[0]
        word |= (int(value) & ((1 << bits) - 1)) << shift
    return word.to_bytes(size, "little")


def decode(data: bytes, position: int = 0) -> tuple[Instruction, int]:
    """The instruction at ``position``, and the position after it."""
    opcode = int.from_bytes(data[position : position + 2], "little")
    if position + 6 > len(data) or opcode >= len(BY_OPCODE):
        raise UsageError(f"there is no instruction at byte {position} (opcode {opcode})")
    mnemonic = BY_OPCODE[opcode].mnemonic
    fields, size = _LAYOUT[mnemonic]
    if position + size > len(data):
        raise UsageError(f"the {mnemonic} at byte {position} is cut short")
    word = int.from_bytes(data[position : position + size], "little")
    values: list[int | float] = []
    for shift, bits, number in fields:
        value = (word >> shift) & ((1 << bits) - 1)
        if number == "signed" and value >> (bits - 1):
            value -= 1 << bits
        values.append(binary32(struct.unpack("<f", struct.pack("<I", value))[0]) if number == "float" else value)
    return Instruction(mnemonic, (word >> 16) & 0xFFFFFFFF, tuple(values)), position + size


def encode_stream(stream: Sequence[Instruction]) -> bytes:
    return b"".join(encode(instruction) for instruction in stream)


def decode_stream(data: bytes, count: int, name: str) -> tuple[Instruction, ...]:
    """``count`` instructions that fill ``data`` exactly; an error message begins with ``name``."""
    instructions: list[Instruction] = []
    position = 0
    try:
        for _ in range(count):
            instruction, position = decode(data, position)
            instructions.append(instruction)
    except UsageError as error:
        raise UsageError(f"damaged program: {name}: {error}") from error
    if position != len(data):
        raise UsageError(f"damaged program: {name} holds {len(data)} bytes for {position} bytes of instructions")
    return tuple(instructions)
