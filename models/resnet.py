"""ResNet-50, version 1.5: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, but with the
stride of a bottleneck on its 3×3 convolution."""

from __future__ import annotations

import onnx

from .builder import Builder, Value
from .layers import BRANCH_SCALE, LINEAR, batch_norm, classifier, conv, max_pool, relu

BLOCKS = (3, 4, 6, 3)
"""Bottlenecks in each of the four stages."""
EXPANSION = 4
"""A bottleneck gives out this many times the channels it works on."""


def resnet50(*, seed: int = 0, size: int = 224, classes: int = 1000) -> onnx.ModelProto:
    """input [N, 3, size, size] → logits [N, classes]."""
    b = Builder("resnet50", seed)
    x = b.input("input", [3, size, size])
    x = conv(b, "conv1", x, (3, 64), kernel=7, stride=2, gain=LINEAR)
    x = relu(b, "relu", batch_norm(b, "bn1", x, 64))
    x = max_pool(b, "maxpool", x, kernel=3, stride=2, pad=1)
    channels = 64
    for stage, blocks in enumerate(BLOCKS):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _bottleneck(b, f"layer{stage + 1}.{block}", x, channels, width, stride)
            channels = width * EXPANSION
    return b.model(classifier(b, x, channels, classes), [classes])


def _bottleneck(b: Builder, name: str, x: Value, channels: int, width: int, stride: int) -> Value:
    """1×1 down to `width`, 3×3, 1×1 up to `width` * EXPANSION, plus a shortcut, projected if need be."""
    out = width * EXPANSION
    y = conv(b, f"{name}.conv1", x, (channels, width), kernel=1)
    y = relu(b, f"{name}.relu1", batch_norm(b, f"{name}.bn1", y, width))
    y = conv(b, f"{name}.conv2", y, (width, width), kernel=3, stride=stride)
    y = relu(b, f"{name}.relu2", batch_norm(b, f"{name}.bn2", y, width))
    y = conv(b, f"{name}.conv3", y, (width, out), kernel=1)
    y = batch_norm(b, f"{name}.bn3", y, out, scale=BRANCH_SCALE)
    shortcut = x
    if stride != 1 or channels != out:
        shortcut = conv(b, f"{name}.downsample.0", x, (channels, out), kernel=1, stride=stride)
        shortcut = batch_norm(b, f"{name}.downsample.1", shortcut, out)
    return relu(b, f"{name}.relu3", b.node("Add", f"{name}.add", y, shortcut))
