"""Reductions, and the softmax."""

from __future__ import annotations

import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Case, Cases
from tests.support.operators.single_nodes import unary

CASES = Cases()


def reduction(op: str, axes: list[int], keepdims: int) -> Case:
    def build() -> onnx.ModelProto:
        m = Model(opset=13)
        x = m.input("x", 2, 3, 4, 5)
        if op == "ReduceLogSum":
            x = m.node("Abs", x)
        if op == "ReduceSum":
            return m.build(m.node(op, x, m.constant("axes", axes), keepdims=keepdims))
        return m.build(m.node(op, x, axes=axes, keepdims=keepdims))

    return build


CASES |= {
    f"{op.lower()} {axes} {'kept' if keep else 'dropped'}": reduction(op, axes, keep)
    for op, axes, keep in (
        ("ReduceMean", [1], 1),
        ("ReduceMean", [1, 3], 0),
        ("ReduceSum", [-1], 0),
        ("ReduceSum", [0, 1, 2, 3], 0),
        ("ReduceMax", [2, 3], 1),
        ("ReduceMin", [0], 0),
        ("ReduceProd", [3], 1),
        ("ReduceL2", [1], 1),
        ("ReduceL1", [1], 0),
        ("ReduceSumSquare", [3], 1),
        ("ReduceLogSum", [2], 1),
        ("ReduceLogSumExp", [2], 1),
    )
}
CASES |= {f"softmax {axis}": unary("Softmax", (3, 4, 5), axis=axis) for axis in (0, 1, -1)}
CASES |= {"log softmax": unary("LogSoftmax", (3, 4, 5), axis=-1)}


@CASES.add
def softmax_of_old_models() -> onnx.ModelProto:
    m = Model(opset=11)
    return m.build(m.node("Softmax", m.input("x", 2, 3, 4), axis=1))
