"""Resize and Upsample, against ONNX Runtime: the compiled network and the reference that it is compared with."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.frontend.reference.run import reference_outputs
from girih.ir.errors import UnsupportedError, UsageError
from tests.support.onnx_models import (
    Model,
    check_both,
    compare,
    onnxruntime_outputs,
    random_inputs,
    run_on_host,
)


def by_scales(
    op: str, opset: int, scales: list[float], shape: tuple[int, ...] = (1, 2, 6, 3), **attributes: object
) -> onnx.ModelProto:
    """A node of an older form, with its scales as an attribute or as an input."""
    m = Model(opset)
    x = m.input("x", *shape)
    if op == "Upsample" and opset < 9:
        return m.build(m.node(op, x, name="up", scales=scales, **attributes))
    return m.build(m.node(op, x, m.constant("scales", np.array(scales, np.float32)), name="up", **attributes))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(("op", "opset"), [("Upsample", 7), ("Upsample", 9), ("Resize", 10)])
def test_older_forms(op: str, opset: int, mode: str) -> None:
    for scales in ([1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 1.5, 3.0]):
        check_both(by_scales(op, opset, scales, mode=mode), 1e-6)


def test_older_forms_that_shrink() -> None:
    """Of three results from four inputs, the second is at 4/3 and takes the third input."""
    check_both(by_scales("Resize", 10, [1, 1, 0.75, 2], shape=(1, 2, 4, 3), mode="nearest"))


def test_scales_that_are_not_constant() -> None:
    m = Model(9)
    model = m.build(m.node("Upsample", m.input("x", 1, 1, 2, 2), m.input("scales", 4), name="up"))
    with pytest.raises(UnsupportedError, match="node 'up': Upsample: its scales are not constant"):
        import_onnx(model)


POSITIONS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")


@pytest.mark.parametrize("where", POSITIONS)
def test_nearest_inputs(where: str) -> None:
    """Of positions in the middle of two inputs as well, and of dimensions of size one."""
    for nearest, first, second in product(("round_prefer_floor", "round_prefer_ceil"), (1, 2, 5, 6), (1, 3, 7, 9)):
        m = Model(19)
        sizes = m.constant("sizes", [2, 3, first, second])
        x = m.input("x", 2, 3, second, first)
        attributes = {"coordinate_transformation_mode": where, "nearest_mode": nearest}
        model = m.build(m.node("Resize", x, "", "", sizes, mode="nearest", **attributes))
        inputs = random_inputs(model)
        (expected,) = onnxruntime_outputs(model, inputs).values()
        (got,) = evaluate_graph(import_onnx(model), inputs).values()
        np.testing.assert_array_equal(got, expected, err_msg=f"{nearest} {first} {second}")


def test_a_reference_whose_positions_are_in_the_middle_of_two_inputs() -> None:
    m = Model()
    sizes, where = m.constant("sizes", [2, 1, 3, 7]), "align_corners"
    x = m.input("x", 2, 1, 2, 2)
    check_both(m.build(m.node("Resize", x, "", "", sizes, mode="nearest", coordinate_transformation_mode=where)))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_some_axes(mode: str) -> None:
    m = Model(18)
    x, scales = m.input("x", 1, 2, 6, 4), m.constant("scales", np.array([1.5, 2], np.float32))
    check_both(m.build(m.node("Resize", x, "", scales, mode=mode, axes=[-2, 3])), 1e-6)


def test_a_dimension_of_many_elements() -> None:
    """No operator is left to the host, which a Gather by that many indices would be."""
    m = Model()
    x, sizes, where = m.input("x", 1, 2, 2500, 3), m.constant("sizes", [1, 2, 5000, 6]), "asymmetric"
    y = m.node("Resize", x, "", "", sizes, mode="nearest", coordinate_transformation_mode=where, nearest_mode="floor")
    compare(m.build(y), tolerance=0.0)


def test_dimensions_that_stay() -> None:
    m = Model()
    check_both(m.build(m.node("Resize", m.input("x", 1, 2, 6, 4), "", "", m.constant("sizes", [1, 2, 6, 4]))))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(
    "sizes", [[2, 12, 4], [2, 6, 3], [1, 12, 8, 2], [2, 5, 12, 8], [1, 12, 4, 3], [9, 4], [9], [2, 3, 4, 9, 1]]
)
@pytest.mark.parametrize("where", ["half_pixel", "align_corners", "asymmetric"])
def test_any_dimension_is_interpolated(mode: str, sizes: list[int], where: str) -> None:
    """ONNX Runtime has few of these forms."""
    m = Model()
    x = m.input("x", *{1: (6,), 2: (6, 4), 3: (2, 6, 4), 4: (1, 6, 4, 2), 5: (1, 3, 4, 5, 2)}[len(sizes)])
    model = m.build(
        m.node("Resize", x, "", "", m.constant("sizes", sizes), mode=mode, coordinate_transformation_mode=where)
    )
    inputs = random_inputs(model)
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    graph = import_onnx(model)
    for outputs in (evaluate_graph(graph, inputs, run_on_host), reference_outputs(model, inputs).outputs):
        (found,) = outputs.values()
        assert found.shape == expected.shape and np.abs(found - expected).max() <= 1e-5


def test_an_unknown_rounding() -> None:
    m = Model()
    x, sizes = m.input("x", 1, 2, 6, 4), m.constant("sizes", [1, 2, 12, 4])
    with pytest.raises(UsageError, match="node 'up': Resize: its nearest_mode is unknown: b'up'"):
        import_onnx(m.build(m.node("Resize", x, "", "", sizes, nearest_mode="up", name="up")))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("size", [1, 2, 6])
def test_a_single_result_between_aligned_corners(mode: str, size: int) -> None:
    m = Model()
    x, sizes, where = m.input("x", 1, 2, size, 4), m.constant("sizes", [1, 2, 1, 7]), "align_corners"
    y = m.node("Resize", x, "", "", sizes, mode=mode, coordinate_transformation_mode=where)
    check_both(m.build(y, m.node("Relu", y)), 1e-6)
