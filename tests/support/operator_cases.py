"""ONNX models of a few nodes for each class of operator, by the name of what is special in them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from tests.support.onnx_models import Model

Case = Callable[[], onnx.ModelProto]
CASES: dict[str, Case] = {}


def case(build: Case) -> Case:
    CASES[build.__name__.replace("_", " ")] = build
    return build


def conv(*shape: int, out: int, kernel: tuple[int, ...] = (3, 3), bias: bool = True, **attributes: object) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        group = int(attributes.get("group", 1))  # type: ignore[call-overload]
        inputs = [m.input("x", *shape), m.weight("w", out, shape[1] // group, *kernel)]
        if bias:
            inputs.append(m.weight("b", out))
        return m.build(m.node("Conv", *inputs, **attributes))

    return build


CASES |= {
    "conv": conv(1, 5, 9, 9, out=7),
    "conv without bias": conv(1, 5, 9, 9, out=7, bias=False),
    "conv padded": conv(2, 4, 8, 8, out=6, pads=[1, 1, 1, 1]),
    "conv padded asymmetrically": conv(1, 4, 8, 9, out=6, pads=[0, 1, 2, 3]),
    "conv strided": conv(1, 4, 11, 11, out=6, strides=[2, 3], pads=[1, 1, 1, 1]),
    "conv dilated": conv(1, 4, 12, 12, out=6, dilations=[2, 3], pads=[2, 3, 2, 3]),
    "conv same upper": conv(1, 4, 9, 9, out=6, auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv same lower": conv(1, 4, 10, 10, out=6, auto_pad="SAME_LOWER", strides=[2, 2]),
    "conv pointwise": conv(2, 8, 5, 5, out=6, kernel=(1, 1)),
    "conv patches": conv(1, 3, 12, 12, out=8, kernel=(4, 4), strides=[4, 4]),
    "conv grouped": conv(1, 12, 6, 6, out=18, group=3, pads=[1, 1, 1, 1]),
    "conv depthwise": conv(2, 8, 7, 7, out=8, group=8, pads=[1, 1, 1, 1], strides=[2, 2]),
    "conv depthwise with multiplier": conv(1, 4, 7, 7, out=12, group=4, pads=[1, 1, 1, 1]),
    "conv 1d": conv(1, 4, 15, out=6, kernel=(3,), pads=[1, 1], strides=[2]),
    "conv 3d": conv(1, 2, 5, 6, 7, out=4, kernel=(3, 3, 3), pads=[1, 1, 1, 1, 1, 1]),
}


def transposed(
    *shape: int, out: int, kernel: tuple[int, ...] = (3, 3), bias: bool = True, **attributes: object
) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        group = int(attributes.get("group", 1))  # type: ignore[call-overload]
        inputs = [m.input("x", *shape), m.weight("w", shape[1], out // group, *kernel)]
        if bias:
            inputs.append(m.weight("b", out))
        return m.build(m.node("ConvTranspose", *inputs, **attributes))

    return build


CASES |= {
    "transposed": transposed(1, 7, 6, 5, out=9, kernel=(2, 2), strides=[2, 2]),
    "transposed dense": transposed(1, 5, 6, 6, out=4, pads=[1, 0, 1, 2]),
    "transposed padded": transposed(2, 6, 7, 6, out=8, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    "transposed without bias": transposed(
        1, 3, 5, 4, out=6, kernel=(4, 4), strides=[2, 2], bias=False, pads=[1, 1, 1, 1]
    ),
    "transposed asymmetrically": transposed(1, 3, 5, 4, out=4, kernel=(5, 4), strides=[3, 2], pads=[0, 2, 3, 1]),
    "transposed with gaps": transposed(1, 3, 4, 5, out=4, kernel=(2, 1), strides=[3, 2], output_padding=[1, 0]),
    "transposed beyond the kernel": transposed(1, 3, 6, 5, out=4, kernel=(2, 3), strides=[2, 2], pads=[4, 3, 3, 4]),
    "transposed dilated": transposed(1, 4, 5, 6, out=3, strides=[2, 3], dilations=[2, 2], pads=[1, 0, 0, 2]),
    "transposed dilated alone": transposed(1, 4, 5, 6, out=6, dilations=[2, 2], pads=[1, 0, 0, 2], group=2),
    "transposed dilated 3d": transposed(1, 3, 2, 4, 3, out=6, kernel=(2, 3, 1), dilations=[1, 2, 2], group=3),
    "transposed grouped": transposed(1, 6, 4, 5, out=8, strides=[2, 2], group=2),
    "transposed depthwise": transposed(1, 6, 5, 5, out=6, kernel=(4, 4), group=6, strides=[2, 2], pads=[1, 1, 1, 1]),
    "transposed same upper": transposed(1, 4, 5, 6, out=3, strides=[2, 2], auto_pad="SAME_UPPER"),
    "transposed same lower": transposed(1, 4, 5, 6, out=3, strides=[2, 2], auto_pad="SAME_LOWER"),
    "transposed 1d": transposed(1, 4, 9, out=3, kernel=(4,), strides=[2], pads=[1, 1]),
    "transposed 3d": transposed(1, 2, 3, 4, 3, out=3, kernel=(3, 2, 3), strides=[2, 2, 1], pads=[1, 0, 0, 0, 0, 1]),
}


@case
def transposed_dilated_by_an_input() -> onnx.ModelProto:
    m = Model()
    x, w = m.input("x", 1, 4, 5, 6), m.input("w", 4, 3, 3, 2)
    return m.build(m.node("ConvTranspose", x, w, dilations=[2, 2]))


@case
def two_convolutions_and_a_residual() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 1, 4, 8, 8)
    a = m.node("Relu", m.node("Conv", x, m.weight("w", 4, 4, 3, 3), m.weight("b", 4), pads=[1, 1, 1, 1]))
    b = m.node("Conv", a, m.weight("v", 4, 4, 3, 3), pads=[1, 1, 1, 1])
    return m.build(m.node("Relu", m.node("Add", b, x)))


@case
def pad_before_convolution() -> onnx.ModelProto:
    m = Model()
    x = m.node("Pad", m.input("x", 1, 4, 8, 8), m.constant("p", [0, 0, 1, 2, 0, 0, 1, 0]))
    return m.build(m.node("Conv", x, m.weight("w", 4, 4, 3, 3), pads=[1, 1, 1, 1]))


@case
def transposed_image() -> onnx.ModelProto:
    m = Model()
    x = m.node("Transpose", m.input("x", 1, 8, 8, 4), perm=[0, 3, 1, 2])
    y = m.node("Conv", x, m.weight("w", 6, 4, 3, 3), pads=[1, 1, 1, 1])
    return m.build(m.node("Transpose", y, perm=[0, 2, 3, 1]))


@case
def patches_to_tokens() -> onnx.ModelProto:
    m = Model()
    x = m.node("Conv", m.input("x", 1, 3, 8, 8), m.weight("w", 6, 3, 4, 4), m.weight("b", 6), strides=[4, 4])
    x = m.node("Transpose", m.node("Reshape", x, m.constant("s", [1, 6, 4])), perm=[0, 2, 1])
    x = m.node("Concat", m.weight("cls", 1, 1, 6), x, axis=1)
    return m.build(m.node("MatMul", x, m.weight("v", 6, 5)))


# Batch normalisation ---------------------------------------------------------------------------------------------


def norm(m: Model, x: str, channels: int, name: str = "bn") -> str:
    parameters = [m.weight(f"{name}.{p}", channels, positive=p == "var") for p in ("scale", "shift", "mean", "var")]
    return m.node("BatchNormalization", x, *parameters, name=name)


@case
def batch_norm_after_convolution() -> onnx.ModelProto:
    m = Model()
    x = m.node("Conv", m.input("x", 1, 4, 8, 8), m.weight("w", 6, 4, 3, 3))
    return m.build(m.node("Relu", norm(m, x, 6)))


@case
def batch_norm_after_convolution_with_bias() -> onnx.ModelProto:
    m = Model()
    x = m.node("Conv", m.input("x", 1, 4, 8, 8), m.weight("w", 6, 4, 3, 3), m.weight("b", 6))
    x = norm(m, x, 6)
    x = m.node("Add", m.node("Mul", x, m.weight("s", 6, 1, 1)), m.weight("t", 1, 6, 1, 1))
    return m.build(x)


@case
def batch_norm_alone() -> onnx.ModelProto:
    m = Model()
    return m.build(norm(m, m.input("x", 2, 5, 4, 4), 5))


@case
def batch_norm_of_features() -> onnx.ModelProto:
    m = Model()
    return m.build(norm(m, m.input("x", 3, 10), 10))


@case
def batch_norm_after_pool() -> onnx.ModelProto:
    m = Model()
    x = m.node("MaxPool", m.input("x", 1, 6, 8, 8), kernel_shape=[2, 2], strides=[2, 2])
    x = m.node("Relu", norm(m, norm(m, x, 6), 6, "second"))
    return m.build(m.node("Conv", x, m.weight("w", 4, 6, 1, 1)))


@case
def shared_convolution_is_not_scaled() -> onnx.ModelProto:
    m = Model()
    x = m.node("Conv", m.input("x", 1, 4, 6, 6), m.weight("w", 4, 4, 1, 1))
    return m.build(m.node("Add", norm(m, x, 4), x))


# Matrix products -------------------------------------------------------------------------------------------------


@case
def matmul() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("MatMul", m.input("x", 7, 11), m.weight("w", 11, 5)))


@case
def matmul_of_batches() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("MatMul", m.input("x", 2, 3, 7, 11), m.input("y", 2, 3, 11, 5)))


@case
def matmul_broadcast() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("MatMul", m.input("x", 2, 3, 7, 11), m.input("y", 3, 11, 5)))


@case
def matmul_constant_right() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Add", m.node("MatMul", m.input("x", 2, 7, 11), m.weight("w", 11, 5)), m.weight("b", 5)))


@case
def matmul_constant_left() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("MatMul", m.weight("w", 6, 7), m.input("x", 2, 7, 5)))


@case
def matmul_vectors() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("MatMul", m.input("x", 11), m.weight("w", 11, 5)))


@case
def matmul_transposed() -> onnx.ModelProto:
    m = Model()
    y = m.node("Transpose", m.input("y", 2, 5, 11), perm=[0, 2, 1])
    return m.build(m.node("MatMul", m.input("x", 2, 7, 11), y))


@case
def matmul_of_a_padded_right() -> onnx.ModelProto:
    m = Model()
    y = m.node("Pad", m.input("y", 2, 9, 5), m.constant("p", [0, 1, 0, 0, 1, 2]))
    return m.build(m.node("MatMul", m.input("x", 2, 7, 11), y))


@case
def matmul_of_a_padded_left() -> onnx.ModelProto:
    m = Model()
    x = m.node("Pad", m.input("x", 2, 7, 9), m.constant("p", [0, 0, 1, 0, 0, 1]))
    return m.build(m.node("MatMul", x, m.input("y", 2, 11, 5)))


@case
def matmul_of_weights_and_a_padded_right() -> onnx.ModelProto:
    m = Model()
    y = m.node("Pad", m.input("y", 9, 5), m.constant("p", [1, 0, 1, 2]))
    return m.build(m.node("MatMul", m.weight("w", 7, 11), y))


@case
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


@case
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


@case
def flattened_image_to_features() -> onnx.ModelProto:
    m = Model()
    x = m.node("MaxPool", m.node("Conv", m.input("x", 1, 3, 8, 8), m.weight("w", 6, 3, 3, 3)), kernel_shape=[2, 2])
    x = m.node("Flatten", x)
    return m.build(m.node("Gemm", x, m.weight("v", 10, 150), m.weight("b", 10), transB=1))


# Element-wise ----------------------------------------------------------------------------------------------------


def unary(op: str, positive: bool = False, **attributes: object) -> Case:
    def build() -> onnx.ModelProto:
        m = Model(opset=18)
        x = m.input("x", 3, 4, 5)
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


UNARY = (
    *("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Exp", "Erf", "Tanh", "Sigmoid", "Sin", "Cos", "Identity"),
    *("Relu", "LeakyRelu", "ThresholdedRelu", "Elu", "Selu", "Celu", "Softplus", "Softsign", "HardSigmoid"),
    *("HardSwish", "Mish"),
)
CASES |= {
    **{op.lower(): unary(op) for op in UNARY},
    **{op.lower(): unary(op, positive=True) for op in ("Log", "Sqrt", "Reciprocal", "Tan")},
    "add broadcast": binary("Add", (2, 3, 4), (3, 1)),
    "sub scalar": binary("Sub", (2, 3, 4), ()),
    "mul": binary("Mul", (2, 3, 4), (2, 3, 4)),
    "div broadcast": binary("Div", (2, 3, 4), (4,)),
    "div larger": binary("Div", (4,), (2, 3, 4)),
    "min": binary("Min", (2, 3, 4), (2, 1, 4)),
    "max": binary("Max", (2, 3, 4), (1, 3, 4)),
}


@case
def gelu() -> onnx.ModelProto:
    m = Model()
    x = m.node("MatMul", m.input("x", 6, 8), m.weight("w", 8, 12))
    e = m.node("Erf", m.node("Div", x, m.constant("r", np.float32(np.sqrt(2)))))
    y = m.node("Mul", m.node("Mul", x, m.node("Add", e, m.constant("one", 1.0))), m.constant("half", 0.5))
    return m.build(y)


@case
def clip() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Clip", m.input("x", 3, 5), m.constant("lo", -0.5), m.constant("hi", 0.25)))


@case
def clip_above() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Clip", m.input("x", 3, 5), "", m.constant("hi", 0.25)))


@case
def powers() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 3, 5)
    y = m.node("Pow", x, m.constant("two", 2.0))
    return m.build(m.node("Pow", m.node("Add", y, m.constant("one", 1.0)), m.constant("p", 0.75)))


@case
def prelu() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("PRelu", m.input("x", 1, 6, 4, 4), m.weight("slope", 6, 1, 1)))


@case
def where() -> onnx.ModelProto:
    m = Model()
    x, y = m.input("x", 3, 5), m.input("y", 3, 5)
    return m.build(m.node("Where", m.node("Less", x, y), m.node("Mul", x, y), y))


@case
def masks() -> onnx.ModelProto:
    m = Model()
    mask = m.node("Cast", m.input("mask", 1, 5, kind="i"), to=onnx.TensorProto.FLOAT)
    mask = m.node("Mul", m.node("Sub", m.constant("one", 1.0), mask), m.constant("low", -10000.0))
    return m.build(m.node("Softmax", m.node("Add", m.input("x", 3, 5), mask)))


@case
def several_terms() -> onnx.ModelProto:
    m = Model()
    x, y, z = (m.input(n, 3, 5) for n in "xyz")
    return m.build(m.node("Sum", x, y, z), m.node("Max", x, y, z))


@case
def comparison_to_number() -> onnx.ModelProto:
    m = Model()
    x = m.node("GreaterOrEqual", m.input("x", 3, 5), m.constant("zero", 0.0))
    return m.build(m.node("Cast", m.node("Not", x), to=onnx.TensorProto.FLOAT))


@case
def truncation_and_back() -> onnx.ModelProto:
    m = Model()
    x = m.node("Cast", m.node("Mul", m.input("x", 3, 5), m.constant("ten", 10.0)), to=onnx.TensorProto.INT32)
    return m.build(m.node("Cast", x, to=onnx.TensorProto.FLOAT))


@case
def cast_to_bytes() -> onnx.ModelProto:
    m = Model()
    x = m.node("Mul", m.input("x", 3, 5), m.constant("ten", 10.0))
    y = m.node("Add", m.node("Cast", x, to=onnx.TensorProto.INT8), m.constant("three", 3, "int8"))
    return m.build(y, m.node("Cast", m.node("Abs", x), to=onnx.TensorProto.UINT8))


@case
def mask_of_whole_numbers_in_a_new_shape() -> onnx.ModelProto:
    m = Model()
    mask = m.node("Unsqueeze", m.input("mask", 2, 5, kind="i"), m.constant("axes", [1]))
    mask = m.node("Cast", m.node("Transpose", mask, perm=[2, 1, 0]), to=onnx.TensorProto.FLOAT)
    return m.build(m.node("Add", mask, m.input("x", 5, 3, 2)))


@case
def comparison_of_whole_numbers() -> onnx.ModelProto:
    m = Model()
    x, y = m.input("x", 3, 5, kind="i"), m.input("y", 5, kind="i")
    return m.build(m.node("Cast", m.node("Or", m.node("Equal", x, y), m.node("Less", x, y)), to=onnx.TensorProto.FLOAT))


# Reductions ------------------------------------------------------------------------------------------------------


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
CASES |= {f"softmax {axis}": unary("Softmax", axis=axis) for axis in (0, 1, -1)}
CASES |= {"log softmax": unary("LogSoftmax", axis=-1)}


@case
def softmax_of_old_models() -> onnx.ModelProto:
    m = Model(opset=11)
    return m.build(m.node("Softmax", m.input("x", 2, 3, 4), axis=1))


@case
def layer_norm() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("LayerNormalization", m.input("x", 2, 6, 16), m.weight("g", 16), m.weight("b", 16)))


@case
def layer_norm_with_statistics() -> onnx.ModelProto:
    m = Model()
    inputs = m.input("x", 2, 6, 16), m.weight("g", 16), m.weight("b", 16)
    m.node("LayerNormalization", *inputs, outputs=["y", "mean", "deviation"], name="norm")
    return m.build("y", "mean", "deviation")


@case
def infinities() -> onnx.ModelProto:
    m = Model()
    x = m.node("Div", m.constant("one", 1.0), m.node("Cast", m.input("x", 3, 5, kind="i"), to=1))
    return m.build(m.node("IsInf", x), m.node("IsNaN", x))


@case
def layer_norm_by_hand() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 2, 6, 16)
    centred = m.node("Sub", x, m.node("ReduceMean", x, axes=[-1]))
    variance = m.node("ReduceMean", m.node("Mul", centred, centred), axes=[-1])
    y = m.node("Div", centred, m.node("Sqrt", m.node("Add", variance, m.constant("eps", 1e-5))))
    return m.build(m.node("Add", m.node("Mul", y, m.weight("g", 16)), m.weight("b", 16)))


@case
def rms_norm_by_hand() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 2, 6, 16)
    square = m.node("ReduceMean", m.node("Pow", x, m.constant("two", 2.0)), axes=[-1])
    y = m.node("Mul", x, m.node("Reciprocal", m.node("Sqrt", m.node("Add", square, m.constant("eps", 1e-5)))))
    return m.build(m.node("Mul", y, m.weight("g", 16)))


@case
def instance_norm() -> onnx.ModelProto:
    m = Model()
    parameters = m.weight("g", 6), m.weight("b", 6)
    return m.build(m.node("InstanceNormalization", m.input("x", 2, 6, 5, 5), *parameters))


def local_response(size: int, batch: int = 1) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        return m.build(m.node("LRN", m.input("x", batch, 9, 5, 4), size=size, alpha=0.1, beta=0.6, bias=1.5))

    return build


CASES |= {f"local response norm {size}": local_response(size) for size in (1, 5, 9)}


# Pooling ---------------------------------------------------------------------------------------------------------


def pool(op: str, *shape: int, **attributes: object) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        return m.build(m.node(op, m.input("x", *shape), **attributes))

    return build


CASES |= {
    "max pool": pool("MaxPool", 1, 5, 8, 8, kernel_shape=[2, 2], strides=[2, 2]),
    "max pool padded": pool("MaxPool", 1, 5, 9, 9, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "max pool ceil": pool("MaxPool", 1, 5, 8, 8, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "max pool overlapping": pool("MaxPool", 1, 5, 8, 8, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]),
    "max pool 1d": pool("MaxPool", 1, 5, 11, kernel_shape=[3], strides=[2]),
    "average pool": pool("AveragePool", 1, 5, 8, 8, kernel_shape=[2, 2], strides=[2, 2]),
    "average pool padded": pool("AveragePool", 1, 5, 9, 9, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "average pool asymmetric": pool("AveragePool", 1, 5, 8, 8, kernel_shape=[3, 3], pads=[0, 1, 2, 0]),
    "average pool with pads counted": pool(
        "AveragePool", 1, 5, 9, 9, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    "average pool ceil": pool("AveragePool", 1, 5, 8, 8, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "global average pool": pool("GlobalAveragePool", 2, 5, 6, 7),
    "global max pool": pool("GlobalMaxPool", 2, 5, 6, 7),
}


@case
def squeeze_and_excitation() -> onnx.ModelProto:
    m = Model()
    x = m.node("Relu", m.node("Conv", m.input("x", 1, 4, 8, 8), m.weight("w", 8, 4, 3, 3)))
    s = m.node("Relu", m.node("Conv", m.node("GlobalAveragePool", x), m.weight("down", 2, 8, 1, 1)))
    s = m.node("Sigmoid", m.node("Conv", s, m.weight("up", 8, 2, 1, 1)))
    return m.build(m.node("Mul", x, s))


# Movement --------------------------------------------------------------------------------------------------------


def move(op: str, *shape: int, constants: tuple[object, ...] = (), **attributes: object) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        inputs = [m.input("x", *shape), *(m.constant(f"c{i}", c) for i, c in enumerate(constants))]
        return m.build(m.node(op, *inputs, **attributes))

    return build


CASES |= {
    "transpose": move("Transpose", 2, 3, 4, perm=[2, 0, 1]),
    "reshape merge": move("Reshape", 2, 3, 4, constants=([6, 4],)),
    "reshape split": move("Reshape", 6, 8, constants=([2, 3, 4, 2],)),
    "reshape across": move("Reshape", 4, 6, constants=([8, 3],)),
    "reshape without common factors": move("Reshape", 2, 9, constants=([3, 6],)),
    "reshape of primes": move("Reshape", 2, 15, constants=([5, 6],)),
    "flatten": move("Flatten", 2, 3, 4, axis=1),
    "squeeze": move("Squeeze", 2, 1, 4, constants=([1],)),
    "unsqueeze": move("Unsqueeze", 2, 4, constants=([0, 2],)),
    "expand": move("Expand", 3, 1, constants=([2, 3, 4],)),
    "slice": move("Slice", 5, 8, constants=([1, 2], [4, 7], [0, 1])),
    "slice stepped": move("Slice", 5, 9, constants=([0], [9], [1], [2])),
    "slice backwards": move("Slice", 5, 9, constants=([8], [-10], [1], [-1])),
    "tile": move("Tile", 2, 3, constants=([2, 2],)),
    "pad": move("Pad", 3, 4, constants=([1, 0, 2, 1], np.float32(0.5))),
    "pad reflect": move("Pad", 5, 6, constants=([1, 2, 2, 1],), mode="reflect"),
    "pad edge": move("Pad", 5, 6, constants=([1, 2, 2, 1],), mode="edge"),
    "depth to space": move("DepthToSpace", 1, 8, 3, 3, blocksize=2),
    "space to depth": move("SpaceToDepth", 1, 2, 6, 6, blocksize=2),
    "gather one": move("Gather", 4, 5, 6, constants=(2,), axis=1),
    "gather some": move("Gather", 4, 7, 6, constants=([1, 2, 5, 3, 1],), axis=1),
    "upsample nearest": move(
        "Resize", 1, 2, 4, 5, constants=(np.zeros(0, "f4"), np.array([1, 1, 2, 2], "f4")), mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    ),
}  # fmt: skip


def resize(*shape: int, scales: tuple[float, ...] = (), sizes: tuple[int, ...] = (), **attributes: object) -> Case:
    def build() -> onnx.ModelProto:
        m = Model(opset=18)
        nothing = m.constant("nothing", np.zeros(0, "f4"))
        extent = [nothing, m.constant("sizes", sizes)] if sizes else [m.constant("scales", np.array(scales, "f4"))]
        return m.build(m.node("Resize", m.input("x", *shape), nothing, *extent, **attributes))

    return build


CASES |= {
    **{
        f"resize {mode} {where} {'x'.join(map(str, sizes))}": resize(
            1, 3, 6, 7, sizes=(1, 3, *sizes), mode=mode, coordinate_transformation_mode=where
        )
        for mode in ("linear", "cubic")
        for where in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
        for sizes in ((12, 14), (9, 21), (3, 5), (1, 11))
    },
    "resize rows": resize(2, 3, 6, 7, scales=(1, 1, 3, 1), mode="linear"),
    "resize up and down": resize(
        2, 4, 6, 8, scales=(1, 1, 2, 0.5), mode="linear", coordinate_transformation_mode="asymmetric"
    ),
    "resize some axes": resize(2, 4, 6, 7, scales=(2, 2), mode="linear", axes=[2, 3]),
    "resize 1d": resize(1, 3, 8, scales=(1, 1, 1.5), mode="linear"),
    "resize 3d": resize(1, 2, 3, 4, 5, scales=(1, 1, 2, 2, 2), mode="linear"),
    "resize by primes": resize(1, 2, 97, 3, sizes=(1, 2, 151, 3), mode="linear"),
    "resize cubic sharply": resize(1, 2, 6, 7, scales=(1, 1, 2, 2), mode="cubic", cubic_coeff_a=-0.5),
    "resize nearest by sizes": resize(1, 2, 6, 7, sizes=(1, 2, 12, 21), mode="nearest"),
}


@case
def concatenate() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Concat", m.input("x", 2, 3, 4), m.input("y", 2, 5, 4), m.weight("z", 2, 1, 4), axis=1))


@case
def split_in_three() -> onnx.ModelProto:
    m = Model()
    m.node("Split", m.input("x", 2, 9), m.constant("sizes", [2, 3, 4]), outputs=["a", "b", "c"], axis=1)
    return m.build("a", m.node("Relu", "b"), "c")


@case
def channel_shuffle() -> onnx.ModelProto:
    m = Model()
    x = m.node("Relu", m.node("Conv", m.input("x", 1, 8, 5, 5), m.weight("w", 8, 4, 1, 1), group=2))
    x = m.node("Transpose", m.node("Reshape", x, m.constant("s", [1, 2, 4, 5, 5])), perm=[0, 2, 1, 3, 4])
    x = m.node("Reshape", x, m.constant("t", [1, 8, 5, 5]))
    return m.build(m.node("Conv", x, m.weight("v", 8, 1, 3, 3), group=8, pads=[1, 1, 1, 1]))


@case
def shapes_computed_in_the_graph() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 2, 3, 4)
    head = m.node("Slice", m.node("Shape", x), m.constant("from", [0]), m.constant("to", [1]))
    shape = m.node("Concat", head, m.constant("rest", [-1]), axis=0)
    return m.build(m.node("Relu", m.node("Reshape", x, shape)))


@case
def outputs_of_all_kinds() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 1, 4, 6, 6)
    y = m.node("Conv", x, m.weight("w", 5, 4, 3, 3))
    z = m.node("Relu", y)
    return m.build(y, z, m.node("Identity", x), m.node("Conv", z, m.weight("v", 2, 5, 1, 1)))


@case
def constant_output() -> onnx.ModelProto:
    m = Model()
    m.node("Add", m.weight("a", 3, 20), m.weight("b", 3, 20), name="c")
    return m.build("c", m.node("Relu", m.input("x", 2)))
