"""Multi-buffering made explicit: a buffer of degree ``d`` becomes ``d`` versions, of which successive tiles take turns.

    buffer[i, j]      becomes      buffer[tile % d, i, j]

``tile`` counts the tiles of the loops around the buffer's allocation, which moves out of them.
"""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from .prim_func import FUNCTION, buffer_name
from .tile_template import DEGREE, TILE

Node = Any
"""A node of TIR; TVM's classes are beyond static types."""


def with_versions(module: tvm.IRModule) -> tvm.IRModule:
    """The module with a leading dimension for each buffer whose degree is annotated to be more than one."""
    func = module[FUNCTION]
    degrees = annotated_degrees(func)
    if not degrees:
        return module
    around: list[Node] = []
    allocations: list[Node] = []
    versions: dict[Node, tuple[Node, Node]] = {}

    def loop(node: Node, mutator: Node) -> Node:
        around.append(node)
        result = mutator.default_mutate(node)
        around.pop()
        return result

    def allocation(node: Node, _: Node) -> Node:
        degree = degrees.get(buffer_name(node.buffer), 1)
        if degree == 1:
            return node
        count: Node = tirx.IntImm("int32", 0)
        for tile in around:
            if TILE in tile.annotations:
                count = count * tile.extent + tile.loop_var
        old = node.buffer
        shape = [degree, *old.ty.shape]
        new = tirx.decl_buffer(shape, str(old.ty.dtype.dtype), name=old.name, scope=old.scope(), layout=None)
        versions[old] = new, tirx.floormod(count, tirx.IntImm("int32", degree))
        allocations.append(tirx.AllocBuffer(new))
        return tirx.Evaluate(0)

    body = tvm_ffi.structural_mutate(func.body, [(tirx.For, loop), (tirx.AllocBuffer, allocation)])

    def load(node: Node) -> Node:
        if node.source not in versions:
            return node
        new, version = versions[node.source]
        return tirx.BufferLoad(new, [version, *node.indices])

    def store(node: Node) -> Node:
        if node.buffer not in versions:
            return node
        new, version = versions[node.buffer]
        return tirx.BufferStore(new, node.value, [version, *node.indices])

    body = tvm_ffi.structural_map(body, [(TensorLoad, load), (tirx.BufferStore, store)], order="post")
    whole = func.with_body(tirx.SeqStmt([*allocations, body]))
    return tirx.transform.RemoveNoOp()(tvm.IRModule({FUNCTION: whole}))


def annotated_degrees(func: Node) -> dict[str, int]:
    """The degrees of more than one that loops are annotated with, by buffer."""
    degrees: dict[str, int] = {}

    def note(loop: Node) -> None:
        for key, degree in loop.annotations.items():
            if str(key).startswith(DEGREE) and int(degree) > 1:
                degrees[str(key).removeprefix(DEGREE)] = int(degree)

    tvm_ffi.structural_walk(func.body, (tirx.For, note), order="pre")
    return degrees
