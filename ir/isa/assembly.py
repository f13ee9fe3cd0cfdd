"""Instructions as text, for people to read.

vadd.vv op=12 n0=1 n1=56 n2=64 dst=L1[0x1000]f16(0,128,2) a=L1[0x3000]f16(0,128,2) b=IM[0x0]f32(0,0,4)
"""

from __future__ import annotations

from collections.abc import Sequence

from .table import DTYPE_NAMES, Instruction

SHORT_DTYPES = {
    "float32": "f32", "float16": "f16", "int8": "i8", "uint8": "u8", "int32": "i32", "int64": "i64", "bool": "b8",
    "float64": "f64", "bfloat16": "bf16",
}  # fmt: skip


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
        kind = SHORT_DTYPES[DTYPE_NAMES[dtype]] if dtype < len(DTYPE_NAMES) else f"d{dtype}"
        words.append(f"{operand.name}={place}[{base:#x}]{kind}({','.join(map(str, strides))})")
    return " ".join(words)
