"""Each form of a quantised operator, under each kind of quantisation, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import girih
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.ir.checks.check_graph import check_graph
from girih.ir.errors import UnsupportedError
from girih.ir.graph import Graph
from tests.support.onnx_models import Model, run_on_host
from tests.support.quantised_models import INTEGER, KINDS, QDQ, Kind, Quantised, expected, quantised_inputs

UNKNOWN_TO_ONNX_RUNTIME = {"qlinearconv", "qlinearmatmul"}
"""Operators of which it has no kernel for activations of int8 and weights of uint8."""


def step(model: onnx.ModelProto) -> float:
    """The distance of two neighbouring values of the result."""
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    return float(weights[model.graph.node[-1].input[1]])


def multiplied(graph: Graph) -> set[str]:
    """The dtypes that sums of products multiply."""
    dtypes = {t.name: t.dtype for t in (*graph.tensors, *(b for op in graph.ops for b in op.buffers))}
    stages = [stage for op in graph.ops for stage in op.stages if stage.is_contraction]
    return {dtypes[factor.tensor] for stage in stages for factor in stage.factors}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", QDQ)
def test_qdq(name: str, kind: Kind) -> None:
    """At least 999 of 1,000 elements are within one step, and products are of integers."""
    model = QDQ[name](kind, 1)
    inputs = quantised_inputs(model)
    graph = import_onnx(model)
    check_graph(graph)
    (got,) = evaluate_graph(graph, inputs, run_on_host).values()
    want = expected(model, inputs)
    assert got.shape == want.shape and got.dtype == want.dtype
    assert (np.abs(got - want) <= 1.01 * step(model)).mean() >= 0.999
    assert multiplied(graph) <= {"int8", "uint8"}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", QDQ)
def test_qdq_in_half_precision(name: str, kind: Kind) -> None:
    """What numbers integers stand for is kept in single precision: inputs that float16 holds give the same integers."""
    model = QDQ[name](kind, 1)
    inputs = {n: a.astype(np.float16).astype(np.float32) for n, a in quantised_inputs(model).items()}
    graph = import_onnx(model, precision="fp16")
    (got,) = evaluate_graph(graph, inputs, run_on_host).values()
    wide, size = expected(model, inputs), step(model)
    assert (np.abs(got - wide) <= 1.05 * size).mean() >= 0.999
    if name not in ("elementwise", "product of activations", "residual network"):  # With floats in between.
        assert (np.abs(got - wide) <= 0.1 * size).mean() >= 0.98
    assert multiplied(graph) <= {"int8", "uint8"}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", INTEGER)
def test_operators_on_integers_are_exact(name: str, kind: Kind) -> None:
    if name in UNKNOWN_TO_ONNX_RUNTIME and (kind.activations, kind.weights) == ("int8", "uint8"):
        pytest.skip("ONNX Runtime has no kernel")
    model = INTEGER[name](kind, 1)
    inputs = quantised_inputs(model)
    graph = import_onnx(model)
    check_graph(graph)
    (got,) = evaluate_graph(graph, inputs, run_on_host).values()
    np.testing.assert_array_equal(got, expected(model, inputs), strict=True)
    assert multiplied(graph) <= {"int8", "uint8"}


@pytest.mark.parametrize("target", ["stcp920", "tiny"])
@pytest.mark.parametrize("name", ["conv same", "residual network", "qlinearconv", "matmulinteger of activations"])
def test_programs_compute_the_same(name: str, target: str) -> None:
    """On an engine that multiplies int8, and on the vector engine of a machine that has none."""
    model = {**QDQ, **INTEGER}[name](KINDS[2], 1)
    inputs = quantised_inputs(model)
    compiled = girih.compile(
        model.SerializeToString(), target=target, strategy="graphturbo", solver_timeout=0, cache=False
    )
    result = compiled.run(inputs, check="exact")
    assert result.check is not None and result.check.passed and not result.violations
    (got,), want = result.outputs.values(), expected(model, inputs)
    allowed = 0 if name in INTEGER else 1.01 * step(model)
    assert (np.abs(got.astype(np.float64) - want) <= allowed).mean() >= 0.999


def test_a_sum_of_what_is_not_quantised() -> None:
    """ONNX cannot tell the shape of a result of ONNX Runtime's Gelu, in a network that has a product of integers."""
    model = Model(opset=17)
    x, q = model.input("x", 4, 16), model.input("q", 4, 16, kind="uint8")
    real = model.node("Add", model.node("Gelu", x), x)
    integers = model.node("MatMulInteger", q, model.constant("w", np.ones((16, 9)), "int8"))
    built = model.build(real, integers)
    built.graph.node[0].domain = "com.microsoft"
    built.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    inputs = quantised_inputs(built)
    got = evaluate_graph(import_onnx(built), inputs)[real]
    np.testing.assert_allclose(got, expected(built, inputs), rtol=1e-5, atol=1e-6)


def test_conversions_of_onnx_runtime_are_those_of_onnx() -> None:
    """As its quantiser writes them with the option UseQDQContribOps."""
    model = QDQ["residual network"](KINDS[0], 1)
    own = onnx.ModelProto()
    own.CopyFrom(model)
    for node in own.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.domain = "com.microsoft"
    own.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    del own.graph.value_info[:]
    assert import_onnx(own).ops == import_onnx(model).ops


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_the_bias_of_a_qgemm_is_in_the_unit_of_the_scaled_product(alpha: float) -> None:
    m = Quantised(Kind("uint8", "int8"), 1)
    bias = m.constant("b", m.rng.integers(-3000, 3000, 9), "int32")
    x = (m.input("x", 5, 12, kind="uint8"), m.constant("xs", 0.02, "float32"), m.constant("xz", 120, "uint8"))
    weight = m.constant("w", m.rng.integers(-127, 128, (12, 9)), "int8")
    w = (weight, m.constant("ws", 0.03, "float32"), m.constant("wz", 0, "int8"))
    y = (m.constant("ys", 0.05, "float32"), m.constant("yz", 110, "uint8"))
    model = m.build(m.node("QGemm", *x, *w, bias, *y, alpha=alpha))
    model.graph.node[0].domain = "com.microsoft"
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    inputs = quantised_inputs(model)
    (got,) = evaluate_graph(import_onnx(model), inputs).values()
    assert np.abs(got.astype(int) - expected(model, inputs).astype(int)).max() <= 1


@pytest.mark.parametrize("op", ["Conv", "Gemm", "MatMul"])
def test_a_bias_between_two_integers_is_added_to_what_is_dequantised(op: str) -> None:
    """As many exporters leave biases: rounded to the unit of the sums, a result of floats would lose digits."""
    m = Quantised(Kind("uint8", "int8", per_channel=True), 1)
    x = m.rounded(m.input("x", *((2, 12, 5, 4) if op == "Conv" else (5, 12))), 0.03)
    if op == "Conv":
        product = m.conv(x, "c", (9, 12, 3, 3))
    else:
        weight = m.real_weight("w", 12, 9, axis=1)
        bias = m.weight("b", 9)
        product = m.node(op, x, weight, *((bias,) if op == "Gemm" else ()))
        product = m.node("Add", product, bias) if op == "MatMul" else product
    model = m.build(m.node("LeakyRelu", product))
    graph, inputs = import_onnx(model), quantised_inputs(model)
    check_graph(graph)
    (got,), want = evaluate_graph(graph, inputs).values(), expected(model, inputs)
    assert np.linalg.norm(got - want) <= 1e-6 * np.linalg.norm(want)
    assert multiplied(graph) <= {"int8", "uint8"}


def test_weights_of_four_bits_are_multiplied_as_eight() -> None:
    m = Quantised(Kind("int8", "int8"), 1)
    m.opset = 21
    int4 = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.INT4)
    weight = m.constant("w", m.rng.integers(-8, 8, (12, 9)).astype(int4)), m.constant("s", 0.02, "float32")
    product = m.node("MatMul", m.rounded(m.input("x", 5, 12), 0.03), m.node("DequantizeLinear", *weight))
    model = m.build(m.rounded(product, 0.1))
    graph, inputs = import_onnx(model), quantised_inputs(model)
    (got,) = evaluate_graph(graph, inputs).values()
    np.testing.assert_array_equal(got, expected(model, inputs))
    assert multiplied(graph) == {"int8"}


def softmax(dtype: str, axis: int, own: int) -> onnx.ModelProto:
    """One QLinearSoftmax of ``own`` as its operator set, in a model of 17."""
    m = Quantised(Kind(dtype), 1)
    least = int(np.iinfo(dtype).min)
    schemes = (*m.scheme("x", 0.06), *m.scheme("y", 1 / 256, least))
    built = m.build(m.node("QLinearSoftmax", m.input("x", 3, 5, 12, kind=dtype), *schemes, axis=axis, opset=own))
    built.graph.node[0].domain = "com.microsoft"
    built.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return built


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_softmax_of_onnx_runtime(dtype: str, axis: int) -> None:
    """It looks exponentials up in a table of integers: one step is allowed."""
    model = softmax(dtype, axis, 17)
    inputs = quantised_inputs(model)
    (got,) = evaluate_graph(import_onnx(model), inputs).values()
    want = expected(model, inputs)
    assert got.dtype == want.dtype and np.abs(got.astype(int) - want).max() <= 1
    assert (got == want).mean() > 0.9


def test_softmax_of_an_older_operator_set() -> None:
    """Of the last axis it is the same."""
    assert import_onnx(softmax("uint8", -1, 12)).ops == import_onnx(softmax("uint8", -1, 17)).ops
    with pytest.raises(UnsupportedError, match="QLinearSoftmax of operator set 12 along axis 1"):
        import_onnx(softmax("uint8", 1, 12))
