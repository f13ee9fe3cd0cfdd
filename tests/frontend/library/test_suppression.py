"""Non-maximum suppression against ONNX Runtime, on random boxes, scores and limits."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from girih.frontend.library.suppression import suppression
from tests.support.kernels import run_kernel
from tests.support.sampled import sampled


def by_onnx_runtime(
    boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float | None, centred: bool
) -> np.ndarray:
    weights = {"k": np.array([most]), "i": np.array([overlap], np.float32)}
    if least is not None:
        weights["t"] = np.array([least], np.float32)
    node = helper.make_node("NonMaxSuppression", ["b", "s", *weights], ["y"], center_point_box=int(centred))
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in (("b", boxes), ("s", scores))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, ["n", 3])]
    graph = helper.make_graph(
        [node], "net", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in weights.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return np.asarray(session.run(None, {"b": boxes, "s": scores})[0])


@pytest.mark.parametrize("seed", sampled(range(24)))
def test_as_onnx_runtime(seed: int) -> None:
    random = np.random.default_rng(seed)
    batches, classes, entries, most = (int(random.integers(1, n)) for n in (4, 4, 40, 45))
    centred, overlap = bool(seed % 2), float(np.float32(random.choice([0.0, 0.3, 0.5, 0.9, 1.0])))
    least = (None, 0.3, -1.0)[seed % 3]
    boxes = random.random((batches, entries, 4)).astype(np.float32)
    scores = random.random((batches, classes, entries)).astype(np.float32)
    if seed % 4 < 2:
        scores = np.round(scores * 5) / np.float32(5)  # Ties.
    kernel = suppression(boxes.shape, scores.shape, most, overlap, least, centred)
    selected, count = run_kernel(kernel, boxes, scores)
    expected = by_onnx_runtime(boxes, scores, most, overlap, least, centred)
    np.testing.assert_array_equal(selected[: count[0]], expected)
    assert (selected[count[0] :] == -1).all() and len(selected) == batches * classes * min(most, entries)


def test_boxes_without_area_suppress_nothing() -> None:
    boxes = np.zeros((1, 3, 4), np.float32)
    scores = np.ones((1, 1, 3), np.float32)
    selected, count = run_kernel(suppression(boxes.shape, scores.shape, 3, 0.0, None, False), boxes, scores)
    assert count[0] == 3 and selected[:, 2].tolist() == [0, 1, 2]
