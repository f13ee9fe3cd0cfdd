"""LayerNormalization whose parameters are broadcast, or of a sum, against ONNX Runtime."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper, numpy_helper

from girih.frontend import import_onnx
from girih.ir.errors import UnsupportedError, UsageError
from tests.support.onnx_models import Model, check_both

Shape = tuple[int, ...]


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis", "scale", "bias"),
    [
        ((4, 4, 4), 0, (4, 4), None),
        ((4, 4, 4), 1, (4,), (4,)),
        ((2, 6, 4), 0, (1, 4), (2, 1, 1)),
        ((2, 6, 4), -1, (4,), (1,)),
        ((2, 6, 4), -1, (6, 4), (2, 1, 4)),
    ],
)
def test_broadcast_parameters(shape: Shape, axis: int, scale: Shape, bias: Shape | None, weights: bool) -> None:
    m = Model()
    x = m.input("x", *shape)
    shapes = {"scale": scale} if bias is None else {"scale": scale, "bias": bias}
    parameters = [m.weight(n, *s) if weights else m.input(n, *s) for n, s in shapes.items()]
    check_both(m.build(m.node("LayerNormalization", x, *parameters, axis=axis, epsilon=1e-3)), 1e-5)


def test_a_scale_that_does_not_fit() -> None:
    m = Model()
    y = m.node("LayerNormalization", m.input("x", 2, 6, 4), m.weight("scale", 3), name="norm")
    with pytest.raises(UsageError, match=r"node 'norm': LayerNormalization: 'scale' has shape \[3\], which cannot"):
        import_onnx(m.build(y))


def of_sum(shape: Shape, skip: Shape, *parameters: str, outputs: tuple[str, ...] = ("y",)) -> onnx.ModelProto:
    """A SkipLayerNormalization with some of the parameters, and something behind it; opset 14 has no plain one."""
    m = Model(14)
    x, s, scale = m.input("x", *shape), m.input("s", *skip), m.weight("scale", shape[-1])
    rest = [m.weight(name, shape[-1]) if name else "" for name in parameters]
    m.node("SkipLayerNormalization", x, s, scale, *rest, outputs=outputs, domain="com.microsoft", epsilon=1e-3)
    m.nodes[-1].name = "skip"
    m.node("ArgMax", "y", outputs=["most"], axis=-1)
    return built(m, "most", *filter(None, outputs))


def built(m: Model, *outputs: str) -> onnx.ModelProto:
    """The model, with ONNX Runtime's operators."""
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    weights = [numpy_helper.from_array(array, name) for name, array in m.weights.items()]
    opsets = [helper.make_opsetid("", m.opset), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(m.nodes, "sum", m.inputs, results, weights)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_norms_whose_sums_go_on() -> None:
    """The residual path of a transformer: each sum is what the next one adds to."""
    m = Model(14)
    x, s, scale = m.input("x", 2, 6, 4), m.input("s", 2, 6, 4), m.weight("scale", 4)
    for i in range(3):
        y, total = f"y{i}", f"total{i}"
        m.node("SkipLayerNormalization", x, s, scale, outputs=(y, "", "", total), domain="com.microsoft", epsilon=1e-3)
        x, s = total, m.node("Transpose", m.node("Transpose", y, perm=[0, 2, 1]), perm=[0, 2, 1])
    check_both(built(m, m.node("Transpose", x, perm=[2, 0, 1]), s), 1e-5)


@pytest.mark.parametrize("parameters", [(), ("shift",), ("shift", "bias"), ("", "bias")])
def test_a_norm_of_a_sum(parameters: tuple[str, ...]) -> None:
    check_both(of_sum((2, 6, 4), (2, 6, 4), *parameters), 1e-5)
    check_both(of_sum((2, 6, 4), (2, 6, 4), *parameters, outputs=("y", "", "", "total")), 1e-5)


def test_a_norm_of_a_broadcast_sum() -> None:
    check_both(of_sum((2, 6, 4), (1, 6, 4), "shift"), 1e-5)


def test_what_only_training_reads() -> None:
    with pytest.raises(UnsupportedError, match="node 'skip': SkipLayerNormalization: its mean and variance"):
        import_onnx(of_sum((2, 6, 4), (2, 6, 4), "shift", outputs=("y", "mean", "", "")))
