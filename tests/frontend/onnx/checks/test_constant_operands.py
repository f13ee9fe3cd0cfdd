"""Constant indices, paddings and sizes that do not fit are refused with what would fit; those that do are not."""

from __future__ import annotations

import numpy as np
import pytest

from girih.frontend import import_onnx
from girih.frontend.onnx.dims import LARGEST
from girih.ir.errors import UnsupportedError, UsageError
from tests.support.onnx_models import Model, check_both


@pytest.mark.parametrize("index", [-4, 3, 5])
@pytest.mark.parametrize("operator", ["Gather", "GatherElements"])
def test_an_index_out_of_range(operator: str, index: int) -> None:
    m = Model()
    x = m.input("x", 2, 3)
    y = m.node(operator, x, m.constant("i", np.array([[0, index]] * 2, np.int64)), name="pick", axis=1)
    with pytest.raises(UsageError, match=rf"'pick' \({operator}\) has the index {index}, .* -3 to 2 are allowed"):
        import_onnx(m.build(y))


@pytest.mark.parametrize("operator", ["GatherND", "ScatterND"])
def test_an_index_of_several_axes_out_of_range(operator: str) -> None:
    m = Model()
    x = m.input("x", 2, 3)
    updates = [m.weight("u", 2)] if operator == "ScatterND" else []
    y = m.node(operator, x, m.constant("i", np.array([[1, 2], [0, 3]], np.int64)), *updates, name="pick")
    with pytest.raises(UsageError, match=rf"'pick' \({operator}\) has the index 3, and axis 1 .* -3 to 2 are allowed"):
        import_onnx(m.build(y))


@pytest.mark.parametrize("index", [-3, 2])
def test_the_first_and_the_last_index(index: int) -> None:
    m = Model()
    x = m.input("x", 2, 3)
    check_both(m.build(m.node("Gather", x, m.constant("i", np.array([index], np.int64)), axis=1)))


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMax", "ReduceMean"])
def test_an_axis_that_is_reduced_twice(operator: str) -> None:
    m = Model(18)
    y = m.node(operator, m.input("x", 2, 3, 4), m.constant("axes", np.array([2, 1, -1])), name="total")
    with pytest.raises(UsageError, match=rf"'total' \({operator}\) names axis 2 twice in \[2, 1, -1\]"):
        import_onnx(m.build(y))


@pytest.mark.parametrize(
    ("opset", "inputs"), [(17, ([0, 2, 3, 0],)), (18, ([2, 3, 0, 0], [1, 0])), (18, ([3, 0], [-2])), (10, ())]
)
def test_a_reflection_of_more_than_there_is(opset: int, inputs: tuple[list[int], ...]) -> None:
    m = Model(opset)
    x = m.input("x", 3, 4)
    pads = [m.constant("pads", np.array(inputs[0], np.int64))] if inputs else []
    axes = ["", m.constant("axes", np.array(inputs[1], np.int64))] if inputs[1:] else []
    attributes = {} if inputs else {"pads": [0, 2, 3, 0]}
    y = m.node("Pad", x, *pads, *axes, name="pad", mode="reflect", **attributes)
    with pytest.raises(
        UsageError, match=r"'pad' \(Pad\) reflects 3 elements of axis (0|-2) of 'x', which has 3: at most 2"
    ):
        import_onnx(m.build(y))


def test_the_largest_reflection() -> None:
    m = Model()
    x = m.input("x", 3, 4)
    check_both(m.build(m.node("Pad", x, m.constant("pads", np.array([2, 3, 2, 3], np.int64)), mode="reflect")))


@pytest.mark.parametrize("size", [0, LARGEST + 1, 2**63, 10**30])
def test_sizes_that_cannot_be_bound(size: int) -> None:
    m = Model()
    model = m.build(m.node("Relu", m.input("x", "N", 2)))
    with pytest.raises(UsageError, match="give a whole number from 1 to 2,147,483,647"):
        import_onnx(model, batch=size)
    with pytest.raises(UsageError, match=f"'N' is bound to {size}; give a whole number from 1 to 2,147,483,647"):
        import_onnx(model, dims={"N": size})


def test_a_size_of_0_is_not_open() -> None:
    m = Model()
    model = m.build(m.node("Relu", m.input("x", 0, 2)))
    with pytest.raises(UnsupportedError, match="input 'x' has a dimension of 0"):
        import_onnx(model, batch=1)
