"""Custom operators from ONNX to results, at the heights graph, compute and library; and shapes behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import relax, te, tirx
from tvm.script import tirx as T

import girih
from girih import register_operator
from girih.frontend import import_onnx
from tests.support.custom_models import DOMAIN, custom_node, network

RANDOM = np.random.default_rng(0)


def swish(x: Any, *, beta: float = 1.0) -> Any:
    return relax.op.multiply(x, relax.op.sigmoid(relax.op.multiply(x, relax.const(beta, "float32"))))


def soft_clip(x: Any, *, limit: float = 1.0) -> Any:
    return te.compute(x.shape, lambda *i: tirx.tanh(x(*i) / tirx.const(limit, x.dtype)) * limit, name="soft_clip")


def distances(x: Any, y: Any) -> Any:
    """Squared distances of all rows of x to all rows of y, which is no operator of ONNX."""
    k = te.reduce_axis((0, x.shape[1]), "k")
    shape = (x.shape[0], y.shape[0])
    return te.compute(shape, lambda i, j: te.sum((x[i, k] - y[j, k]) * (x[i, k] - y[j, k]), axis=k), name="distances")


def mean_and_spread(x: Any) -> Any:
    low, high = (relax.op.min(x, axis=1), relax.op.max(x, axis=1))
    return relax.op.mean(x, axis=1), relax.op.subtract(high, low)


def running_max(x: Any) -> Any:
    rows, columns = x.shape

    @T.prim_func(s_tir=True)
    def kernel(a: T.Buffer((rows, columns), "float32"), b: T.Buffer((rows, columns), "float32")):  # type: ignore[no-untyped-def]
        for i in range(rows):
            b[i, 0] = a[i, 0]
            for j in range(1, columns):
                if a[i, j] > b[i, j - 1]:
                    b[i, j] = a[i, j]
                else:
                    b[i, j] = b[i, j - 1]

    return kernel


def run(model: onnx.ModelProto, target: str, x: np.ndarray, **options: Any) -> tuple[girih.Compiled, np.ndarray]:
    compiled = girih.compile(model, target=target, solver_timeout=2, cache=False, **options)
    result = compiled.run({"x": x}, check=True)
    assert result.passed
    assert compiled.run({"x": x}, check="exact").passed
    return compiled, result.outputs["y"]


@pytest.mark.parametrize("target", ["tiny", "stcp920"])
def test_graphs_and_computes_fuse_with_their_neighbours(target: str) -> None:
    register_operator(DOMAIN, "Swish", height="graph")(swish)
    register_operator(DOMAIN, "SoftClip")(soft_clip)
    nodes = [
        custom_node("Swish", ["x"], ["a"], beta=1.5),
        helper.make_node("Relu", ["a"], ["b"]),
        custom_node("SoftClip", ["b"], ["y"], limit=2.0),
    ]
    x = RANDOM.normal(size=(4, 7, 33)).astype(np.float32)
    compiled, y = run(network(nodes, {"x": ["N", 7, 33]}, {"y": None}), target, x, batch=4)
    assert len(compiled.graph.ops) == 1 and compiled.graph.replicas == min(4, compiled.machine.clusters)
    assert all(op.host is None for op in compiled.graph.ops)
    relu = np.maximum(x / (1 + np.exp(-1.5 * x)), 0)
    np.testing.assert_allclose(y, 2 * np.tanh(relu / 2), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["tiny", "stcp920"])
@pytest.mark.parametrize(("precision", "error"), [("as-is", 1e-5), ("fp16", 1e-2)])
def test_reductions_of_weights(target: str, precision: str, error: float) -> None:
    register_operator(DOMAIN, "Distances")(distances)
    table = RANDOM.normal(size=(11, 19)).astype(np.float32)
    model = network(
        [custom_node("Distances", ["x", "table"], ["y"])], {"x": [13, 19]}, {"y": [13, 11]},
        [numpy_helper.from_array(table, "table")],
    )  # fmt: skip
    x = RANDOM.normal(size=(13, 19)).astype(np.float32)
    compiled, y = run(model, target, x, precision=precision)
    assert all(op.host is None for op in compiled.graph.ops)
    np.testing.assert_allclose(y, ((x[:, None] - table[None]) ** 2).sum(-1), rtol=error)


def test_several_results_and_shapes_behind_them() -> None:
    register_operator(DOMAIN, "MeanAndSpread", height="graph")(mean_and_spread)
    nodes = [
        custom_node("MeanAndSpread", ["x"], ["mean", "spread"]),
        helper.make_node("Shape", ["spread"], ["shape"]),
        helper.make_node("Concat", ["shape", "one"], ["column"], axis=0),
        helper.make_node("Reshape", ["mean", "column"], ["tall"]),
        helper.make_node("Unsqueeze", ["spread", "one"], ["spread_tall"]),
        helper.make_node("Add", ["tall", "spread_tall"], ["y"]),
    ]
    model = network(nodes, {"x": [6, 9]}, {"y": [6, 1]}, [numpy_helper.from_array(np.array([1]), "one")])
    x = RANDOM.normal(size=(6, 9)).astype(np.float32)
    y = run(model, "tiny", x)[1]
    np.testing.assert_allclose(y, (x.mean(1) + np.ptp(x, 1))[:, None], rtol=1e-5, atol=1e-6)


def test_an_operator_of_onnx_is_replaced_by_the_users() -> None:
    register_operator("", "Relu", height="graph")(lambda x: relax.op.negative(x))
    model = network([helper.make_node("Relu", ["x"], ["y"])], {"x": [3, 5]}, {"y": [3, 5]})
    x = RANDOM.normal(size=(3, 5)).astype(np.float32)
    assert (run(model, "tiny", x)[1] == -x).all()


def test_a_function_of_the_model_is_replaced_by_the_users() -> None:
    register_operator(DOMAIN, "Sum", height="graph")(lambda x: relax.op.negative(x))
    model = network([custom_node("Sum", ["x"], ["y"])], {"x": [3, 5]}, {"y": [3, 5]})
    body = helper.make_function(DOMAIN, "Sum", ["a"], ["b"], [helper.make_node("Exp", ["a"], ["b"])], [helper.make_opsetid("", 17)])  # fmt: skip
    model.functions.append(body)
    x = RANDOM.normal(size=(3, 5)).astype(np.float32)
    assert (run(model, "tiny", x)[1] == -x).all()


def test_attributes_of_all_types_arrive() -> None:
    arrived: dict[str, object] = {}

    @register_operator(DOMAIN, "Take", height="graph")
    def take(x: Any, missing: Any = None, **attributes: object) -> Any:
        assert missing is None
        arrived.update(attributes)
        return relax.op.negative(x)

    node = custom_node(
        "Take", ["x", ""], ["y"], a=1, b=0.5, c="text", d=[1, 2], e=[0.5, 1.5], f=["p", "q"],
        g=helper.make_tensor("t", TensorProto.INT64, [2], [3, 4]),
    )  # fmt: skip
    import_onnx(network([node], {"x": [2]}, {"y": [2]}))
    array = arrived.pop("g")
    assert isinstance(array, np.ndarray) and array.tolist() == [3, 4]
    assert arrived == {"a": 1, "b": 0.5, "c": "text", "d": [1, 2], "e": [0.5, 1.5], "f": ["p", "q"]}


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
@pytest.mark.parametrize("target", ["tiny", "stcp920"])
def test_kernels_with_control_flow(target: str, precision: str) -> None:
    register_operator(DOMAIN, "RunningMax", height="library")(running_max)
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        custom_node("RunningMax", ["a"], ["b"]),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    x = RANDOM.normal(size=(7, 19)).astype(np.float32)
    y = run(network(nodes, {"x": [7, 19]}, {"y": [7, 19]}), target, x, precision=precision)[1]
    np.testing.assert_allclose(
        y, -np.maximum.accumulate(np.maximum(x, 0), 1), rtol=1e-5 if precision == "as-is" else 1e-3
    )


def test_definitions_behind_them_are_expanded() -> None:
    """ONNX expands some operators only where it knows the types of their inputs."""
    register_operator(DOMAIN, "Swish", height="graph")(swish)
    nodes = [custom_node("Swish", ["x"], ["a"]), helper.make_node("Celu", ["a"], ["y"], alpha=2.0)]
    x = RANDOM.normal(size=(7, 19)).astype(np.float32)
    y = run(network(nodes, {"x": [7, 19]}, {"y": [7, 19]}), "tiny", x)[1]
    a = x / (1 + np.exp(-x))
    np.testing.assert_allclose(y, np.maximum(a, 0) + np.minimum(2 * (np.exp(a / 2) - 1), 0), rtol=1e-4, atol=1e-5)
