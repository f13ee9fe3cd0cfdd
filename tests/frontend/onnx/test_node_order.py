"""Models whose nodes are not in the order that ONNX demands, as tools leave them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, parser

import girih
from girih.frontend import import_onnx, reference_outputs
from girih.frontend.onnx.load import load_model
from girih.frontend.onnx.node_order import in_order
from girih.ir.errors import UsageError
from girih.models import build


def chain(*order: int) -> onnx.ModelProto:
    """Three nodes one after the other, and one beside them, in another order."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> chain (float[1, 8] x) => (float[1, 8] y, float[1, 8] z) {
            a = Relu(x)  b = Exp(a)  y = Neg(b)  z = Abs(x)
        }"""
    )
    nodes = [model.graph.node[n] for n in order]
    graph = helper.make_graph(nodes, "chain", model.graph.input, model.graph.output)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)


def results(model: onnx.ModelProto) -> list[str]:
    return [node.output[0] for node in model.graph.node]


@pytest.mark.parametrize(
    ("order", "sorted_by"),
    [((2, 1, 0, 3), "abyz"), ((2, 1, 3, 0), "zaby"), ((3, 1, 0, 2), "zaby"), ((0, 2, 3, 1), "azby")],
)
def test_nodes_wait_for_what_they_read_and_keep_their_order_otherwise(order: tuple[int, ...], sorted_by: str) -> None:
    model = chain(*order)
    before = model.SerializeToString()
    assert "".join(results(in_order(model))) == sorted_by
    assert model.SerializeToString() == before, "the user's model stays as it is"


def test_a_model_in_order_is_not_copied() -> None:
    model = build("tiny-transformer")
    assert in_order(model) is model and load_model(model) is model


def test_casts_that_a_converter_appends(tmp_path: Path) -> None:
    """As ONNX Runtime's converter to float16 does with ``keep_io_types``; it runs the result."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> casts (float[2, 8] x) => (float[2, 8] y) {
            a = Exp(half)  b = Neg(a)  half = Cast<to = 10>(x)  y = Cast<to = 1>(b)
        }"""
    )
    inputs = {"x": np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)}
    (right,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    np.testing.assert_allclose(reference_outputs(model, inputs).outputs["y"], right, rtol=2e-3)
    path = tmp_path / "casts.onnx"
    path.write_bytes(model.SerializeToString())
    for source in (model, path):
        run = girih.compile(source, target="tiny", solver_timeout=1, jobs=1).run(inputs, check=True)
        np.testing.assert_allclose(run.outputs["y"], right, rtol=2e-3)


def test_nodes_of_functions_and_what_branches_read() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "own" : 1]> calls (float[1, 8] x) => (float[1, 8] y) {
            y = own.both(a)  a = Relu(x)
        }
        <domain: "own", opset_import: ["" : 17]> both (x) => (y) { y = Neg(t)  t = Exp(x) }"""
    )
    assert [node.op_type for node in in_order(model).functions[0].node] == ["Exp", "Neg"]
    inputs = {"x": np.linspace(-1, 1, 8, dtype=np.float32)[None]}
    right = -np.exp(np.maximum(inputs["x"], 0))
    np.testing.assert_allclose(reference_outputs(model, inputs).outputs["y"], right, rtol=1e-5)
    assert import_onnx(model).ops
    branch = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> branches (bool c, float[1] x) => (float[1] y) {
            y = If(c) <then_branch = t () => (float[1] p) { p = Neg(a) },
                       else_branch = e () => (float[1] q) { q = Abs(x) }>
            a = Relu(x)
        }"""
    )
    assert results(in_order(branch)) == ["a", "y"]


def test_a_cycle_is_named_beside_nodes_out_of_order() -> None:
    """Not the nodes that only are in another order than they run in, nor those that wait for the cycle."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> cycle (float[1, 8] x) => (float[1, 8] y) {
            y = Neg(p)  p = Add(q, h)  q = Exp(p)  h = Relu(x)
        }"""
    )
    with pytest.raises(UsageError, match=r"node 'p' \(Add\) reads 'q', .* only node 'q' \(Exp\) after it: .*cycle$"):
        import_onnx(model)
