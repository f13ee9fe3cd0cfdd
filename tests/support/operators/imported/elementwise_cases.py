"""Element-wise operators: functions of one element, of several, comparisons and casts."""

from __future__ import annotations

import numpy as np
import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Cases
from tests.support.operators.single_nodes import binary, unary

CASES = Cases()

UNARY = (
    *("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Exp", "Erf", "Tanh", "Sigmoid", "Sin", "Cos", "Identity"),
    *("Relu", "LeakyRelu", "ThresholdedRelu", "Elu", "Selu", "Celu", "Softplus", "Softsign", "HardSigmoid"),
    *("HardSwish", "Mish"),
)
CASES |= {
    **{op.lower(): unary(op, (3, 4, 5)) for op in UNARY},
    **{op.lower(): unary(op, (3, 4, 5), positive=True) for op in ("Log", "Sqrt", "Reciprocal", "Tan")},
    "add broadcast": binary("Add", (2, 3, 4), (3, 1)),
    "sub scalar": binary("Sub", (2, 3, 4), ()),
    "mul": binary("Mul", (2, 3, 4), (2, 3, 4)),
    "div broadcast": binary("Div", (2, 3, 4), (4,)),
    "div larger": binary("Div", (4,), (2, 3, 4)),
    "min": binary("Min", (2, 3, 4), (2, 1, 4)),
    "max": binary("Max", (2, 3, 4), (1, 3, 4)),
}


@CASES.add
def gelu() -> onnx.ModelProto:
    m = Model()
    x = m.node("MatMul", m.input("x", 6, 8), m.weight("w", 8, 12))
    e = m.node("Erf", m.node("Div", x, m.constant("r", np.float32(np.sqrt(2)))))
    y = m.node("Mul", m.node("Mul", x, m.node("Add", e, m.constant("one", 1.0))), m.constant("half", 0.5))
    return m.build(y)


@CASES.add
def clip() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Clip", m.input("x", 3, 5), m.constant("lo", -0.5), m.constant("hi", 0.25)))


@CASES.add
def clip_above() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Clip", m.input("x", 3, 5), "", m.constant("hi", 0.25)))


@CASES.add
def powers() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 3, 5)
    y = m.node("Pow", x, m.constant("two", 2.0))
    return m.build(m.node("Pow", m.node("Add", y, m.constant("one", 1.0)), m.constant("p", 0.75)))


@CASES.add
def prelu() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("PRelu", m.input("x", 1, 6, 4, 4), m.weight("slope", 6, 1, 1)))


@CASES.add
def where() -> onnx.ModelProto:
    m = Model()
    x, y = m.input("x", 3, 5), m.input("y", 3, 5)
    return m.build(m.node("Where", m.node("Less", x, y), m.node("Mul", x, y), y))


@CASES.add
def masks() -> onnx.ModelProto:
    m = Model()
    mask = m.node("Cast", m.input("mask", 1, 5, kind="i"), to=onnx.TensorProto.FLOAT)
    mask = m.node("Mul", m.node("Sub", m.constant("one", 1.0), mask), m.constant("low", -10000.0))
    return m.build(m.node("Softmax", m.node("Add", m.input("x", 3, 5), mask)))


@CASES.add
def several_terms() -> onnx.ModelProto:
    m = Model()
    x, y, z = (m.input(n, 3, 5) for n in "xyz")
    return m.build(m.node("Sum", x, y, z), m.node("Max", x, y, z))


@CASES.add
def comparison_to_number() -> onnx.ModelProto:
    m = Model()
    x = m.node("GreaterOrEqual", m.input("x", 3, 5), m.constant("zero", 0.0))
    return m.build(m.node("Cast", m.node("Not", x), to=onnx.TensorProto.FLOAT))


@CASES.add
def truncation_and_back() -> onnx.ModelProto:
    m = Model()
    x = m.node("Cast", m.node("Mul", m.input("x", 3, 5), m.constant("ten", 10.0)), to=onnx.TensorProto.INT32)
    return m.build(m.node("Cast", x, to=onnx.TensorProto.FLOAT))


@CASES.add
def cast_to_bytes() -> onnx.ModelProto:
    m = Model()
    x = m.node("Mul", m.input("x", 3, 5), m.constant("ten", 10.0))
    y = m.node("Add", m.node("Cast", x, to=onnx.TensorProto.INT8), m.constant("three", 3, "int8"))
    return m.build(y, m.node("Cast", m.node("Abs", x), to=onnx.TensorProto.UINT8))


@CASES.add
def mask_of_whole_numbers_in_a_new_shape() -> onnx.ModelProto:
    m = Model()
    mask = m.node("Unsqueeze", m.input("mask", 2, 5, kind="i"), m.constant("axes", [1]))
    mask = m.node("Cast", m.node("Transpose", mask, perm=[2, 1, 0]), to=onnx.TensorProto.FLOAT)
    return m.build(m.node("Add", mask, m.input("x", 5, 3, 2)))


@CASES.add
def comparison_of_whole_numbers() -> onnx.ModelProto:
    m = Model()
    x, y = m.input("x", 3, 5, kind="i"), m.input("y", 5, kind="i")
    return m.build(m.node("Cast", m.node("Or", m.node("Equal", x, y), m.node("Less", x, y)), to=onnx.TensorProto.FLOAT))


@CASES.add
def infinities() -> onnx.ModelProto:
    m = Model()
    x = m.node("Div", m.constant("one", 1.0), m.node("Cast", m.input("x", 3, 5, kind="i"), to=1))
    return m.build(m.node("IsInf", x), m.node("IsNaN", x))
