"""The network through TVM's own path, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import external_data_helper

from girih import models
from girih.frontend.reference.run import model_bytes, reference_outputs
from girih.ir.errors import UnsupportedError, UsageError
from tests.support.onnx_models import Model, error, onnxruntime_outputs, random_inputs, small_cnn, tokens
from tests.support.operators.imported.all_cases import CASES


def test_an_input_may_be_a_number() -> None:
    m = Model()
    model = m.build(m.node("Mul", m.input("x", 2, 3), m.input("factor")))
    inputs = {"x": np.ones((2, 3), np.float32), "factor": np.array(3, np.float32)}
    (got,) = reference_outputs(model, inputs).outputs.values()
    np.testing.assert_array_equal(got, np.full((2, 3), 3, np.float32))


def test_what_tvm_refuses_can_be_compared_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: onnx.ModelProto) -> None:
        raise ValueError("no such operator")

    monkeypatch.setattr("girih.frontend.reference.run.from_onnx", refuse)
    m = Model()
    model = m.build(m.node("Relu", m.input("x", 2, 3)))
    with pytest.raises(UnsupportedError, match="no such operator; --exact compares with the graph instead"):
        reference_outputs(model, random_inputs(model))


@pytest.mark.parametrize("name", ["tiny-cnn", "tiny-transformer"])
def test_small_networks(name: str) -> None:
    model = models.build(name)
    inputs = random_inputs(model, 3)
    found = reference_outputs(model_bytes(model), inputs)
    assert found.samples is None
    for output, expected in onnxruntime_outputs(model, inputs).items():
        assert error(found.outputs[output], expected) < 1e-5


@pytest.mark.parametrize("name", ["batch norm alone", "attention", "split in three", "several terms", "conv grouped"])
def test_operators(name: str) -> None:
    model = CASES[name]()
    inputs = random_inputs(model)
    found = reference_outputs(model, inputs)
    for output, expected in onnxruntime_outputs(model, inputs).items():
        assert error(found.outputs[output], expected) < 1e-5


def test_samples_that_the_budget_allows() -> None:
    model = small_cnn()
    inputs = random_inputs(model, 5)
    (expected,) = onnxruntime_outputs(model, inputs).values()
    for macs, samples in ((1, 1), (4000, 2), (10**9, None)):
        found = reference_outputs(model, inputs, batched=["x"], macs=macs)
        (got,) = found.outputs.values()
        assert found.samples == samples or (samples == 2 and found.samples in (1, 2, 3))
        assert error(got, expected[: found.samples]) < 1e-5


def test_all_symbolic_dimensions_come_from_the_inputs() -> None:
    model = tokens()
    inputs = {"x": np.random.default_rng(0).standard_normal((2, 7, 8)).astype(np.float32)}
    (expected,) = onnxruntime_outputs(model, inputs).values()
    (got,) = reference_outputs(model, inputs).outputs.values()
    assert error(got, expected) < 1e-5


def test_missing_and_contradicting_inputs() -> None:
    m = Model()
    model = m.build(m.node("Add", m.input("x", "N", 3), m.input("y", "N", 3)))
    with pytest.raises(UsageError, match="input 'y' is missing"):
        reference_outputs(model, {"x": np.zeros((2, 3), np.float32)})
    with pytest.raises(UsageError, match="dimension 'N' is 2 and, in input 'y', 4"):
        reference_outputs(model, {"x": np.zeros((2, 3), np.float32), "y": np.zeros((4, 3), np.float32)})


def test_external_data_goes_inside(tmp_path: Path) -> None:
    m = Model()
    model = m.build(m.node("MatMul", m.input("x", 4, 64), m.weight("w", 64, 8)))
    inputs = random_inputs(model)
    expected = onnxruntime_outputs(model, inputs)
    external_data_helper.convert_model_to_external_data(model, location="w.bin", size_threshold=0)
    onnx.save_model(model, tmp_path / "m.onnx")
    data = model_bytes(tmp_path / "m.onnx")
    (tmp_path / "w.bin").unlink()
    for output, value in reference_outputs(data, inputs).outputs.items():
        assert error(value, expected[output]) < 1e-5


def test_a_file_with_all_its_weights_is_taken_as_it_is(tmp_path: Path) -> None:
    m = Model()
    model = m.build(m.node("MatMul", m.input("x", 4, 64), m.weight("w", 64, 8)))
    onnx.save(model, tmp_path / "m.onnx")
    data = (tmp_path / "m.onnx").read_bytes()
    assert model_bytes(tmp_path / "m.onnx") == model_bytes(data) == data
    # The word by which external data is found is nothing special elsewhere.
    model.graph.node[0].name = "location"
    onnx.save(model, tmp_path / "n.onnx")
    assert onnx.load_model_from_string(model_bytes(tmp_path / "n.onnx")) == model
