"""Element-wise operators: functions of one element, of several, comparisons, casts and whole numbers."""

from __future__ import annotations

import numpy as np
import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Cases
from tests.support.operators.single_nodes import binary, one, unary

CASES = Cases()

CASES |= {
    **{
        op.lower(): unary(op, (5, 7, 33))
        for op in [
            "Abs",
            "Neg",
            "Exp",
            "Erf",
            "Tanh",
            "Sigmoid",
            "Relu",
            "LeakyRelu",
            "Elu",
            "Selu",
            "Softplus",
            "Softsign",
            "HardSigmoid",
            "HardSwish",
            "Floor",
            "Ceil",
            "Round",
            "Sign",
            "Sin",
            "Cos",
        ]
    },
    **{op.lower(): unary(op, (5, 7, 33), positive=True) for op in ("Log", "Sqrt", "Reciprocal")},
    "add along the last": binary("Add", (5, 7, 33), (33,)),
    "add along the middle": binary("Add", (5, 7, 33), (7, 1)),
    "add along the first": binary("Add", (5, 7, 33), (5, 1, 1)),
    "sub of a scalar": binary("Sub", (5, 7, 33), ()),
    "mul both broadcast": binary("Mul", (5, 1, 33), (7, 1)),
    "div by larger": binary("Div", (33,), (5, 7, 33)),
    "div": binary("Div", (5, 7, 33), (5, 7, 33)),
    "pow": binary("Pow", (3, 5), (5,)),
    "min": binary("Min", (5, 7, 33), (5, 1, 33)),
    "max": binary("Max", (5, 7, 33), (1, 7, 33)),
    "clip": one("Clip", (7, 33), constants={1: -0.5, 2: 0.25}),
    "clip above": one("Clip", (7, 33), constants={1: None, 2: 0.25}),
    "square": one("Pow", (7, 33), constants={1: 2.0}),
    "cube": one("Pow", (7, 33), constants={1: 3.0}),
    "prelu": one("PRelu", (1, 6, 5, 7), constants={1: np.linspace(-1, 1, 6, dtype="f4").reshape(6, 1, 1)}),
}


@CASES.add
def comparisons_and_where() -> onnx.ModelProto:
    m = Model()
    x, y = m.input("x", 5, 33), m.input("y", 33)
    chosen = m.node("And", m.node("Less", x, y), m.node("Not", m.node("Equal", x, m.constant("zero", 0.0))))
    return m.build(m.node("Where", chosen, m.node("Mul", x, y), y), m.node("Cast", chosen, to=onnx.TensorProto.FLOAT))


@CASES.add
def casts() -> onnx.ModelProto:
    m = Model()
    x = m.node("Mul", m.input("x", 5, 33), m.constant("ten", 10.0))
    whole = m.node("Cast", x, to=onnx.TensorProto.INT32)
    truth = m.node("Cast", whole, to=onnx.TensorProto.BOOL)
    return m.build(m.node("Cast", whole, to=onnx.TensorProto.FLOAT), m.node("Cast", truth, to=onnx.TensorProto.FLOAT))


@CASES.add
def whole_numbers() -> onnx.ModelProto:
    m = Model()
    x, y = m.input("x", 5, 33, kind="i"), m.input("y", 33, kind="i")
    chosen = m.node("Where", m.node("Equal", x, y), m.node("Add", x, m.constant("five", 5)), m.node("Mul", x, y))
    total = m.node("ReduceSum", chosen, m.constant("axes", [1]), keepdims=0)
    return m.build(m.node("Cast", chosen, to=onnx.TensorProto.FLOAT), m.node("Transpose", chosen), total)


@CASES.add
def largest_and_smallest_whole_numbers() -> onnx.ModelProto:
    m = Model()
    x = m.node("Cast", m.input("x", 9, 70, kind="i"), to=onnx.TensorProto.INT32)
    return m.build(m.node("ReduceMax", x, axes=[1]), m.node("ReduceMin", x, axes=[0], keepdims=0))


@CASES.add
def large_whole_numbers() -> onnx.ModelProto:
    m = Model()
    x = m.node("Cast", m.input("x", 5, 33, kind="i"), to=onnx.TensorProto.INT32)
    return m.build(m.node("Add", x, m.constant("odd", 16_777_217, "int32")))


@CASES.add
def words_by_their_numbers() -> onnx.ModelProto:
    m = Model()
    x = m.node("Gather", m.weight("table", 11, 24), m.input("ids", 2, 7, kind="i"))
    return m.build(m.node("MatMul", m.node("Add", x, m.weight("position", 7, 24)), m.weight("w", 24, 13)))


@CASES.add
def mask_of_whole_numbers() -> onnx.ModelProto:
    m = Model()
    mask = m.node("Cast", m.input("mask", 2, 1, 11, kind="i"), to=onnx.TensorProto.FLOAT)
    mask = m.node("Mul", m.node("Sub", m.constant("one", 1.0), mask), m.constant("low", -10000.0))
    return m.build(m.node("Softmax", m.node("Add", m.input("x", 2, 5, 11), mask)))
