"""What a kernel of a user must not do, whatever its inputs hold: what would end the process, or change other results.

    its inputs      are only read: other operators may read them later
    its results     are written
    functions       that it calls by name exist in this process

Its indices are a subject of their own: :mod:`.kernel_bounds`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, cast

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import StringImm, TensorLoad


def kernel_problem(function: Any, inputs: int) -> str | None:
    """What is wrong with a PrimFunc whose first ``inputs`` parameters are inputs, for a message; ``None``: nothing."""
    stores: list[Any] = []
    calls: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, stores.append), order="pre")
    tvm_ffi.structural_walk(function.body, (tvm.ir.Call, calls.append), order="pre")
    for call in calls:
        problem = _call_problem(call)
        if problem is not None:
            return problem
    # Of a buffer whose address is taken, or a part of which has a name of its own, nobody knows who writes it.
    passed = [a.source if isinstance(a, TensorLoad) else a for c in calls for a in c.args]
    parts: list[Any] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, lambda block: parts.extend(block.match_buffers)), order="pre")
    written = [*(s.buffer for s in stores), *passed, *(part.source.source for part in parts)]
    for position, parameter in enumerate(function.params):
        if position < inputs and any(parameter.same_as(s.buffer) for s in stores):
            return (
                f"its kernel writes {parameter.name}, which is its input {position}; "
                "write a result or a buffer of T.alloc_buffer"
            )
        if position >= inputs and not any(parameter.same_as(buffer) for buffer in written):
            return f"its kernel never writes {parameter.name}, which is its result {position - inputs}"
    return None


def _call_problem(call: Any) -> str | None:
    # Behind the name of the dialect.
    kind = getattr(call.op, "name", str(call.op)).rpartition(".")[2]
    name = next(_texts(call), None)
    if name is None:
        return None
    if "call_packed" in kind or "call_cpacked" in kind:
        known = tvm_ffi.get_global_func(name, allow_missing=True) is not None
        way = "register it with tvm_ffi.register_global_func in the plugin"
    elif kind in ("call_extern", "call_pure_extern"):
        known = hasattr(ctypes.CDLL(None), name)
        way = "load the library that has it with ctypes.CDLL(FILE, ctypes.RTLD_GLOBAL) in the plugin"
    else:
        return None
    return None if known else f"it calls {name!r}, which this process does not have; {way}, or compute it in loops"


def _texts(call: Any) -> Iterator[str]:
    return (str(cast("Any", a).value) for a in call.args[:1] if isinstance(a, StringImm))
