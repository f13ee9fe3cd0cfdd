"""Matrix products of prime extents: of activations and of weights, in batches, broadcast and padded."""

from __future__ import annotations

import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Case, Cases

CASES = Cases()


def matmul(left: tuple[int, ...], right: tuple[int, ...], weights: str = "") -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        operands = [
            m.weight(name, *shape) if name in weights else m.input(name, *shape)
            for name, shape in (("a", left), ("b", right))
        ]
        return m.build(m.node("MatMul", *operands))

    return build


def gemm(m: int, k: int, n: int, bias: tuple[int, ...] | None = None, **attributes: float) -> Case:
    def build() -> onnx.ModelProto:
        model = Model()
        x = model.input("x", *((k, m) if attributes.get("transA") else (m, k)))
        w = model.weight("w", *((n, k) if attributes.get("transB") else (k, n)))
        return model.build(model.node("Gemm", x, w, *([model.weight("b", *bias)] if bias else []), **attributes))

    return build


CASES |= {
    "matmul of primes": matmul((61, 113), (113, 97), weights="b"),
    "matmul of primes, thin": matmul((127, 13), (13, 503), weights="b"),
    "matmul of primes, long": matmul((5, 1009), (1009, 7), weights="b"),
    "matmul of activations": matmul((31, 47), (47, 29)),
    "matmul of batches": matmul((2, 3, 13, 17), (2, 3, 17, 19)),
    "matmul broadcast left": matmul((13, 17), (2, 3, 17, 11)),
    "matmul broadcast right": matmul((4, 3, 13, 17), (3, 17, 11)),
    "matmul broadcast both": matmul((4, 1, 7, 11), (3, 11, 5)),
    "matmul with weights": matmul((3, 11, 23), (23, 41), weights="b"),
    "matmul with batched weights": matmul((3, 11, 23), (3, 23, 9), weights="b"),
    "matmul with weights on the left": matmul((19, 23), (3, 23, 31), weights="a"),
    "matmul vector by matrix": matmul((53,), (53, 101), weights="b"),
    "matmul matrix by vector": matmul((53, 101), (101,), weights="b"),
    "matmul matrix by column": matmul((53, 101), (101, 1), weights="b"),
    "matmul row by matrix": matmul((1, 101), (101, 59), weights="b"),
    "matmul of vectors": matmul((89,), (89,)),
    "matmul outer product": matmul((43, 1), (1, 37)),
    "gemm": gemm(17, 41, 29, (29,)),
    "gemm transposed": gemm(17, 41, 29, (29,), transA=1, transB=1),
    "gemm scaled": gemm(16, 40, 24, (1, 24), transB=1, alpha=0.25, beta=1.5),
    "gemm with a matrix of biases": gemm(16, 11, 13, (16, 13)),
    "gemm with a column of biases": gemm(16, 11, 13, (16, 1)),
    "gemm without bias": gemm(16, 11, 13, transA=1),
}


@CASES.add
def matmul_transposed() -> onnx.ModelProto:
    m = Model()
    y = m.node("Transpose", m.input("y", 2, 19, 31), perm=[0, 2, 1])
    return m.build(m.node("MatMul", m.input("x", 2, 13, 31), y))


@CASES.add
def matmul_of_a_padded_right() -> onnx.ModelProto:
    m = Model()
    y = m.node("Pad", m.input("y", 2, 17, 29), m.constant("p", [0, 1, 0, 0, 1, 2]))
    return m.build(m.node("MatMul", m.input("x", 2, 13, 19), y))


@CASES.add
def matmul_of_weights_and_a_padded_right() -> onnx.ModelProto:
    m = Model()
    y = m.node("Pad", m.input("y", 17, 29), m.constant("p", [1, 0, 1, 2]))
    return m.build(m.node("MatMul", m.weight("w", 13, 19), y))


@CASES.add
def matmul_with_itself() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 3, 17, 23)
    return m.build(m.node("MatMul", x, m.node("Transpose", x, perm=[0, 2, 1])))


@CASES.add
def matmul_squared() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 2, 17, 17)
    return m.build(m.node("MatMul", x, x))


@CASES.add
def matmul_and_its_weights() -> onnx.ModelProto:
    m = Model()
    w = m.weight("w", 17, 17)
    return m.build(m.node("Add", m.node("MatMul", m.input("x", 17, 17), w), w))


@CASES.add
def matmul_and_its_activation() -> onnx.ModelProto:
    m = Model()
    x, y = m.input("x", 17, 17), m.input("y", 17, 17)
    return m.build(m.node("Add", m.node("MatMul", x, y), y))
