"""A few operators one after the other, as networks have them, and what a network may have for outputs."""

from __future__ import annotations

import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Cases

CASES = Cases()


@CASES.add
def two_convolutions_and_a_residual() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 1, 4, 8, 8)
    a = m.node("Relu", m.node("Conv", x, m.weight("w", 4, 4, 3, 3), m.weight("b", 4), pads=[1, 1, 1, 1]))
    b = m.node("Conv", a, m.weight("v", 4, 4, 3, 3), pads=[1, 1, 1, 1])
    return m.build(m.node("Relu", m.node("Add", b, x)))


@CASES.add
def patches_to_tokens() -> onnx.ModelProto:
    m = Model()
    x = m.node("Conv", m.input("x", 1, 3, 8, 8), m.weight("w", 6, 3, 4, 4), m.weight("b", 6), strides=[4, 4])
    x = m.node("Transpose", m.node("Reshape", x, m.constant("s", [1, 6, 4])), perm=[0, 2, 1])
    x = m.node("Concat", m.weight("cls", 1, 1, 6), x, axis=1)
    return m.build(m.node("MatMul", x, m.weight("v", 6, 5)))


@CASES.add
def attention() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 1, 6, 16)

    def heads(name: str, perm: list[int]) -> str:
        y = m.node("Add", m.node("MatMul", x, m.weight(f"{name}.w", 16, 16)), m.weight(f"{name}.b", 16))
        y = m.node("Reshape", y, m.constant("split", [1, 6, 4, 4]))
        return m.node("Transpose", y, perm=perm)

    q, k, v = heads("q", [0, 2, 1, 3]), heads("k", [0, 2, 3, 1]), heads("v", [0, 2, 1, 3])
    scores = m.node("Div", m.node("MatMul", q, k), m.constant("root", 2.0))
    y = m.node("MatMul", m.node("Softmax", scores, axis=-1), v, name="context")
    y = m.node("Reshape", m.node("Transpose", y, perm=[0, 2, 1, 3]), m.constant("merge", [1, 6, 16]))
    return m.build(m.node("MatMul", y, m.weight("o", 16, 16)))


@CASES.add
def flattened_image_to_features() -> onnx.ModelProto:
    m = Model()
    x = m.node("MaxPool", m.node("Conv", m.input("x", 1, 3, 8, 8), m.weight("w", 6, 3, 3, 3)), kernel_shape=[2, 2])
    x = m.node("Flatten", x)
    return m.build(m.node("Gemm", x, m.weight("v", 10, 150), m.weight("b", 10), transB=1))


@CASES.add
def squeeze_and_excitation() -> onnx.ModelProto:
    m = Model()
    x = m.node("Relu", m.node("Conv", m.input("x", 1, 4, 8, 8), m.weight("w", 8, 4, 3, 3)))
    s = m.node("Relu", m.node("Conv", m.node("GlobalAveragePool", x), m.weight("down", 2, 8, 1, 1)))
    s = m.node("Sigmoid", m.node("Conv", s, m.weight("up", 8, 2, 1, 1)))
    return m.build(m.node("Mul", x, s))


@CASES.add
def channel_shuffle() -> onnx.ModelProto:
    m = Model()
    x = m.node("Relu", m.node("Conv", m.input("x", 1, 8, 5, 5), m.weight("w", 8, 4, 1, 1), group=2))
    x = m.node("Transpose", m.node("Reshape", x, m.constant("s", [1, 2, 4, 5, 5])), perm=[0, 2, 1, 3, 4])
    x = m.node("Reshape", x, m.constant("t", [1, 8, 5, 5]))
    return m.build(m.node("Conv", x, m.weight("v", 8, 1, 3, 3), group=8, pads=[1, 1, 1, 1]))


@CASES.add
def shapes_computed_in_the_graph() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 2, 3, 4)
    head = m.node("Slice", m.node("Shape", x), m.constant("from", [0]), m.constant("to", [1]))
    shape = m.node("Concat", head, m.constant("rest", [-1]), axis=0)
    return m.build(m.node("Relu", m.node("Reshape", x, shape)))


@CASES.add
def outputs_of_all_kinds() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 1, 4, 6, 6)
    y = m.node("Conv", x, m.weight("w", 5, 4, 3, 3))
    z = m.node("Relu", y)
    return m.build(y, z, m.node("Identity", x), m.node("Conv", z, m.weight("v", 2, 5, 1, 1)))


@CASES.add
def constant_output() -> onnx.ModelProto:
    m = Model()
    m.node("Add", m.weight("a", 3, 20), m.weight("b", 3, 20), name="c")
    return m.build("c", m.node("Relu", m.input("x", 2)))
