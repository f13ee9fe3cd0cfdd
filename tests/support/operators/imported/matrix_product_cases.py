"""Matrix products: of activations and of weights, in batches, broadcast, transposed and padded."""

from __future__ import annotations

import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Case, Cases

CASES = Cases()


@CASES.add
def matmul() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("MatMul", m.input("x", 7, 11), m.weight("w", 11, 5)))


@CASES.add
def matmul_of_batches() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("MatMul", m.input("x", 2, 3, 7, 11), m.input("y", 2, 3, 11, 5)))


@CASES.add
def matmul_broadcast() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("MatMul", m.input("x", 2, 3, 7, 11), m.input("y", 3, 11, 5)))


@CASES.add
def matmul_constant_right() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Add", m.node("MatMul", m.input("x", 2, 7, 11), m.weight("w", 11, 5)), m.weight("b", 5)))


@CASES.add
def matmul_constant_left() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("MatMul", m.weight("w", 6, 7), m.input("x", 2, 7, 5)))


@CASES.add
def matmul_vectors() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("MatMul", m.input("x", 11), m.weight("w", 11, 5)))


@CASES.add
def matmul_transposed() -> onnx.ModelProto:
    m = Model()
    y = m.node("Transpose", m.input("y", 2, 5, 11), perm=[0, 2, 1])
    return m.build(m.node("MatMul", m.input("x", 2, 7, 11), y))


@CASES.add
def matmul_of_a_padded_right() -> onnx.ModelProto:
    m = Model()
    y = m.node("Pad", m.input("y", 2, 9, 5), m.constant("p", [0, 1, 0, 0, 1, 2]))
    return m.build(m.node("MatMul", m.input("x", 2, 7, 11), y))


@CASES.add
def matmul_of_a_padded_left() -> onnx.ModelProto:
    m = Model()
    x = m.node("Pad", m.input("x", 2, 7, 9), m.constant("p", [0, 0, 1, 0, 0, 1]))
    return m.build(m.node("MatMul", x, m.input("y", 2, 11, 5)))


@CASES.add
def matmul_of_weights_and_a_padded_right() -> onnx.ModelProto:
    m = Model()
    y = m.node("Pad", m.input("y", 9, 5), m.constant("p", [1, 0, 1, 2]))
    return m.build(m.node("MatMul", m.weight("w", 7, 11), y))


@CASES.add
def matmul_of_a_padded_tensor_with_itself() -> onnx.ModelProto:
    m = Model()
    x = m.node("Pad", m.input("x", 7, 5), m.constant("p", [1, 2, 0, 1]))
    return m.build(m.node("MatMul", x, m.node("Transpose", x, perm=[1, 0])))


def gemm(**attributes: float) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        x = m.input("x", *((11, 3) if attributes.get("transA") else (3, 11)))
        w = m.weight("w", *((5, 11) if attributes.get("transB") else (11, 5)))
        return m.build(m.node("Gemm", x, w, m.weight("b", 5), **attributes))

    return build


CASES |= {
    "gemm": gemm(),
    "gemm transB": gemm(transB=1),
    "gemm transA": gemm(transA=1),
    "gemm scaled": gemm(transA=1, transB=1, alpha=0.5, beta=2.0),
}
