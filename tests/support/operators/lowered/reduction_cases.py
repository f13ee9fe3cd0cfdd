"""Reductions, and the softmax."""

from __future__ import annotations

import numpy as np
import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Case, Cases
from tests.support.operators.single_nodes import one

CASES = Cases()


def reduction(op: str, axes: list[int], keepdims: int, shape: tuple[int, ...] = (3, 7, 5, 13)) -> Case:
    def build() -> onnx.ModelProto:
        m = Model(opset=13)
        x = m.input("x", *shape)
        if op == "ReduceProd":
            x = m.node("Add", m.node("Mul", x, m.constant("c", 0.1)), m.constant("one", 1.0))
        if op == "ReduceSum":
            return m.build(m.node(op, x, m.constant("axes", axes), keepdims=keepdims))
        return m.build(m.node(op, x, axes=axes, keepdims=keepdims))

    return build


CASES |= {
    f"{op.lower()} {axes} {'kept' if keep else 'dropped'}": reduction(op, axes, keep)
    for op, axes, keep in (
        ("ReduceMean", [1], 1),
        ("ReduceMean", [0, 3], 0),
        ("ReduceSum", [-1], 0),
        ("ReduceSum", [0, 1, 2, 3], 0),
        ("ReduceSum", [0, 2], 1),
        ("ReduceMax", [2, 3], 1),
        ("ReduceMax", [0, 1, 2, 3], 1),
        ("ReduceMin", [0], 0),
        ("ReduceMin", [1, 2], 0),
        ("ReduceProd", [3], 1),
        ("ReduceProd", [1], 0),
        ("ReduceL1", [1], 0),
        ("ReduceL2", [1], 1),
        ("ReduceSumSquare", [3], 1),
    )
}
CASES |= {
    "reducesum of primes": reduction("ReduceSum", [0], 0, (1009, 7)),
    "reducemean of one row": reduction("ReduceMean", [0], 0, (1511,)),
    **{f"softmax {axis}": one("Softmax", (3, 7, 5), axis=axis) for axis in (0, 1, 2)},
    "softmax of primes": one("Softmax", (13, 509), axis=-1),
    "log softmax": one("LogSoftmax", (13, 53), axis=-1),
    "cumulative sum": one("CumSum", (5, 7), constants={1: np.int64(1)}),
}
