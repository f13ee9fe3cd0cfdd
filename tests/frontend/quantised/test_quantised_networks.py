"""Quantised networks compute on integers, and what ONNX Runtime computes without fusing anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import QuantFormat, QuantType

import girih
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.ir.errors import UnsupportedError
from tests.support.exact_integers import run_exactly
from tests.support.onnx_models import Model, random_inputs
from tests.support.quantised_networks import Kind, product_dtypes, quantised, random_kind, random_network
from tests.support.sampled import sampled


def expected(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Operator by operator, as the file says."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return list(run_exactly(model, options, inputs))


def steps(model: onnx.ModelProto) -> float:
    """The distance of two neighbouring values of the result."""
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    results = {o.name for o in model.graph.output}
    last = next((n for n in model.graph.node if n.op_type == "DequantizeLinear" and n.output[0] in results), None)
    return float(weights[last.input[1]]) if last is not None else 1e-6


@pytest.mark.parametrize("seed", sampled(range(60)))
def test_random_networks_are_right_and_multiply_integers(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    model = quantised(random_network(rng), random_kind(rng), tmp_path)
    inputs = random_inputs(model, 2, seed)
    graph = import_onnx(model, batch=2)
    (got,), (want,) = evaluate_graph(graph, inputs).values(), expected(model, inputs)
    assert got.shape == want.shape and got.dtype == want.dtype
    # Half way between two integers, a sum may be rounded to either.
    assert (np.abs(got - want) <= 1.01 * steps(model)).mean() >= 0.999
    assert (got == want).mean() >= 0.99
    assert product_dtypes(graph) <= {"int8", "uint8"}


@pytest.mark.parametrize("target", ["stcp920", "tiny"])
@pytest.mark.parametrize("seed", range(100, 105))
def test_random_networks_run(seed: int, target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    data = quantised(random_network(rng), random_kind(rng), tmp_path).SerializeToString()
    compiled = girih.compile(data, target=target, batch=2, strategy="graphturbo", solver_timeout=0, cache=False)
    compiled.run(check="exact")
    compiled.run(check=True)
    engines = {
        t.engine for s in compiled.plan.segments for t in s.tiles if compiled.graph.op[t.op].contraction is not None
    }
    assert engines <= ({"matrix"} if target == "stcp920" else {"vector"}), "tiny has no rate for int8"


def test_tensors_between_operators_are_integers(tmp_path: Path) -> None:
    model = Model()
    x = model.input("x", "N", 4, 8, 8)
    first = model.node(
        "Relu", model.node("Conv", x, model.weight("a", 4, 4, 3, 3), pads=[1] * 4, name="conv"), name="relu"
    )
    summed = model.node("Relu", model.node("Add", first, x, name="add"), name="relu2")
    pooled = model.node("MaxPool", summed, kernel_shape=[2, 2], name="pool")
    joined = model.node("Concat", pooled, pooled, axis=1, name="concat")
    mean = model.node("Flatten", model.node("GlobalAveragePool", joined, name="mean"), name="flat")
    last = model.node("Gemm", mean, model.weight("w", 8, 5), model.weight("b", 5), name="fc")
    graph = import_onnx(quantised(model.build(last), Kind(), tmp_path), batch=1)
    between = {t.dtype for t in graph.tensors if t.name not in {*graph.constant_names, *graph.output_tensors}}
    assert between - {graph.tensor[n].dtype for n in graph.input_tensors} <= {"uint8", "int8"}
    assert len(graph.ops) <= 8


@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
@pytest.mark.parametrize("zeros", [(0, 0), (7, 0), (0, 3), (120, 5)])
@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger"])
def test_integer_products_are_exact(op: str, zeros: tuple[int, int], kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(3)
    shapes = ((5, 40), (40, 6)) if op == "MatMulInteger" else ((2, 3, 7, 7), (5, 3, 3, 3))
    a, b = (rng.integers(np.iinfo(k).min, np.iinfo(k).max + 1, s).astype(k) for k, s in zip(kinds, shapes, strict=True))
    types = [onnx.helper.np_dtype_to_tensor_dtype(np.dtype(k)) for k in kinds]
    nodes = [
        onnx.helper.make_node(op, ["a", "b", "za", "zb"], ["y"], **({"pads": [1, 1, 0, 2]} if "Conv" in op else {}))
    ]
    weights = [onnx.numpy_helper.from_array(b, "b")]
    weights += [
        onnx.numpy_helper.from_array(np.array(z, k), n) for z, k, n in zip(zeros, kinds, ("za", "zb"), strict=True)
    ]
    graph = onnx.helper.make_graph(
        nodes, "g", [onnx.helper.make_tensor_value_info("a", types[0], a.shape)],
        [onnx.helper.make_empty_tensor_value_info("y")], initializer=weights,
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    za, zb = zeros
    if op == "MatMulInteger":
        want = (a.astype(np.int64) - za) @ (b.astype(np.int64) - zb)
    else:
        padded = np.pad(a.astype(np.int64) - za, ((0, 0), (0, 0), (1, 0), (1, 2)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        want = np.einsum("nchwij,ocij->nohw", windows, b.astype(np.int64) - zb)
    imported = import_onnx(model)
    got = evaluate_graph(imported, {"a": a})["y"]
    assert got.dtype == np.int32 and np.array_equal(got, want)
    assert product_dtypes(imported) <= {"int8", "uint8"}


def test_both_factors_may_be_computed_with_zeros_that_are() -> None:
    """As networks do that are quantised while they run."""
    model = Model(opset=17)
    x = model.input("x", 2, 6, 10)
    q, scale, zero = (f"{n}x" for n in ("q", "s", "z"))
    model.node("DynamicQuantizeLinear", x, name="quantise", outputs=(q, scale, zero))
    turned = model.node("Transpose", q, perm=[0, 2, 1], name="turned")
    product = model.node("MatMulInteger", q, turned, zero, zero, name="product")
    real = model.node("Mul", model.node("Cast", product, to=1, name="real"), scale, name="scaled")
    built = model.build(real)
    inputs = random_inputs(built)
    graph = import_onnx(built)
    (got,), (want,) = evaluate_graph(graph, inputs).values(), expected(built, inputs)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert product_dtypes(graph) <= {"uint8"}


def test_a_scale_for_each_channel_needs_a_newer_operator_set(tmp_path: Path) -> None:
    model = Model(opset=17)
    x = model.input("x", "N", 3, 6, 6)
    built = model.build(model.node("Conv", x, model.weight("w", 4, 3, 3, 3), name="conv"))
    form = quantised(built, Kind(form=QuantFormat.QOperator, weights=QuantType.QInt8), tmp_path)
    for entry in form.opset_import:
        entry.version = 11 if entry.domain == "" else entry.version
    with pytest.raises(
        UnsupportedError, match="scale for each channel is of operator set 11; export the model with 13"
    ):
        import_onnx(form, batch=1)
