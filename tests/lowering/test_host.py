"""Host kernels, through TVM's LLVM build."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import girih
from girih.lowering.host import HostKernels
from tests.support.onnx_models import Model


def test_a_kernel_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    m = Model()
    model = m.build(m.node("Add", m.input("x", 5, kind="i"), m.constant("one", 1)))
    (kernel,) = girih.compile(model, target="tiny", strategy="layerwise", cache=False).program.kernels
    compilations: list[object] = []
    build = tvm.compile
    monkeypatch.setattr(
        tvm, "compile", lambda module, **options: compilations.append(module) or build(module, **options)
    )
    host = HostKernels()
    for _ in range(3):
        (result,) = host.run(kernel, [np.arange(5), np.array(1)][: len(kernel.inputs)])
        assert result.tolist() == [1, 2, 3, 4, 5]
    assert len(compilations) == 1
