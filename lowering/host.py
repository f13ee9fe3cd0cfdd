"""Host kernels: TIR through TVM's LLVM build."""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm

from ..ir.program import HostKernel


def run_kernel(kernel: HostKernel, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a host kernel for the given inputs, in the order of ``kernel.inputs`` and ``kernel.outputs``.

    Arrays are of one replica, with the dtypes and shapes that the kernel declares.
    """
    module = tvm.ir.load_json(kernel.tir)
    if not isinstance(module, tvm.IRModule):
        module = tvm.IRModule({"main": module.with_attr("global_symbol", "main")})
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        library = tvm.compile(module, target="llvm")
    name = next(iter(module.functions)).name_hint
    outputs = [tvm.runtime.tensor(np.zeros(o.shape, o.dtype)) for o in kernel.outputs]
    library[name](*(tvm.runtime.tensor(np.ascontiguousarray(a)) for a in arrays), *outputs)
    return [o.numpy() for o in outputs]
