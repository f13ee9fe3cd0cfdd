"""Scales of channels that are rectified before a convolution: thresholds, with the scale in its weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from girih import models
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.frontend.for_machine import fold_scales
from girih.frontend.for_machine.folded_scales import MOST_THRESHOLD
from girih.ir.checks.check_graph import check_graph
from girih.ir.graph import Graph
from tests.support.numpy_check import inputs_of
from tests.support.small_models import SMALL

CHANNELS, COLUMNS = 13, 7


def model(
    scale: Sequence[float] | None = None, shift: Sequence[float] | None = None, *, kernel: int = 1, pad: int = 0,
    stride: int = 1, bias: bool = True, rectified: bool = False, shared: bool = False,
) -> bytes:  # fmt: skip
    """Normalised and rectified channels, a convolution, and what follows it: a sum with the channels if ``shared``."""
    random = np.random.default_rng(7)
    constants = {
        "scale": np.array(random.uniform(0.5, 1.5, CHANNELS) if scale is None else scale),
        "shift": np.array(random.normal(0, 0.5, CHANNELS) if shift is None else shift),
        "mean": np.zeros(CHANNELS),
        "variance": np.ones(CHANNELS),
        "weights": random.normal(0, 0.3, (CHANNELS if shared else COLUMNS, CHANNELS, kernel, kernel)),
        "bias": random.normal(0, 0.3, CHANNELS if shared else COLUMNS),
    }
    nodes = [
        helper.make_node("BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["normal"], epsilon=0.0),
        helper.make_node("Relu", ["normal"], ["active"]),
        helper.make_node(
            "Conv", ["active", "weights", *(["bias"] if bias else [])], ["sums"], kernel_shape=[kernel] * 2,
            pads=[pad] * 4, strides=[stride] * 2,
        ),
    ]  # fmt: skip
    result = "sums"
    if rectified:
        nodes.append(helper.make_node("Relu", [result], ["y"]))
        result = "y"
    if shared:
        nodes.append(helper.make_node("Add", [result, "active"], ["z"]))
        result = "z"
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", CHANNELS, 6, 5])],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in constants.items()],
    )  # fmt: skip
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return onnx.shape_inference.infer_shapes(file).SerializeToString()


def imported(file: bytes, precision: str = "as-is") -> Graph:
    return import_onnx(file, batch=2, precision=precision)  # type: ignore[arg-type]


def errors(file: bytes, graphs: Sequence[Graph], factor: float = 1.0) -> list[float]:
    """Of each graph, the largest error against ONNX Runtime in float32, of what the largest result is."""
    x = factor * np.random.default_rng(3).standard_normal((2, CHANNELS, 6, 5)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    expected = np.asarray(expected)
    results = [next(iter(evaluate_graph(graph, {"x": x}).values())) for graph in graphs]
    return [float(np.abs(r.astype(np.float64) - expected).max() / np.abs(expected).max()) for r in results]


def functions(graph: Graph) -> list[list[str]]:
    return [[stage.func for stage in op.stages] for op in graph.ops]


def passes(graph: Graph, func: str) -> int:
    return sum(stage.func == func for op in graph.ops for stage in op.stages)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rectified", [True, False])
@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_thresholds_compute_the_same(kernel: int, stride: int, bias: bool, rectified: bool, precision: str) -> None:
    file = model(kernel=kernel, stride=stride, bias=bias, rectified=rectified)
    graph = imported(file, precision)
    folded = fold_scales(graph)
    assert passes(graph, "fma") == 1 and not passes(folded, "fma")
    check_graph(folded)
    assert set(folded.data) == folded.constant_names and not folded.constant_names & {"scale", "shift", "weights"}
    before, after = errors(file, [graph, folded])
    assert after < 3e-6 if precision == "as-is" else after < 2 * before + 1e-4


def test_one_pass_is_left() -> None:
    graph = imported(model())
    assert [f for f in functions(graph) if "fma" in f] == [["fma", "max"]]
    folded = fold_scales(graph)
    rectified = next(op for op in folded.ops if op.contraction is None and op.stages[0].func == "max")
    assert len(rectified.stages) == 1 and not rectified.buffers and len(rectified.stages[0].factors) == 2
    assert fold_scales(imported(model())).digest == folded.digest


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(model(scale=[1.0] * (CHANNELS - 1) + [-0.5]), id="negative"),
        pytest.param(model(scale=[1.0] * (CHANNELS - 1) + [0.0]), id="zero"),
        pytest.param(model(scale=[1e-4] * CHANNELS, shift=[-1e-4 * MOST_THRESHOLD * 1.01] * CHANNELS), id="far"),
        pytest.param(model(kernel=3, pad=1), id="padded"),
        pytest.param(model(shared=True), id="shared"),
    ],
)
def test_what_is_left_as_it_is(file: bytes) -> None:
    graph = imported(file)
    assert passes(graph, "fma") == 1
    assert fold_scales(graph) is graph


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_channels_that_are_rectified_add_nothing(precision: str) -> None:
    """However far they are below their thresholds, and however large these are."""
    shift = [-900.0 if channel % 2 else -0.01 for channel in range(CHANNELS)]
    file = model(scale=[1.0] * CHANNELS, shift=shift)
    graph = imported(file, precision)
    folded = fold_scales(graph)
    assert folded is not graph
    x = np.full((2, CHANNELS, 6, 5), -1000.0, dtype=np.float32)
    plain, thresholds = (next(iter(evaluate_graph(g, {"x": x}).values())) for g in (graph, folded))
    # The bias alone, of sums in float32 of up to 900 x 0.3 for each channel.
    tolerance = 2.0**-24 * 900 * 3 + (0.0 if precision == "as-is" else 2.0**-11)
    assert np.abs(plain.astype(np.float64) - thresholds).max() <= tolerance


def test_dense_blocks_have_a_pass_less_for_each_layer() -> None:
    graph = import_onnx(models.build("densenet121", **SMALL["densenet121"]), batch=2, precision="as-is")
    folded = fold_scales(graph)
    check_graph(folded)
    before, after = (passes(g, "fma") for g in (graph, folded))
    # The last one is read by the classifier, for there is one position to pool.
    assert before == 62 and after == 0
    inputs = inputs_of(graph)
    one, other = (next(iter(evaluate_graph(g, inputs).values())) for g in (graph, folded))
    np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5 * float(np.abs(one).max()))
