"""Host kernels: TIR through TVM's LLVM build."""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import tvm

from ..ir.program import HostKernel
from .kernel_guard import Check, IterationCheck, guarded


def ignore(message: str) -> None:
    """Report nothing."""


class _CompiledKernel:
    def __init__(self, kernel: HostKernel) -> None:
        self.kernel = kernel
        module = cast("tvm.IRModule", tvm.ir.load_json(kernel.tir))
        self._name = next(iter(module.functions)).name_hint
        self._guarded = guarded(module[self._name])
        module = tvm.IRModule({self._name: self._guarded.function})
        self._parameters = list(module[self._name].params)
        with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
            self._library = tvm.compile(module, target="llvm")

    def run(self, arrays: Sequence[np.ndarray], report: Callable[[str], None]) -> list[np.ndarray]:
        outputs = [tvm.runtime.tensor(np.zeros(o.shape, o.dtype)) for o in self.kernel.outputs]
        faults = [tvm.runtime.tensor(np.zeros(n, np.int64)) for n in [self._guarded.slots] if n]
        inputs = (tvm.runtime.tensor(np.ascontiguousarray(a)) for a in arrays)
        self._library[self._name](*inputs, *outputs, *faults)
        for count, number, index in (map(int, f.numpy()[:3]) for f in faults):
            if count:
                report(_described(self.kernel, self._parameters, self._guarded.checks[number], index, count))
        return [o.numpy() for o in outputs]


class HostKernels:
    """Runs host kernels, each of which is compiled at its first use."""

    def __init__(self) -> None:
        self._compiled: dict[HostKernel, _CompiledKernel] = {}

    def run(
        self, kernel: HostKernel, arrays: Sequence[np.ndarray], report: Callable[[str], None] = ignore
    ) -> list[np.ndarray]:
        """The outputs of a host kernel for the given inputs, in the order of ``kernel.inputs`` and ``kernel.outputs``.

        Arrays are of one replica, with the dtypes and shapes that the kernel declares. Where an index is out of
        range, nothing is read or written, and a ``while`` ends where it says that it does at the latest. ``report`` is
        called once for all that happens.
        """
        if kernel not in self._compiled:
            self._compiled[kernel] = _CompiledKernel(kernel)
        return self._compiled[kernel].run(arrays, report)


def _described(kernel: HostKernel, params: Sequence[object], check: Check, index: int, count: int) -> str:
    """What is out of range, where, and by how much."""
    if isinstance(check, IterationCheck):
        return (
            f"the host kernel {kernel.name} has a while that says to run at most {check.most:,} times (npu.at_most), "
            "and goes on behind that; say more"
        )
    names = [tensor.tensor for tensor in (*kernel.inputs, *kernel.outputs)]
    table = next(
        (repr(n) for n, p in zip(names, params, strict=False) if check.buffer.same_as(p)), "a temporary tensor"
    )
    more = "" if count == 1 else f" ({count:,} such accesses in all)"
    return (
        f"the host kernel {kernel.name} uses the index {index} in dimension {check.axis} of {table}, which has "
        f"{check.entries} entries{more}"
    )
