"""Normalisations: of batches, layers, instances and neighbouring channels."""

from __future__ import annotations

import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Case, Cases

CASES = Cases()


def norm(m: Model, x: str, channels: int, name: str = "bn") -> str:
    parameters = [m.weight(f"{name}.{p}", channels, positive=p == "var") for p in ("scale", "shift", "mean", "var")]
    return m.node("BatchNormalization", x, *parameters, name=name)


@CASES.add
def batch_norm_after_convolution() -> onnx.ModelProto:
    m = Model()
    x = m.node("Conv", m.input("x", 1, 4, 8, 8), m.weight("w", 6, 4, 3, 3))
    return m.build(m.node("Relu", norm(m, x, 6)))


@CASES.add
def batch_norm_after_convolution_with_bias() -> onnx.ModelProto:
    m = Model()
    x = m.node("Conv", m.input("x", 1, 4, 8, 8), m.weight("w", 6, 4, 3, 3), m.weight("b", 6))
    x = norm(m, x, 6)
    x = m.node("Add", m.node("Mul", x, m.weight("s", 6, 1, 1)), m.weight("t", 1, 6, 1, 1))
    return m.build(x)


@CASES.add
def batch_norm_alone() -> onnx.ModelProto:
    m = Model()
    return m.build(norm(m, m.input("x", 2, 5, 4, 4), 5))


@CASES.add
def batch_norm_of_features() -> onnx.ModelProto:
    m = Model()
    return m.build(norm(m, m.input("x", 3, 10), 10))


@CASES.add
def batch_norm_after_pool() -> onnx.ModelProto:
    m = Model()
    x = m.node("MaxPool", m.input("x", 1, 6, 8, 8), kernel_shape=[2, 2], strides=[2, 2])
    x = m.node("Relu", norm(m, norm(m, x, 6), 6, "second"))
    return m.build(m.node("Conv", x, m.weight("w", 4, 6, 1, 1)))


@CASES.add
def shared_convolution_is_not_scaled() -> onnx.ModelProto:
    m = Model()
    x = m.node("Conv", m.input("x", 1, 4, 6, 6), m.weight("w", 4, 4, 1, 1))
    return m.build(m.node("Add", norm(m, x, 4), x))


@CASES.add
def layer_norm() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("LayerNormalization", m.input("x", 2, 6, 16), m.weight("g", 16), m.weight("b", 16)))


@CASES.add
def layer_norm_with_statistics() -> onnx.ModelProto:
    m = Model()
    inputs = m.input("x", 2, 6, 16), m.weight("g", 16), m.weight("b", 16)
    m.node("LayerNormalization", *inputs, outputs=["y", "mean", "deviation"], name="norm")
    return m.build("y", "mean", "deviation")


@CASES.add
def layer_norm_by_hand() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 2, 6, 16)
    centred = m.node("Sub", x, m.node("ReduceMean", x, axes=[-1]))
    variance = m.node("ReduceMean", m.node("Mul", centred, centred), axes=[-1])
    y = m.node("Div", centred, m.node("Sqrt", m.node("Add", variance, m.constant("eps", 1e-5))))
    return m.build(m.node("Add", m.node("Mul", y, m.weight("g", 16)), m.weight("b", 16)))


@CASES.add
def rms_norm_by_hand() -> onnx.ModelProto:
    m = Model()
    x = m.input("x", 2, 6, 16)
    square = m.node("ReduceMean", m.node("Pow", x, m.constant("two", 2.0)), axes=[-1])
    y = m.node("Mul", x, m.node("Reciprocal", m.node("Sqrt", m.node("Add", square, m.constant("eps", 1e-5)))))
    return m.build(m.node("Mul", y, m.weight("g", 16)))


@CASES.add
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
