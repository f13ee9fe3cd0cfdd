"""Each class of operator as an ONNX model, cut by plans drawn at random, against the graph's own meaning in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from zlib import crc32

import numpy as np
import onnx
import pytest

from girih.frontend import import_onnx
from girih.ir.load_machine import load_machine
from tests.support.numpy_check import check, inputs_of
from tests.support.onnx_models import Model
from tests.support.plans.random_plans import random_plan
from tests.support.sampled import sampled_pairs

Case = Callable[[], onnx.ModelProto]
CASES: dict[str, Case] = {}


def case(build: Case) -> Case:
    CASES[build.__name__.replace("_", " ")] = build
    return build


def one(
    op: str,
    *shapes: tuple[int, ...],
    constants: Mapping[int, object] | None = None,
    opset: int = 17,
    **attributes: object,
) -> Case:
    """A node of inputs of these shapes, with ``constants`` at some places among them."""

    def build() -> onnx.ModelProto:
        m = Model(opset)
        inputs = [m.input(f"x{i}", *shape) for i, shape in enumerate(shapes)]
        for place, value in (constants or {}).items():
            inputs.insert(place, m.constant(f"c{place}", value) if value is not None else "")
        return m.build(m.node(op, *inputs, **attributes))

    return build


# Convolutions ----------------------------------------------------------------------------------------------------


def conv(
    *shape: int, out: int, kernel: tuple[int, ...] = (3, 3), relu: bool = False, op: str = "Conv", **attributes: object
) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        group = int(attributes.get("group", 1))  # type: ignore[call-overload]
        filters = (shape[1], out // group, *kernel) if op == "ConvTranspose" else (out, shape[1] // group, *kernel)
        x = m.node(op, m.input("x", *shape), m.weight("w", *filters), m.weight("b", out), **attributes)
        return m.build(m.node("Relu", x) if relu else x)

    return build


CASES |= {
    "conv padded": conv(2, 19, 13, 11, out=23, pads=[1, 1, 1, 1], relu=True),
    "conv padded asymmetrically": conv(1, 7, 10, 13, out=16, pads=[0, 2, 3, 1]),
    "conv strided": conv(1, 12, 17, 15, out=9, strides=[2, 3], pads=[1, 1, 1, 1]),
    "conv dilated": conv(1, 8, 14, 16, out=10, dilations=[2, 3], pads=[2, 3, 2, 3]),
    "conv strided and dilated": conv(1, 5, 19, 18, out=6, strides=[3, 2], dilations=[2, 4], pads=[2, 4, 1, 3]),
    "conv pointwise": conv(2, 31, 9, 7, out=37, kernel=(1, 1)),
    "conv pointwise strided": conv(1, 16, 9, 9, out=8, kernel=(1, 1), strides=[2, 2]),
    "conv of patches": conv(1, 3, 28, 28, out=24, kernel=(7, 7), strides=[7, 7]),
    "conv with a large kernel": conv(1, 3, 20, 20, out=16, kernel=(11, 11), strides=[4, 4], pads=[2, 2, 2, 2]),
    "conv with a kernel like the image": conv(1, 6, 7, 7, out=11, kernel=(7, 7)),
    "conv padded beyond the kernel": conv(1, 4, 5, 5, out=6, pads=[3, 4, 4, 3]),
    "conv of rows": conv(1, 6, 9, 21, out=8, kernel=(1, 7), pads=[0, 3, 0, 3]),
    "conv of columns": conv(1, 6, 21, 9, out=8, kernel=(5, 1), pads=[2, 0, 2, 0], strides=[2, 1]),
    "conv grouped": conv(1, 12, 8, 8, out=18, group=3, pads=[1, 1, 1, 1]),
    "conv depthwise": conv(2, 21, 11, 9, out=21, group=21, pads=[1, 1, 1, 1], strides=[2, 1], relu=True),
    "conv depthwise with multiplier": conv(1, 5, 9, 9, out=15, group=5, pads=[1, 1, 1, 1]),
    "conv depthwise dilated": conv(1, 8, 13, 13, out=8, kernel=(5, 5), group=8, dilations=[2, 2], pads=[4, 4, 4, 4]),
    "conv 1d": conv(2, 13, 41, out=17, kernel=(5,), pads=[2, 2], strides=[2]),
    "conv 1d dilated": conv(1, 6, 37, out=8, kernel=(3,), dilations=[4], pads=[8, 0]),
    "conv 3d": conv(1, 3, 5, 6, 7, out=4, kernel=(3, 3, 3), pads=[1, 1, 1, 1, 1, 1]),
    "conv 3d strided": conv(1, 4, 7, 7, 8, out=5, kernel=(2, 3, 2), strides=[2, 2, 1], pads=[1, 1, 0, 0, 1, 1]),
    "conv transposed": conv(1, 7, 6, 5, out=9, kernel=(2, 2), strides=[2, 2], op="ConvTranspose"),
    "conv transposed padded": conv(1, 6, 7, 6, out=8, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1], op="ConvTranspose"),
    "conv transposed dense": conv(1, 5, 6, 6, out=4, pads=[1, 0, 1, 2], op="ConvTranspose"),
    "conv transposed depthwise": conv(1, 6, 5, 5, out=6, kernel=(4, 4), group=6, strides=[2, 2], pads=[1, 1, 1, 1], op="ConvTranspose"),
}  # fmt: skip

# Matrix products -------------------------------------------------------------------------------------------------


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


@case
def matmul_transposed() -> onnx.ModelProto:
    m = Model()
    y = m.node("Transpose", m.input("y", 2, 19, 31), perm=[0, 2, 1])
    return m.build(m.node("MatMul", m.input("x", 2, 13, 31), y))


@case
def matmul_of_a_padded_right() -> onnx.ModelProto:
    m = Model()
    y = m.node("Pad", m.input("y", 2, 17, 29), m.constant("p", [0, 1, 0, 0, 1, 2]))
    return m.build(m.node("MatMul", m.input("x", 2, 13, 19), y))


@case
def matmul_of_weights_and_a_padded_right() -> onnx.ModelProto:
    m = Model()
    y = m.node("Pad", m.input("y", 17, 29), m.constant("p", [1, 0, 1, 2]))
    return m.build(m.node("MatMul", m.weight("w", 13, 19), y))


@case
def matmul_with_itself() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 3, 17, 23)
    return m.build(m.node("MatMul", x, m.node("Transpose", x, perm=[0, 2, 1])))


@case
def matmul_squared() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 2, 17, 17)
    return m.build(m.node("MatMul", x, x))


@case
def matmul_and_its_weights() -> onnx.ModelProto:
    m = Model()
    w = m.weight("w", 17, 17)
    return m.build(m.node("Add", m.node("MatMul", m.input("x", 17, 17), w), w))


@case
def matmul_and_its_activation() -> onnx.ModelProto:
    m = Model()
    x, y = m.input("x", 17, 17), m.input("y", 17, 17)
    return m.build(m.node("Add", m.node("MatMul", x, y), y))


@case
def attention_with_a_mask() -> onnx.ModelProto:
    m = Model()
    q, k, v = (m.input(n, 2, 3, 11, 8) for n in "qkv")
    scores = m.node("MatMul", q, m.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = m.node("Add", m.node("Div", scores, m.constant("root", 8**0.5)), m.input("mask", 2, 1, 1, 11))
    mixed = m.node("MatMul", m.node("Softmax", scores, axis=-1), v)
    mixed = m.node("Reshape", m.node("Transpose", mixed, perm=[0, 2, 1, 3]), m.constant("merge", [2, 11, 24]))
    return m.build(m.node("MatMul", mixed, m.weight("o", 24, 24)))


@case
def perceptron_with_gelu() -> onnx.ModelProto:
    m = Model()
    x = m.node("Add", m.node("MatMul", m.input("x", 13, 19), m.weight("w", 19, 37)), m.weight("b", 37))
    e = m.node("Erf", m.node("Div", x, m.constant("r", np.float32(np.sqrt(2)))))
    y = m.node("Mul", m.node("Mul", x, m.node("Add", e, m.constant("one", 1.0))), m.constant("half", 0.5))
    return m.build(m.node("MatMul", y, m.weight("v", 37, 19)))


# Element-wise ----------------------------------------------------------------------------------------------------


def unary(op: str, positive: bool = False, **attributes: object) -> Case:
    def build() -> onnx.ModelProto:
        m = Model(opset=18)
        x = m.input("x", 5, 7, 33)
        if positive:
            x = m.node("Add", m.node("Abs", x), m.constant("half", 0.5))
        return m.build(m.node(op, x, **attributes))

    return build


def binary(op: str, first: tuple[int, ...], second: tuple[int, ...]) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        y = m.node("Add", m.node("Abs", m.input("y", *second)), m.constant("half", 0.5))
        return m.build(m.node(op, m.input("x", *first), y))

    return build


CASES |= {
    **{
        op.lower(): unary(op)
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
    **{op.lower(): unary(op, positive=True) for op in ("Log", "Sqrt", "Reciprocal")},
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


@case
def comparisons_and_where() -> onnx.ModelProto:
    m = Model()
    x, y = m.input("x", 5, 33), m.input("y", 33)
    chosen = m.node("And", m.node("Less", x, y), m.node("Not", m.node("Equal", x, m.constant("zero", 0.0))))
    return m.build(m.node("Where", chosen, m.node("Mul", x, y), y), m.node("Cast", chosen, to=onnx.TensorProto.FLOAT))


@case
def casts() -> onnx.ModelProto:
    m = Model()
    x = m.node("Mul", m.input("x", 5, 33), m.constant("ten", 10.0))
    whole = m.node("Cast", x, to=onnx.TensorProto.INT32)
    truth = m.node("Cast", whole, to=onnx.TensorProto.BOOL)
    return m.build(m.node("Cast", whole, to=onnx.TensorProto.FLOAT), m.node("Cast", truth, to=onnx.TensorProto.FLOAT))


@case
def whole_numbers() -> onnx.ModelProto:
    m = Model()
    x, y = m.input("x", 5, 33, kind="i"), m.input("y", 33, kind="i")
    chosen = m.node("Where", m.node("Equal", x, y), m.node("Add", x, m.constant("five", 5)), m.node("Mul", x, y))
    total = m.node("ReduceSum", chosen, m.constant("axes", [1]), keepdims=0)
    return m.build(m.node("Cast", chosen, to=onnx.TensorProto.FLOAT), m.node("Transpose", chosen), total)


@case
def largest_and_smallest_whole_numbers() -> onnx.ModelProto:
    m = Model()
    x = m.node("Cast", m.input("x", 9, 70, kind="i"), to=onnx.TensorProto.INT32)
    return m.build(m.node("ReduceMax", x, axes=[1]), m.node("ReduceMin", x, axes=[0], keepdims=0))


@case
def large_whole_numbers() -> onnx.ModelProto:
    m = Model()
    x = m.node("Cast", m.input("x", 5, 33, kind="i"), to=onnx.TensorProto.INT32)
    return m.build(m.node("Add", x, m.constant("odd", 16_777_217, "int32")))


@case
def words_by_their_numbers() -> onnx.ModelProto:
    m = Model()
    x = m.node("Gather", m.weight("table", 11, 24), m.input("ids", 2, 7, kind="i"))
    return m.build(m.node("MatMul", m.node("Add", x, m.weight("position", 7, 24)), m.weight("w", 24, 13)))


@case
def mask_of_whole_numbers() -> onnx.ModelProto:
    m = Model()
    mask = m.node("Cast", m.input("mask", 2, 1, 11, kind="i"), to=onnx.TensorProto.FLOAT)
    mask = m.node("Mul", m.node("Sub", m.constant("one", 1.0), mask), m.constant("low", -10000.0))
    return m.build(m.node("Softmax", m.node("Add", m.input("x", 2, 5, 11), mask)))


# Reductions ------------------------------------------------------------------------------------------------------


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
    "local response norm": one("LRN", (1, 13, 5, 6), size=5, alpha=0.1, beta=0.75, bias=1.0),
    "local response norm over an even number": one("LRN", (1, 13, 5, 6), size=4, alpha=0.1, beta=0.75, bias=1.0),
    "cumulative sum": one("CumSum", (5, 7), constants={1: np.int64(1)}),
}


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


@case
def layer_norm_by_hand() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 2, 7, 31)
    centred = m.node("Sub", x, m.node("ReduceMean", x, axes=[-1]))
    variance = m.node("ReduceMean", m.node("Mul", centred, centred), axes=[-1])
    y = m.node("Div", centred, m.node("Sqrt", m.node("Add", variance, m.constant("eps", 1e-5))))
    return m.build(m.node("Add", m.node("Mul", y, m.weight("g", 31)), m.weight("b", 31)))


# Pooling ---------------------------------------------------------------------------------------------------------

CASES |= {
    "max pool": one("MaxPool", (2, 13, 12, 10), kernel_shape=[2, 2], strides=[2, 2]),
    "max pool padded": one("MaxPool", (1, 9, 11, 13), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "max pool padded asymmetrically": one("MaxPool", (1, 5, 9, 8), kernel_shape=[4, 3], strides=[1, 2], pads=[0, 1, 3, 2]),
    "max pool ceil": one("MaxPool", (1, 5, 8, 10), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "max pool dilated": one("MaxPool", (1, 5, 12, 11), kernel_shape=[3, 2], dilations=[2, 3], pads=[1, 1, 1, 1]),
    "max pool large": one("MaxPool", (1, 5, 9, 9), kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]),
    "max pool 1d": one("MaxPool", (2, 5, 23), kernel_shape=[3], strides=[2]),
    "average pool": one("AveragePool", (2, 5, 8, 10), kernel_shape=[2, 2], strides=[2, 2]),
    "average pool padded": one("AveragePool", (1, 9, 11, 9), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "average pool asymmetric": one("AveragePool", (1, 5, 8, 9), kernel_shape=[3, 3], pads=[0, 1, 2, 0]),
    "average pool with pads counted": one(
        "AveragePool", (1, 5, 9, 9), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    "average pool ceil": one("AveragePool", (1, 5, 8, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "global average pool": one("GlobalAveragePool", (2, 13, 6, 7)),
    "global max pool": one("GlobalMaxPool", (2, 13, 6, 7)),
}  # fmt: skip

# Movement --------------------------------------------------------------------------------------------------------

CASES |= {
    "transpose": one("Transpose", (5, 7, 11), perm=[2, 0, 1]),
    "transpose last two": one("Transpose", (3, 17, 13), perm=[0, 2, 1]),
    "reshape merge": one("Reshape", (5, 3, 14), constants={1: [15, 14]}),
    "reshape split": one("Reshape", (6, 35), constants={1: [2, 3, 5, 7]}),
    "reshape across": one("Reshape", (4, 6), constants={1: [8, 3]}),
    "reshape of primes": one("Reshape", (7, 15), constants={1: [5, 21]}),
    "flatten": one("Flatten", (2, 3, 5, 7), axis=2),
    "squeeze": one("Squeeze", (2, 1, 13), constants={1: [1]}),
    "unsqueeze": one("Unsqueeze", (2, 13), constants={1: [0, 2]}),
    "expand": one("Expand", (7, 1), constants={1: [3, 7, 13]}),
    "tile": one("Tile", (5, 7), constants={1: [2, 3]}),
    "slice": one("Slice", (9, 23), constants={1: [1, 2], 2: [8, 19], 3: [0, 1]}),
    "slice stepped": one("Slice", (9, 23), constants={1: [1, 0], 2: [9, 23], 3: [0, 1], 4: [3, 2]}),
    "slice backwards": one("Slice", (9, 23), constants={1: [-1], 2: [-24], 3: [1], 4: [-2]}),
    "pad": one("Pad", (7, 13), constants={1: [1, 0, 2, 3], 2: np.float32(0.5)}),
    "pad negative": one("Pad", (7, 13), constants={1: [-1, 2, 2, -3]}),
    "pad reflect": one("Pad", (7, 9), constants={1: [1, 2, 2, 1]}, mode="reflect"),
    "pad edge": one("Pad", (7, 9), constants={1: [1, 2, 2, 1]}, mode="edge"),
    "depth to space": one("DepthToSpace", (1, 12, 5, 3), blocksize=2),
    "depth to space, columns first": one("DepthToSpace", (1, 12, 5, 3), blocksize=2, mode="CRD"),
    "space to depth": one("SpaceToDepth", (1, 3, 6, 10), blocksize=2),
    "gather one": one("Gather", (4, 7, 6), constants={1: 2}, axis=1),
    "gather some": one("Gather", (4, 7, 6), constants={1: [1, 2, 5, 3, 1]}, axis=1),
    "concat": one("Concat", (2, 3, 13), (2, 5, 13), (2, 1, 13), axis=1),
    "concat last": one("Concat", (5, 7), (5, 11), axis=-1),
    "resize linear": one(
        "Resize", (1, 5, 6, 7), constants={1: None, 2: np.array([1, 1, 2, 2], "f4")}, opset=18, mode="linear"
    ),
    "resize cubic": one(
        "Resize", (1, 5, 6, 7), constants={1: None, 2: None, 3: [1, 5, 9, 4]}, opset=18, mode="cubic",
        coordinate_transformation_mode="align_corners",
    ),
    "resize by primes": one(
        "Resize", (1, 3, 71, 2), constants={1: None, 2: None, 3: [1, 3, 97, 2]}, opset=18, mode="linear",
    ),
    "upsample nearest": one(
        "Resize", (1, 5, 4, 7), constants={1: None, 2: np.array([1, 1, 2, 2], "f4")}, mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    ),
}  # fmt: skip


@case
def split_in_three() -> onnx.ModelProto:
    m = Model()
    m.node("Split", m.input("x", 7, 29), m.constant("sizes", [5, 11, 13]), outputs=["a", "b", "c"], axis=1)
    return m.build("a", m.node("Relu", "b"), m.node("Exp", "c"))


@case
def padded_then_added() -> onnx.ModelProto:
    m = Model()
    padded = m.node("Pad", m.input("x", 5, 7), m.constant("p", [1, 0, 0, 2]))
    return m.build(m.node("Mul", padded, m.input("y", 6, 9)))


@case
def channel_shuffle() -> onnx.ModelProto:
    m = Model()
    x = m.node("Relu", m.node("Conv", m.input("x", 1, 8, 7, 5), m.weight("w", 8, 4, 1, 1), group=2))
    x = m.node("Transpose", m.node("Reshape", x, m.constant("s", [1, 2, 4, 7, 5])), perm=[0, 2, 1, 3, 4])
    x = m.node("Reshape", x, m.constant("t", [1, 8, 7, 5]))
    return m.build(m.node("Conv", x, m.weight("v", 8, 1, 3, 3), group=8, pads=[1, 1, 1, 1]))


@case
def squeeze_and_excitation() -> onnx.ModelProto:
    m = Model()
    x = m.node("HardSwish", m.node("Conv", m.input("x", 1, 5, 9, 9), m.weight("w", 12, 5, 3, 3), pads=[1, 1, 1, 1]))
    s = m.node("Relu", m.node("Conv", m.node("GlobalAveragePool", x), m.weight("down", 3, 12, 1, 1)))
    s = m.node("HardSigmoid", m.node("Conv", s, m.weight("up", 12, 3, 1, 1)))
    return m.build(m.node("Conv", m.node("Mul", x, s), m.weight("out", 7, 12, 1, 1)))


@case
def convolutions_with_a_shortcut() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 2, 6, 11, 9)
    y = m.node("Relu", m.node("Conv", x, m.weight("a", 10, 6, 3, 3), m.weight("ab", 10), pads=[1, 1, 1, 1]))
    y = m.node("Conv", y, m.weight("b", 6, 10, 3, 3), m.weight("bb", 6), pads=[1, 1, 1, 1])
    return m.build(m.node("MaxPool", m.node("Relu", m.node("Add", y, x)), kernel_shape=[2, 2], strides=[2, 2]))


# -----------------------------------------------------------------------------------------------------------------

TARGETS = {"stcp920": ("fp16", 2e-3), "tiny": ("as-is", 2e-5)}
"""Precision and tolerance, relative to the largest number of an output."""


@pytest.mark.parametrize(("name", "target"), sampled_pairs([*CASES], [*TARGETS], 2))
def test_any_plan_computes_the_graph(name: str, target: str) -> None:
    precision, tolerance = TARGETS[target]
    graph = import_onnx(CASES[name](), precision=precision)  # type: ignore[arg-type]
    machine = load_machine(target)
    seed = crc32(name.encode())
    check(graph, machine, random_plan(graph, machine, seed, longest=4, tiles=4), inputs_of(graph, seed), tolerance)
