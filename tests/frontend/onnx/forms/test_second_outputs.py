"""The mask of a Dropout and the indices of a MaxPool, against ONNX Runtime."""

from __future__ import annotations

import pytest

from girih.frontend import import_onnx
from girih.ir.errors import UnsupportedError
from tests.support.onnx_models import Model, check_both


def test_a_mask_is_true_everywhere() -> None:
    m = Model()
    y = m.node("Dropout", m.input("x", 2, 3), outputs=["y", "mask"])
    check_both(m.build(y, "mask"))
    z = m.node("Where", "mask", m.node("Neg", y), y)
    check_both(m.build(z))


def test_a_mask_that_is_not_defined() -> None:
    m = Model(opset=10)
    y = m.node("Dropout", m.input("x", 2, 3), outputs=["y", "mask"], name="drop")
    check_both(m.build(y))
    with pytest.raises(UnsupportedError, match=r"node 'drop': Dropout: its mask 'mask' .* operator set 12; export"):
        import_onnx(m.build(y, "mask"))


def test_indices_are_dropped_if_nothing_reads_them() -> None:
    m = Model()
    y = m.node("MaxPool", m.input("x", 1, 1, 4, 4), kernel_shape=[2, 2], outputs=["y", "indices"], name="pool")
    check_both(m.build(y))
    with pytest.raises(
        UnsupportedError, match=r"node 'pool': MaxPool: its second output 'indices', .* compile a model"
    ):
        import_onnx(m.build(y, "indices"))
