"""Random quantised networks: in QDQ form, of operators on integers, and as ONNX Runtime's quantiser writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime

from tests.support.exact_integers import run_exactly
from tests.support.onnx_models import Model

TYPES = ("int8", "uint8")


@dataclass(frozen=True)
class Kind:
    """How a network is quantised: types of activations and weights, whether their zero points are that of the range,
    and whether weights have a scale for each channel."""

    activations: str = "uint8"
    weights: str = "int8"
    symmetric: bool = False
    symmetric_weights: bool = True
    per_channel: bool = False

    def __str__(self) -> str:
        shape = "channel" if self.per_channel else "tensor"
        zeros = f"{'' if self.symmetric else 'a'}sym {'' if self.symmetric_weights else 'a'}sym"
        return f"{self.activations} {self.weights} {zeros} per {shape}"


KINDS = [
    Kind(),
    Kind("int8", "int8", symmetric=True, per_channel=True),
    Kind("int8", "int8", per_channel=True),
    Kind("uint8", "uint8"),
    Kind("uint8", "uint8", symmetric_weights=False),
    Kind("int8", "uint8", symmetric_weights=False, per_channel=True),
    Kind("uint8", "int8", symmetric_weights=False),
]


class Quantised(Model):
    """A model under construction whose tensors are rounded to integers and back."""

    def __init__(self, kind: Kind, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.kind = kind

    def zero(self, dtype: str, *, symmetric: bool) -> int:
        middle = 0 if dtype == "int8" else 128
        return middle if symmetric else middle + int(self.rng.integers(-40, 40))

    def scheme(self, name: str, scale: float, zero: int | None = None) -> tuple[str, str]:
        """Scale and zero point of an activation."""
        dtype = self.kind.activations
        zero = self.zero(dtype, symmetric=self.kind.symmetric) if zero is None else zero
        return self.constant(f"{name}.scale", scale, "float32"), self.constant(f"{name}.zero", zero, dtype)

    def rounded(self, x: str, scale: float, zero: int | None = None) -> str:
        """x, rounded to integers and back."""
        scheme = self.scheme(f"q{len(self.nodes)}", scale, zero)
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, *scheme), *scheme)

    def quantised_weight(self, name: str, *shape: int, axis: int) -> tuple[str, str, str]:
        """Random integers, with the names of scales and zero points."""
        dtype = self.kind.weights
        info = np.iinfo(dtype)
        channels = (shape[axis],) if self.kind.per_channel else ()
        scales = self.rng.uniform(0.005, 0.02, channels)
        zero = self.zero(dtype, symmetric=self.kind.symmetric_weights)
        if not self.kind.symmetric_weights and dtype == "uint8":
            zero = 7
        return (
            self.constant(name, self.rng.integers(info.min, info.max + 1, shape), dtype),
            self.constant(f"{name}.scale", scales, "float32"),
            self.constant(f"{name}.zero", np.full(channels, zero), dtype),
        )

    def real_weight(self, name: str, *shape: int, axis: int) -> str:
        return self.node("DequantizeLinear", *self.quantised_weight(name, *shape, axis=axis), axis=axis)

    def conv(self, x: str, name: str, shape: tuple[int, ...], *, bias: bool = True, **attributes: object) -> str:
        inputs = [x, self.real_weight(f"{name}.w", *shape, axis=0)]
        if bias:
            inputs.append(self.weight(f"{name}.b", shape[0]))
        return self.node("Conv", *inputs, **attributes)


Build = Callable[[Kind, int], onnx.ModelProto]

QDQ: dict[str, Build] = {}
"""Networks whose input and output are floats."""

INTEGER: dict[str, Build] = {}
"""Networks of operators that are defined on integers."""


def qdq(build: Build) -> Build:
    QDQ[build.__name__.replace("_", " ")] = build
    return build


def integer(build: Build) -> Build:
    INTEGER[build.__name__.replace("_", " ")] = build
    return build


def _convolution(
    *shape: int, out: int, kernel: tuple[int, ...] = (3, 3), relu: str = "", **attributes: object
) -> Build:
    def build(kind: Kind, seed: int) -> onnx.ModelProto:
        m = Quantised(kind, seed)
        x = m.rounded(m.input("x", *shape), 0.03)
        group = int(attributes.get("group", 1))  # type: ignore[call-overload]
        y = m.conv(x, "conv", (out, shape[1] // group, *kernel), **attributes)
        zero = None
        if relu == "Relu":
            y, zero = m.node("Relu", y), int(np.iinfo(kind.activations).min)
        elif relu == "Clip":
            y = m.node("Clip", y, m.constant("low", 0.0, "float32"), m.constant("high", 6.0, "float32"))
        return m.build(m.rounded(y, 0.1, zero))

    return build


QDQ |= {
    "conv": _convolution(1, 5, 9, 9, out=7),
    "conv padded": _convolution(2, 4, 8, 8, out=6, pads=[1, 1, 1, 1], relu="Relu"),
    "conv padded asymmetrically": _convolution(1, 4, 8, 9, out=6, pads=[0, 1, 2, 3], relu="Clip"),
    "conv strided": _convolution(1, 4, 11, 11, out=6, strides=[2, 3], pads=[1, 1, 1, 1]),
    "conv same": _convolution(1, 4, 9, 9, out=6, auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv grouped": _convolution(1, 12, 6, 6, out=18, group=3, pads=[1, 1, 1, 1]),
    "conv depthwise": _convolution(2, 8, 7, 7, out=8, group=8, pads=[1, 1, 1, 1], relu="Relu"),
    "conv pointwise": _convolution(2, 8, 5, 5, out=6, kernel=(1, 1)),
    "conv 1d": _convolution(1, 4, 15, out=6, kernel=(3,), pads=[1, 1], strides=[2]),
}


@qdq
def gemm(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    x = m.rounded(m.input("x", 5, 12), 0.03)
    y = m.node("Gemm", x, m.real_weight("w", 9, 12, axis=0), m.weight("b", 9), transB=1)
    return m.build(m.rounded(m.node("Relu", y), 0.1))


@qdq
def gemm_of_all_attributes(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    x, attributes = m.rounded(m.input("x", 12, 5), 0.03), {"alpha": -0.7, "beta": 2.5, "transA": 1}
    y = m.node("Gemm", x, m.real_weight("w", 12, 9, axis=1), m.weight("b", 9), **attributes)
    z = m.node("Gemm", x, m.real_weight("v", 12, 9, axis=1), **attributes)
    z = m.node("Add", z, m.weight("c", 9))
    return m.build(m.rounded(m.node("Concat", m.rounded(y, 0.1, 3), m.rounded(z, 0.1, 3), axis=1), 0.1, 3))


@qdq
def matmul_with_bias(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    x = m.rounded(m.input("x", 2, 5, 12), 0.03)
    y = m.node("MatMul", x, m.real_weight("w", 12, 9, axis=1))
    return m.build(m.rounded(m.node("Add", m.weight("b", 9), y), 0.1))


@qdq
def matmul_of_a_batch(kind: Kind, seed: int) -> onnx.ModelProto:
    """Weights for each sample, as many samples as rows."""
    m = Quantised(kind, seed)
    x = m.rounded(m.input("x", 5, 5, 12), 0.03)
    return m.build(m.rounded(m.node("MatMul", x, m.real_weight("w", 5, 12, 9, axis=2)), 0.1))


@qdq
def product_of_activations(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    a, b = m.rounded(m.input("a", 2, 3, 7, 8), 0.03), m.rounded(m.input("b", 2, 3, 5, 8), 0.02)
    y = m.node("MatMul", a, m.node("Transpose", b, perm=[0, 1, 3, 2]))
    return m.build(m.rounded(m.node("Softmax", m.rounded(y, 0.1)), 1 / 256, 0 if kind.activations == "uint8" else -128))


@qdq
def elementwise(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    a, b = m.rounded(m.input("a", 2, 6, 5), 0.03), m.rounded(m.input("b", 2, 6, 5), 0.02)
    total = m.rounded(m.node("Add", a, b), 0.04)
    return m.build(m.rounded(m.node("Mul", total, m.rounded(m.node("Sigmoid", a), 1 / 256)), 0.03))


@qdq
def movements(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    a, b = m.rounded(m.input("a", 2, 6, 8), 0.03, 3), m.rounded(m.input("b", 2, 6, 4), 0.02, 5)
    joined = m.rounded(m.node("Concat", a, b, axis=2), 0.03, 3)
    turned = m.node("Transpose", joined, perm=[0, 2, 1])
    flat = m.node("Reshape", turned, m.constant("shape", [2, 72], "int64"))
    return m.build(m.rounded(flat, 0.03, 3))


@qdq
def residual_network(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    least = int(np.iinfo(kind.activations).min)
    x = m.rounded(m.input("x", 1, 3, 16, 16), 0.03)
    x = m.rounded(m.node("Relu", m.conv(x, "stem", (8, 3, 3, 3), pads=[1, 1, 1, 1])), 0.05, least)
    x = m.rounded(m.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 0.05, least)
    y = m.rounded(m.node("Relu", m.conv(x, "a", (8, 8, 3, 3), pads=[1, 1, 1, 1])), 0.05, least)
    y = m.rounded(m.conv(y, "b", (8, 8, 1, 1)), 0.1)
    x = m.rounded(m.node("Relu", m.node("Add", x, y)), 0.1, least)
    x = m.rounded(m.node("GlobalAveragePool", x), 0.05, least)
    x = m.rounded(m.node("Flatten", x), 0.05, least)
    return m.build(m.rounded(m.node("Gemm", x, m.real_weight("w", 10, 8, axis=0), m.weight("bias", 10), transB=1), 0.1))


def _linear(m: Quantised, name: str, scale: float) -> tuple[str, str]:
    return m.scheme(name, scale)


@integer
def qlinearconv(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    x = m.input("x", 2, 4, 9, 8, kind=kind.activations)
    weight = m.quantised_weight("w", 6, 4, 3, 3, axis=0)
    bias = m.constant("b", m.rng.integers(-2000, 2000, 6), "int32")
    pads = [1, 0, 2, 1]
    return m.build(m.node("QLinearConv", x, *_linear(m, "x", 0.03), *weight, *_linear(m, "y", 0.2), bias, pads=pads))


@integer
def qlinearmatmul(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    x = m.input("x", 2, 7, 16, kind=kind.activations)
    weight = m.quantised_weight("w", 16, 5, axis=1)
    return m.build(m.node("QLinearMatMul", x, *_linear(m, "x", 0.03), *weight, *_linear(m, "y", 0.2)))


@integer
def matmulinteger(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    x = m.input("x", 2, 7, 16, kind=kind.activations)
    weight, _, zero = m.quantised_weight("w", 16, 5, axis=1)
    return m.build(m.node("MatMulInteger", x, weight, _linear(m, "x", 0.03)[1], zero))


@integer
def matmulinteger_of_activations(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    x, y = m.input("x", 2, 7, 16, kind=kind.activations), m.input("y", 2, 16, 3, kind=kind.activations)
    return m.build(m.node("MatMulInteger", x, y, _linear(m, "x", 0.03)[1], _linear(m, "y", 0.03)[1]))


@integer
def convinteger(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    x = m.input("x", 2, 4, 9, 8, kind=kind.activations)
    weight, _, zero = m.quantised_weight("w", 6, 4, 3, 3, axis=0)
    if kind.per_channel:
        zero = m.constant("zero", m.weights[zero].flat[0], kind.weights)
    return m.build(m.node("ConvInteger", x, weight, _linear(m, "x", 0.03)[1], zero, pads=[1, 1, 1, 1]))


@integer
def dynamic_matmul(kind: Kind, seed: int) -> onnx.ModelProto:
    m = Quantised(kind, seed)
    x = m.input("x", 7, 16)
    results = ("q", "scale", "zero")
    m.node("DynamicQuantizeLinear", x, outputs=results)
    weight, _, zero = m.quantised_weight("w", 16, 5, axis=1)
    return m.build(m.node("MatMulInteger", "q", weight, "zero", zero))


def quantised_inputs(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Normal floats, and integers of the whole range."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if dtype.kind == "f":
            arrays[value.name] = rng.standard_normal(shape).astype(dtype)
        else:
            info = np.iinfo(dtype)
            arrays[value.name] = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    return arrays


def of_integers(model: onnx.ModelProto) -> onnx.ModelProto:
    """A network in QDQ form without its first QuantizeLinears and last DequantizeLinear: of integers at both ends."""
    types = {w.name: w.data_type for w in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input}
    *nodes, last = model.graph.node
    renamed: dict[str, str] = {}
    kept: list[onnx.NodeProto] = []
    for node in nodes:
        if node.op_type == "QuantizeLinear" and node.input[0] in inputs:
            renamed[node.output[0]] = node.input[0]
            inputs[node.input[0]].type.tensor_type.elem_type = types[node.input[2]]
        else:
            kept.append(node)
            for position, name in enumerate(node.input):
                node.input[position] = renamed.get(name, name)
    output = onnx.helper.make_empty_tensor_value_info(last.input[0])
    graph = onnx.helper.make_graph(kept, "integers", model.graph.input, [output], model.graph.initializer)
    made = onnx.helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def expected(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The only output, operator by operator, as the file says."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return run_exactly(model, options, inputs)[0]
