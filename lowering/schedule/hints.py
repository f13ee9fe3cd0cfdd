"""What a user's schedule says about the instructions of a block, carried through TVM's lowering.

A block with the annotation ``npu.instruction`` becomes instructions of that family (``vred``, ``mconv`` ...), and a
loop with ``npu.axis`` is that field of them (``n2``, ``k``, ``oh`` ...), or stays ``outer``: one instruction for each
of its values. TVM keeps the annotations of loops, and drops those of blocks: this module makes attributes of them.
"""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import StringImm

from .prim_func import FUNCTION

INSTRUCTION = "npu.instruction"
AXIS = "npu.axis"


def with_instruction_hints(module: tvm.IRModule) -> tvm.IRModule:
    """The module with the annotation ``npu.instruction`` of each block as an attribute around its statement."""
    func = module[FUNCTION]

    def kept(realize: Any) -> Any:
        block = realize.block
        if INSTRUCTION not in block.annotations:
            return realize
        family = str(block.annotations[INSTRUCTION])
        body = tirx.AttrStmt(tirx.IntImm("int32", 0), INSTRUCTION, StringImm(family), block.body)
        annotations = {key: value for key, value in block.annotations.items() if str(key) != INSTRUCTION}
        hinted = s_tir.SBlock(
            block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init, block.alloc_buffers,
            block.match_buffers, annotations,
        )  # fmt: skip
        return s_tir.SBlockRealize(realize.iter_values, realize.predicate, hinted)

    body = tvm_ffi.structural_map(func.body, (s_tir.SBlockRealize, kept), order="post")
    return module if body.same_as(func.body) else tvm.IRModule({FUNCTION: func.with_body(body)})
