"""MobileNet-V2: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018."""

from __future__ import annotations

import onnx

from .builder import Builder, Value
from .layers import BRANCH_SCALE, LINEAR, RECTIFIED, batch_norm, classifier, conv, relu6

STAGES = (
    # expansion, channels, blocks, stride of the first block (table 2 of the paper)
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(*, seed: int = 0, size: int = 224, classes: int = 1000) -> onnx.ModelProto:
    """input [N, 3, size, size] → logits [N, classes]."""
    b = Builder("mobilenet-v2", seed)
    x = b.input("input", [3, size, size])
    x = _conv_bn_relu6(b, "features.0", x, (3, 32), kernel=3, stride=2, gain=LINEAR)
    channels, index = 32, 1
    for expansion, out, blocks, first_stride in STAGES:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            x = _inverted_residual(b, f"features.{index}", x, (channels, out), expansion, stride)
            channels, index = out, index + 1
    x = _conv_bn_relu6(b, f"features.{index}", x, (channels, 1280), kernel=1, gain=LINEAR)
    return b.model(classifier(b, x, 1280, classes), [classes])


def _inverted_residual(
    b: Builder, name: str, x: Value, channels: tuple[int, int], expansion: int, stride: int
) -> Value:
    """1×1 up to `expansion` times the channels, 3×3 depthwise, linear 1×1 down, plus the input if it fits."""
    fan_in, out = channels
    hidden = fan_in * expansion
    residual = stride == 1 and fan_in == out
    y = x
    if expansion != 1:
        y = _conv_bn_relu6(b, f"{name}.expand", y, (fan_in, hidden), kernel=1, gain=LINEAR)
    y = _conv_bn_relu6(b, f"{name}.depthwise", y, (hidden, hidden), kernel=3, stride=stride, groups=hidden)
    y = conv(b, f"{name}.project.conv", y, (hidden, out), kernel=1)
    y = batch_norm(b, f"{name}.project.bn", y, out, scale=BRANCH_SCALE if residual else 1.0)
    return b.node("Add", f"{name}.add", x, y) if residual else y


def _conv_bn_relu6(
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
    y = conv(b, f"{name}.conv", x, channels, kernel=kernel, stride=stride, groups=groups, gain=gain)
    return relu6(b, f"{name}.relu6", batch_norm(b, f"{name}.bn", y, channels[1]))
