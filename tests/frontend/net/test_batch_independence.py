"""Symbolic dimensions, and the batch that is divided over clusters."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.ir.checks.check_graph import check_graph
from girih.ir.errors import UsageError
from tests.support.onnx_models import Model, compare, error, onnxruntime_outputs, small_cnn, tokens


def over_the_batch() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Softmax", m.input("x", "N", 4), axis=0))


def with_a_token(*, different: bool) -> onnx.ModelProto:
    """The same token in front of each sample; or another one in front of each of eight."""
    m = Model()
    x = m.node("Relu", m.input("x", "N", 3, 4))
    if different:
        return m.build(m.node("Concat", m.weight("tokens", 8, 1, 4), x, axis=1))
    shape = m.node("Slice", m.node("Shape", x), m.constant("a", [0]), m.constant("b", [1]))
    shape = m.node("Concat", shape, m.constant("rest", [1, 4]), axis=0)
    return m.build(m.node("Concat", m.node("Expand", m.weight("token", 1, 1, 4), shape), x, axis=1))


def test_a_token_in_front_of_all_samples_does_not_join_them() -> None:
    assert compare(with_a_token(different=False), batch=8, clusters=4).replicas == 4
    assert compare(with_a_token(different=True), batch=8, clusters=4).replicas == 1


ON_THE_HOST = {
    # Which sample is read or written depends on data.
    "y = ScatterElements <axis = 0> (x, i, x)": 1,
    "y = GatherElements <axis = 0> (x, i)": 1,
    "two = Unsqueeze (i, last) y = GatherND (x, two)": 1,
    # Sums of samples.
    "zero = Constant <value = int64 {0}> () y = CumSum (x, zero)": 1,
    # One sample after the other.
    "y = GatherElements <axis = 1> (x, i)": 4,
    "y = Gather (table, i)": 4,
}


@pytest.mark.parametrize("nodes", ON_THE_HOST)
def test_what_host_kernels_say_of_samples(nodes: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 17]> g (float[N, 5] x, int64[N, 5] i) => (y) <float[5, 3] table = {{
        {", ".join(map(str, range(15)))} }}, int64[1] last = {{2}}> {{ {nodes} }}"""
    model = onnx.parser.parse_model(text)
    assert import_onnx(model, batch=8, clusters=4).replicas == ON_THE_HOST[nodes]


def test_a_host_kernel_that_writes_at_a_constant_index() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[N, 1] x) => (y) {
        k = Constant <value = int64 {1}> () y = CumSum (x, k) }"""
    graph = import_onnx(onnx.parser.parse_model(text), batch=8, clusters=4)
    assert graph.outputs[0].shape == (8, 1)


THE_SIZE_COUNTS = {
    "a number": "f = Cast <to = 1> (n) y = Div (x, f)",
    "which sample it is": "r = Range (zero, n, one) f = Cast <to = 1> (r) u = Unsqueeze (f, at) y = Add (x, u)",
    "a part of the batch": "from = Constant <value = int64[1] {0}> () to = Constant <value = int64[1] {2}> () "
    "y = Slice (x, from, to, from)",
}


@pytest.mark.parametrize("nodes", THE_SIZE_COUNTS.values(), ids=THE_SIZE_COUNTS)
@pytest.mark.parametrize("batch", [2, 4, 8])
def test_a_network_that_computes_with_the_size_of_the_batch(nodes: str, batch: int) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 17]> g (float[N, 5] x) => (y) {{
        zero = Constant <value = int64 {{0}}> () one = Constant <value = int64 {{1}}> ()
        at = Constant <value = int64[1] {{1}}> () s = Shape (x) n = Gather (s, zero) {nodes} }}"""
    model = onnx.parser.parse_model(text)
    if "Slice" not in nodes or batch != 2:
        assert import_onnx(model, batch=batch, clusters=4).replicas == 1


@pytest.mark.parametrize(("batch", "replicas"), [(2, 1), (4, 1), (8, 4)])
def test_a_batch_of_one_that_is_squeezed(batch: int, replicas: int) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N, 5, 1, 3] x) => (y) { a = Squeeze (x) y = Relu (a) }'
    )
    graph = compare(model, batch=batch, clusters=4)
    assert graph.replicas == replicas
    assert graph.outputs[0].shape == (batch, 5, 3)


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 7, 8])
def test_batch_is_divided(batch: int) -> None:
    graph = compare(small_cnn(), batch=batch, clusters=4)
    assert graph.batch == batch
    share = graph.tensor["x"].shape[0]
    assert share == -(-batch // 4) and graph.replicas == -(-batch // share)
    (port,) = graph.inputs
    assert port.shape == (batch, 3, 6, 6) and port.batch_axis == 0
    assert graph.outputs[0].shape == (batch, 5) and graph.outputs[0].batch_axis == 0


def test_batch_in_a_merged_dimension() -> None:
    model = tokens()
    for batch in (2, 8):
        graph = import_onnx(model, batch=batch, dims={"seq": 5}, clusters=4)
        check_graph(graph)
        assert graph.replicas == min(4, batch)
        x = {"x": np.random.default_rng(0).standard_normal((batch, 5, 8)).astype(np.float32)}
        (expected,) = onnxruntime_outputs(model, x).values()
        (got,) = evaluate_graph(graph, x).values()
        assert error(got, expected) < 1e-5


@pytest.mark.parametrize("batch", [4, 8])
def test_samples_that_meet_stay_together(batch: int) -> None:
    graph = compare(over_the_batch(), batch=batch, clusters=4)
    assert graph.replicas == 1
    assert graph.inputs[0].shape == graph.tensor["x"].shape == (batch, 4)


def test_one_cluster() -> None:
    graph = compare(small_cnn(), batch=3, clusters=1)
    assert graph.replicas == 1 and graph.tensor["x"].shape[0] == 3


def test_dimension_bound_by_name() -> None:
    graph = import_onnx(small_cnn(), dims={"N": 2}, clusters=4)
    assert graph.batch is None and graph.replicas == 1 and graph.inputs[0].batch_axis is None
    assert graph.inputs[0].shape == (2, 3, 6, 6)


def test_static_batch() -> None:
    m = Model()
    model = m.build(m.node("Relu", m.input("x", 2, 3)))
    assert import_onnx(model, clusters=4).batch is None
    assert import_onnx(model, batch=2, clusters=4).replicas == 1
    with pytest.raises(UsageError, match=r"'x' has a fixed batch of 2, not 3"):
        import_onnx(model, batch=3)


def test_unbound_dimensions_are_named() -> None:
    with pytest.raises(UsageError, match=r"'N' of input 'x' \(axis 0\).*--batch N"):
        import_onnx(small_cnn())
    with pytest.raises(UsageError, match=r"'seq' of input 'x' \(axis 1\).*--dim seq=N"):
        import_onnx(tokens(), batch=1)


def test_unnamed_dimension() -> None:
    m = Model()
    model = m.build(m.node("Relu", m.input("x", "N", "M")))
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.ClearField("dim_param")
    with pytest.raises(UsageError, match=r"--dim x:1=N"):
        import_onnx(model, batch=2)
    graph = import_onnx(model, batch=2, dims={"x:1": 3})
    assert graph.inputs[0].shape == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": 0}, "batch is 0"),
        ({"batch": 1, "dims": {"M": 3}}, "no symbolic dimension 'M'; it has: N"),
        ({"dims": {"N": -1}}, "'N' is bound to -1"),
        ({"batch": 1, "precision": "fp8"}, "precision 'fp8'"),
    ],
)
def test_bad_bindings(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        import_onnx(small_cnn(), **arguments)  # type: ignore[arg-type]


def test_inputs_with_different_batches() -> None:
    m = Model()
    model = m.build(m.node("Relu", m.input("x", "N", 3)), m.node("Relu", m.input("y", "M", 3)))
    with pytest.raises(UsageError, match=r"different dimensions \(N, M\)"):
        import_onnx(model, batch=2)
    graph = import_onnx(model, batch=2, dims={"M": 5})
    assert graph.inputs[1].shape == (5, 3) and graph.inputs[1].batch_axis is None
