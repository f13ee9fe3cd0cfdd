"""Normalisations: of layers, instances, groups, batches and neighbouring channels."""

from __future__ import annotations

import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Case, Cases
from tests.support.operators.single_nodes import one

CASES = Cases()


def norm(
    op: str,
    shape: tuple[int, ...],
    parameters: tuple[int, ...],
    names: str = "gb",
    opset: int = 17,
    **attributes: object,
) -> Case:
    def build() -> onnx.ModelProto:
        m = Model(opset)
        weights = [m.weight(n, *parameters, positive=n in "gv") for n in names]
        return m.build(m.node(op, m.input("x", *shape), *weights, **attributes))

    return build


CASES |= {
    "layer norm": norm("LayerNormalization", (2, 7, 31), (31,)),
    "layer norm over two": norm("LayerNormalization", (3, 5, 13), (5, 13), axis=1),
    "instance norm": norm("InstanceNormalization", (2, 6, 5, 7), (6,)),
    "group norm": norm("GroupNormalization", (2, 12, 5, 3), (4,), opset=18, num_groups=4),
    "batch norm": norm("BatchNormalization", (2, 13, 5, 6), (13,), names="gbmv"),
    "batch norm of features": norm("BatchNormalization", (5, 29), (29,), names="gbmv"),
}


@CASES.add
def layer_norm_by_hand() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 2, 7, 31)
    centred = m.node("Sub", x, m.node("ReduceMean", x, axes=[-1]))
    variance = m.node("ReduceMean", m.node("Mul", centred, centred), axes=[-1])
    y = m.node("Div", centred, m.node("Sqrt", m.node("Add", variance, m.constant("eps", 1e-5))))
    return m.build(m.node("Add", m.node("Mul", y, m.weight("g", 31)), m.weight("b", 31)))


CASES |= {
    "local response norm": one("LRN", (1, 13, 5, 6), size=5, alpha=0.1, beta=0.75, bias=1.0),
    "local response norm over an even number": one("LRN", (1, 13, 5, 6), size=4, alpha=0.1, beta=0.75, bias=1.0),
}
