"""Indices that a network computes itself and that are out of range: reported by a run, and nothing is touched there."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import girih
from girih.api.compile import Compiled
from girih.ir.errors import CheckError, UsageError

NETWORK = """<ir_version: 8, opset_import: ["": 17]>
g (int64[5] ids, float[11, 4] table, int64[2, 4] at, float[2, 4] u) => (float[5, 4] y, float[2, 4] p, float[11, 4] s) {
    three = Constant <value = int64 {3}> ()
    later = Add (ids, three)
    y = Gather <axis = 0> (table, later)
    double = Add (at, at)
    p = GatherElements <axis = 0> (table, double)
    s = ScatterElements <axis = 0> (table, double, u)
}"""


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    model: onnx.ModelProto = parser.parse_model(NETWORK)
    return girih.compile(model, target="tiny", strategy="graphturbo", cache=False)


def inputs(ids: list[int], at: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "ids": np.array(ids),
        "table": rng.standard_normal((11, 4), np.float32),
        "at": np.array([[0, 1, 2, 3], [1, 2, at, 0]]),
        "u": rng.standard_normal((2, 4), np.float32),
    }


def test_negative_indices_count_from_the_end(compiled: Compiled) -> None:
    arrays = inputs([0, 7, -4, -14, -3], at=-5)
    result = compiled.run(arrays, check="exact")
    assert np.array_equal(result.outputs["y"], arrays["table"][arrays["ids"] + 3])
    assert np.array_equal(result.outputs["p"], np.take_along_axis(arrays["table"], arrays["at"] * 2, 0))


def test_computed_indices_out_of_range_are_violations(compiled: Compiled) -> None:
    result = compiled.run(inputs([0, 8, -15, 1, 2], at=100_000))
    messages = [v.message for v in result.violations]
    assert [v.kind for v in result.violations] == ["bounds"] * 3
    assert "the index 11 in dimension 0 of 'table', which has 11 entries (8 such accesses in all)" in messages[0]
    assert all("the index 200000 in dimension 0 of" in m for m in messages[1:])
    # What is left is right.
    assert np.array_equal(result.outputs["y"][0], inputs([0])["table"][3])
    assert not result.outputs["y"][1:3].any()


@pytest.mark.parametrize("check", [True, "exact"])
def test_a_check_fails_on_them(compiled: Compiled, check: bool) -> None:
    with pytest.raises(CheckError, match=r"1 violations.*the index 13"):
        compiled.run(inputs([0, 1, 2, 3, 10]), check=check)


def test_inputs_that_are_indices_are_checked_first() -> None:
    model: onnx.ModelProto = parser.parse_model(NETWORK.replace("(table, later)", "(table, ids)"))
    package = girih.compile(model, target="tiny", strategy="graphturbo", cache=False)
    with pytest.raises(UsageError, match=r"'ids' holds the index 11 at \[4\].*'table'.*-11 to 10 \(1 of 5"):
        package.run(inputs([0, 1, 2, 10, 11]))


def test_indices_of_a_vector_are_checked() -> None:
    """Its position is a scalar between two nodes of one host kernel: no engine has 64 bits."""
    network = """<ir_version: 8, opset_import: ["": 17]> g (double[7] x) => (int64 y)
        { y = ArgMax <axis = 0, keepdims = 0, select_last_index = 1> (x) }"""
    compiled = girih.compile(parser.parse_model(network), target="tiny", strategy="graphturbo", cache=False)
    result = compiled.run({"x": np.array([1, 5, 2, 5, 0, 5, 3], np.float64)}, check="exact")
    assert compiled.graph.ops[0].host and result.outputs["y"] == 5


def test_sums_of_computed_indices_are_checked() -> None:
    """RoiAlign averages samples at places that it computes, of the image that its last input names."""
    network = """<ir_version: 9, opset_import: ["": 16]>
        g (float[2, 3, 8, 8] x, float[3, 4] rois, int64[3] of) => (float[3, 3, 2, 2] y)
        { y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (x, rois, of) }"""
    model = parser.parse_model(network)
    compiled = girih.compile(model, target="tiny", strategy="graphturbo", cache=False)
    rng = np.random.default_rng(0)
    rois = np.array([[0, 0, 4, 4], [2, 1, 7.5, 6], [-3, 5, 12, 9]], np.float32)
    arrays = {"x": rng.standard_normal((2, 3, 8, 8), np.float32), "rois": rois, "of": np.array([1, 0, 1])}
    y = compiled.run(arrays, check="exact").outputs["y"]
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, arrays)
    assert np.allclose(y, expected, rtol=1e-5, atol=1e-5)
    # Which image a region belongs to is no input that is checked before the run, since it is cast on its way.
    result = compiled.run({**arrays, "of": np.array([1, 2, 0])})
    assert "the index 2 in dimension 0 of" in result.violations[0].message
    assert not result.outputs["y"][1].any()
