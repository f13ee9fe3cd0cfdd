"""Layers that convolutional networks share. Each function takes the layer's name and its input, [N, C, H, W]
unless said otherwise, and returns its output.

Gains keep the variance of activations near one: LINEAR for an input of unit variance, RECTIFIED for the output of a
ReLU fed with unit variance (`rectified_gain`), together with the OFFSET of the biases that follow.
"""

from __future__ import annotations

import math

from .builder import Builder, Value


def rectified_gain(offset: float) -> float:
    """The gain of a layer that reads the output of a ReLU and adds biases of standard deviation `offset`, below 1.

    A ReLU fed with unit variance keeps (1 - 1/π)/2 of it; gain and biases make it one again. Of the variance of a
    disturbance, such as a rounding error, it keeps 1/2, so that each layer amplifies disturbances, relative to the
    signal, by √((1 - offset²)/(1 - 1/π)). Without biases that is 1.21, or fortyfold over the nineteen layers of VGG-19.
    With 1/√π it is 1: all inputs are answered nearly alike, and errors can hide (Schoenholz et al., "Deep information
    propagation", ICLR 2017). Choose between the two by the depth.
    """
    return math.sqrt((1.0 - offset**2) / ((1.0 - 1.0 / math.pi) / 2.0))


LINEAR = 1.0
OFFSET = 0.3
RECTIFIED = rectified_gain(OFFSET)
BRANCH_SCALE = 0.5
"""Scale of the last normalisation in a residual branch: a sum then adds a quarter to the variance."""


def conv(
    b: Builder,
    name: str,
    x: Value,
    channels: tuple[int, int],
    *,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    gain: float = RECTIFIED,
) -> Value:
    """A square convolution from channels[0] to channels[1] without bias, padded by kernel // 2."""
    fan_in, fan_out = channels
    weight = b.filters(f"{name}.weight", [fan_out, fan_in // groups, kernel, kernel], gain=gain)
    return b.node(
        "Conv",
        name,
        x,
        weight,
        kernel_shape=[kernel, kernel],
        strides=[stride, stride],
        pads=[kernel // 2] * 4,
        group=groups,
    )


def batch_norm(b: Builder, name: str, x: Value, channels: int, *, scale: float = 1.0) -> Value:
    """Inference-time normalisation with the statistics that a trained network might have."""
    return b.node(
        "BatchNormalization",
        name,
        x,
        b.uniform(f"{name}.weight", [channels], 0.8 * scale, 1.2 * scale),
        b.normal(f"{name}.bias", [channels], std=OFFSET * scale),
        b.normal(f"{name}.running_mean", [channels], std=0.2),
        b.uniform(f"{name}.running_var", [channels], 0.5, 2.0),
        epsilon=1e-5,
    )


def relu(b: Builder, name: str, x: Value) -> Value:
    return b.node("Relu", name, x)


def relu6(b: Builder, name: str, x: Value) -> Value:
    return b.node("Clip", name, x, b.scalar("relu6.min", 0.0), b.scalar("relu6.max", 6.0))


def max_pool(b: Builder, name: str, x: Value, *, kernel: int, stride: int, pad: int = 0) -> Value:
    return b.node("MaxPool", name, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)


def avg_pool(b: Builder, name: str, x: Value, *, kernel: int, stride: int) -> Value:
    return b.node("AveragePool", name, x, kernel_shape=[kernel] * 2, strides=[stride] * 2)


def classifier(b: Builder, x: Value, features: int, classes: int) -> Value:
    """Average over the image, then a fully connected layer `fc`: [N, features, H, W] → [N, classes]."""
    pooled = b.node("GlobalAveragePool", "avgpool", x)
    flat = b.node("Flatten", "flatten", pooled, axis=1)
    # Averaging 49 pixels leaves little variance; the gain makes up for it.
    weight = b.filters("fc.weight", [classes, features], gain=4.0)
    return b.node("Gemm", "fc", flat, weight, b.normal("fc.bias", [classes], std=0.1), transB=1)
