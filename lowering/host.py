"""Host kernels: TIR through TVM's LLVM build."""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import tvm

from ..ir.program import HostKernel
from .index_guard import FAULT_SLOTS, IndexCheck, guarded


def ignore(message: str) -> None:
    """Report nothing."""


class _CompiledKernel:
    def __init__(self, kernel: HostKernel) -> None:
        self.kernel = kernel
        module = cast("tvm.IRModule", tvm.ir.load_json(kernel.tir))
        self._name = next(iter(module.functions)).name_hint
        function, self._checks = guarded(module[self._name])
        if self._checks:
            module = tvm.IRModule({self._name: function})
        self._parameters = list(module[self._name].params)
        with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
            self._library = tvm.compile(module, target="llvm")

    def run(self, arrays: Sequence[np.ndarray], report: Callable[[str], None]) -> list[np.ndarray]:
        outputs = [tvm.runtime.tensor(np.zeros(o.shape, o.dtype)) for o in self.kernel.outputs]
        faults = tvm.runtime.tensor(np.zeros(FAULT_SLOTS, np.int64))
        given = (tvm.runtime.tensor(np.ascontiguousarray(a)) for a in arrays)
        self._library[self._name](*given, *outputs, *([faults] if self._checks else []))
        count, number, index = map(int, faults.numpy())
        if count:
            report(_described(self.kernel, self._parameters, self._checks[number], index, count))
        return [o.numpy() for o in outputs]


class HostKernels:
    """Runs host kernels, each of which is compiled at its first use."""

    def __init__(self) -> None:
        self._compiled: dict[HostKernel, _CompiledKernel] = {}

    def run(
        self, kernel: HostKernel, arrays: Sequence[np.ndarray], report: Callable[[str], None] = ignore
    ) -> list[np.ndarray]:
        """The outputs of a host kernel for the given inputs, in the order of ``kernel.inputs`` and ``kernel.outputs``.

        Arrays are of one replica, with the dtypes and shapes that the kernel declares. Where an index that depends on
        data is out of range, nothing is read or written, and ``report`` is told once for all of them.
        """
        if kernel not in self._compiled:
            self._compiled[kernel] = _CompiledKernel(kernel)
        return self._compiled[kernel].run(arrays, report)


def _described(kernel: HostKernel, params: Sequence[object], check: IndexCheck, index: int, count: int) -> str:
    """What is out of range, where, and by how much."""
    names = [tensor.tensor for tensor in (*kernel.inputs, *kernel.outputs)]
    table = next(
        (repr(n) for n, p in zip(names, params, strict=False) if check.buffer.same_as(p)), "a temporary tensor"
    )
    more = "" if count == 1 else f" ({count:,} such accesses in all)"
    return (
        f"the host kernel {kernel.name} uses the index {index} in dimension {check.axis} of {table}, which has "
        f"{check.entries} entries{more}"
    )
