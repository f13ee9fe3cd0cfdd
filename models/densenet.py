"""DenseNet-121: Huang et al., "Densely Connected Convolutional Networks", CVPR 2017."""

from __future__ import annotations

import onnx

from .builder import Builder, Value
from .layers import LINEAR, avg_pool, batch_norm, classifier, conv, max_pool, relu

BLOCKS = (6, 12, 24, 16)
"""Layers in each of the four dense blocks."""
BOTTLENECK = 4
"""The 1×1 convolution of a layer gives out this many times the channels that the layer adds."""


def densenet121(*, seed: int = 0, size: int = 224, growth: int = 32, classes: int = 1000) -> onnx.ModelProto:
    """input [N, 3, size, size] → logits [N, classes]; each layer adds `growth` channels to all that came before."""
    b = Builder("densenet121", seed)
    channels = 2 * growth
    x = b.input("input", [3, size, size])
    x = conv(b, "conv0", x, (3, channels), kernel=7, stride=2, gain=LINEAR)
    x = relu(b, "relu0", batch_norm(b, "norm0", x, channels))
    x = max_pool(b, "pool0", x, kernel=3, stride=2, pad=1)
    for stage, layers in enumerate(BLOCKS, 1):
        if stage > 1:
            x = _transition(b, f"transition{stage - 1}", x, channels)
            channels //= 2
        for layer in range(layers):
            x = _dense_layer(b, f"block{stage}.{layer}", x, channels, growth)
            channels += growth
    x = relu(b, "relu5", batch_norm(b, "norm5", x, channels))
    return b.model(classifier(b, x, channels, classes), [classes])


def _dense_layer(b: Builder, name: str, x: Value, channels: int, growth: int) -> Value:
    """The input and, after it, `growth` channels more: normalised and rectified before each convolution."""
    width = BOTTLENECK * growth
    y = relu(b, f"{name}.relu1", batch_norm(b, f"{name}.norm1", x, channels))
    y = conv(b, f"{name}.conv1", y, (channels, width), kernel=1)
    y = relu(b, f"{name}.relu2", batch_norm(b, f"{name}.norm2", y, width))
    y = conv(b, f"{name}.conv2", y, (width, growth), kernel=3)
    return b.node("Concat", f"{name}.concat", x, y, axis=1)


def _transition(b: Builder, name: str, x: Value, channels: int) -> Value:
    """Half the channels, half the height and half the width."""
    y = relu(b, f"{name}.relu", batch_norm(b, f"{name}.norm", x, channels))
    y = conv(b, f"{name}.conv", y, (channels, channels // 2), kernel=1)
    return avg_pool(b, f"{name}.pool", y, kernel=2, stride=2)
