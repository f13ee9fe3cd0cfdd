"""bfloat16, from a network in float32 and from one of its own, to files and back."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import girih
from girih import UnsupportedError, UsageError, models
from girih.api.inputs import load_inputs
from tests.support.small_models import SMALL

TARGET = "stcp920-2"


@pytest.mark.parametrize("name", ["dlrm", "tiny-cnn", "tiny-transformer"])
def test_small_networks(name: str) -> None:
    model = models.build(name, **SMALL[name]).SerializeToString(deterministic=True)
    halves, brains = (
        girih.compile(
            model, target=TARGET, batch=2, strategy="graphturbo", solver_timeout=0, precision=precision, cache=False
        )
        for precision in ("fp16", "bf16")
    )
    assert {t.dtype for t in brains.graph.tensors} & {"float16", "bfloat16"} == {"bfloat16"}
    result = brains.run(check="exact")
    assert result.npu_fraction.macs == 1.0
    # As large, and as quick on every engine of this machine.
    assert brains.plan.cycles_predicted == halves.plan.cycles_predicted
    check = brains.run(check=True).check
    assert check is not None and check.passed


def _own(weights: np.ndarray) -> bytes:
    """A network whose every tensor is bfloat16."""
    rows, columns = weights.shape
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"], "m"), helper.make_node("Relu", ["m"], ["y"], "r")],
        "own",
        [helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [4, rows])],
        [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [4, columns])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


def test_files_keep_it(tmp_path: Path) -> None:
    """The files of NumPy name bfloat16 by its size alone."""
    rng = np.random.default_rng(0)
    weights, x = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((16, 24), (4, 16)))
    compiled = girih.compile(_own(weights), target=TARGET, strategy="graphturbo", solver_timeout=0, cache=False)
    compiled.save(tmp_path / "own.girih")
    np.savez(tmp_path / "x.npz", x=x)
    read = girih.load(tmp_path / "own.girih")
    result = read.run(load_inputs(tmp_path / "x.npz"), check="exact")
    # Sums of float32 products, of which each has 16 digits at most; rounded once.
    exact = np.maximum(x.astype(np.float64) @ weights.astype(np.float64), 0)
    assert np.array_equal(result.outputs["y"], exact.astype(np.float32).astype(ml_dtypes.bfloat16))
    assert read.run({"x": x}, check=True).check.passed  # type: ignore[union-attr]
    result.save_outputs(tmp_path / "y.npz")
    with np.load(tmp_path / "y.npz") as saved:
        assert np.array_equal(saved["y"].view(ml_dtypes.bfloat16), result.outputs["y"])
    with pytest.raises(UsageError, match=r"input 'x' is float32\[4, 16\], .* bfloat16\[4, 16\]"):
        read.run({"x": x.astype(np.float32)})


def test_machines_without_it_say_so() -> None:
    model = models.build("tiny-cnn").SerializeToString(deterministic=True)
    with pytest.raises(UnsupportedError, match="conv1: max gives bfloat16, and VME of stcp920 has lanes"):
        girih.compile(model, target="stcp920", batch=1, precision="bf16", solver_timeout=0, cache=False)
