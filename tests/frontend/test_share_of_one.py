"""A batch that is divided into shares of one: what is empty or vanishes at one image is imported as a whole."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest

from tests.support.onnx_models import Model, compare


def rotated_and_resized() -> onnx.ModelProto:
    """The batch goes to a dimension that is resized to one: with one image that is a copy, which goes away."""
    m = Model()
    x = m.node("MatMul", m.input("x", "N", 3, 4, 5), m.weight("w", 5, 6))
    x = m.node("Transpose", x, perm=[1, 3, 0, 2])
    sizes = m.constant("sizes", [3, 6, 1, 4], "i8")
    return m.build(
        m.node("Resize", x, "", "", sizes, mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
    )


def pooled_over_the_batch() -> onnx.ModelProto:
    """A window of two over the batch: with one image there is nothing to divide by."""
    m = Model()
    x = m.node("Transpose", m.input("x", "N", 4), perm=[1, 0])
    x = m.node("Unsqueeze", x, m.constant("axes", [0], "i8"))
    return m.build(m.node("AveragePool", x, kernel_shape=[2], count_include_pad=0))


@pytest.mark.parametrize("build", [rotated_and_resized, pooled_over_the_batch])
def test_results_that_vanish_at_one_image(build: Callable[[], onnx.ModelProto]) -> None:
    assert compare(build(), batch=2, clusters=2).replicas == 1
