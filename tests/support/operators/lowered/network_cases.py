"""A few operators one after the other, as networks have them."""

from __future__ import annotations

import numpy as np
import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Cases

CASES = Cases()


@CASES.add
def channel_shuffle() -> onnx.ModelProto:
    m = Model()
    x = m.node("Relu", m.node("Conv", m.input("x", 1, 8, 7, 5), m.weight("w", 8, 4, 1, 1), group=2))
    x = m.node("Transpose", m.node("Reshape", x, m.constant("s", [1, 2, 4, 7, 5])), perm=[0, 2, 1, 3, 4])
    x = m.node("Reshape", x, m.constant("t", [1, 8, 7, 5]))
    return m.build(m.node("Conv", x, m.weight("v", 8, 1, 3, 3), group=8, pads=[1, 1, 1, 1]))


@CASES.add
def squeeze_and_excitation() -> onnx.ModelProto:
    m = Model()
    x = m.node("HardSwish", m.node("Conv", m.input("x", 1, 5, 9, 9), m.weight("w", 12, 5, 3, 3), pads=[1, 1, 1, 1]))
    s = m.node("Relu", m.node("Conv", m.node("GlobalAveragePool", x), m.weight("down", 3, 12, 1, 1)))
    s = m.node("HardSigmoid", m.node("Conv", s, m.weight("up", 12, 3, 1, 1)))
    return m.build(m.node("Conv", m.node("Mul", x, s), m.weight("out", 7, 12, 1, 1)))


@CASES.add
def convolutions_with_a_shortcut() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 2, 6, 11, 9)
    y = m.node("Relu", m.node("Conv", x, m.weight("a", 10, 6, 3, 3), m.weight("ab", 10), pads=[1, 1, 1, 1]))
    y = m.node("Conv", y, m.weight("b", 6, 10, 3, 3), m.weight("bb", 6), pads=[1, 1, 1, 1])
    return m.build(m.node("MaxPool", m.node("Relu", m.node("Add", y, x)), kernel_shape=[2, 2], strides=[2, 2]))


@CASES.add
def attention_with_a_mask() -> onnx.ModelProto:
    m = Model()
    q, k, v = (m.input(n, 2, 3, 11, 8) for n in "qkv")
    scores = m.node("MatMul", q, m.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = m.node("Add", m.node("Div", scores, m.constant("root", 8**0.5)), m.input("mask", 2, 1, 1, 11))
    mixed = m.node("MatMul", m.node("Softmax", scores, axis=-1), v)
    mixed = m.node("Reshape", m.node("Transpose", mixed, perm=[0, 2, 1, 3]), m.constant("merge", [2, 11, 24]))
    return m.build(m.node("MatMul", mixed, m.weight("o", 24, 24)))


@CASES.add
def perceptron_with_gelu() -> onnx.ModelProto:
    m = Model()
    x = m.node("Add", m.node("MatMul", m.input("x", 13, 19), m.weight("w", 19, 37)), m.weight("b", 37))
    e = m.node("Erf", m.node("Div", x, m.constant("r", np.float32(np.sqrt(2)))))
    y = m.node("Mul", m.node("Mul", x, m.node("Add", e, m.constant("one", 1.0))), m.constant("half", 0.5))
    return m.build(m.node("MatMul", y, m.weight("v", 37, 19)))
