"""Conformer, medium: Gulati et al., "Conformer: Convolution-augmented Transformer for Speech Recognition",
Interspeech 2020, table 1 (M): 16 blocks of 256 features with 4 heads.

The encoder alone, and simpler than the paper's in three things: attention adds positions to the tokens, once, where
the paper has relative ones in each block; the depthwise kernel is 31 rather than 32, so that it has a centre; and
the sub-sampling pads its convolutions, so that 4 frames make a token, also at the ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from .builder import Builder, Value
from .layers import BRANCH_SCALE, LINEAR, RECTIFIED, batch_norm, relu
from .transformer import Shape, attention, layer_norm, linear

EPSILON = 1e-5
BANDS = 80
"""Filter banks of a frame."""
SWISH_GAIN = 1.8
"""Swish keeps 0.31 of unit variance (around its mean, which filters ignore)."""
GLU_GAIN = 1.85
"""A gate keeps 0.29 of unit variance."""


def conformer(
    *,
    seed: int = 0,
    frames: int = 1000,
    layers: int = 16,
    hidden: int = 256,
    heads: int = 4,
    ffn: int = 1024,
    kernel: int = 31,
) -> onnx.ModelProto:
    """features [N, frames, 80] (10 ms each) → encoded [N, frames / 4, hidden]."""
    b = Builder("conformer", seed)
    shape = Shape(_half(_half(frames)), hidden, heads, ffn)
    x = _subsample(b, b.input("features", [frames, BANDS]), shape)
    x = b.node("Add", "position", x, b.normal("position.weight", [shape.seq, hidden], std=0.5))
    for layer in range(layers):
        x = _block(b, f"layer.{layer}", x, shape, kernel)
    return b.model(x, [shape.seq, hidden])


def _half(extent: int) -> int:
    """What a padded convolution of stride 2 leaves."""
    return -(-extent // 2)


def _subsample(b: Builder, x: Value, shape: Shape) -> Value:
    """[N, frames, bands] → [N, seq, hidden]: two convolutions over time and bands, then all bands into one token."""
    bands = _half(_half(BANDS))
    x = b.node("Unsqueeze", "subsample.image", x, b.ints("subsample.channel", [1]))
    for number, (fan_in, gain) in enumerate(((1, LINEAR), (shape.hidden, RECTIFIED))):
        name = f"subsample.{number}"
        x = _conv(b, name, x, (fan_in, shape.hidden), kernel=(3, 3), stride=2, gain=gain)
        x = relu(b, f"{name}.relu", x)
    x = b.node("Transpose", "subsample.transpose", x, perm=[0, 2, 1, 3])
    x = b.node("Reshape", "subsample.tokens", x, b.ints("subsample.shape", [0, shape.seq, shape.hidden * bands]))
    return linear(b, "subsample.linear", x, shape.hidden * bands, shape.hidden, gain=RECTIFIED)


def _block(b: Builder, name: str, x: Value, shape: Shape, kernel: int) -> Value:
    """Attention and convolution between two half steps of feed-forward layers, then a normalisation."""
    x = _half_step(b, f"{name}.ffn1", x, shape)
    y = layer_norm(b, f"{name}.attention.norm", x, shape.hidden, epsilon=EPSILON)
    x = b.node("Add", f"{name}.attention.residual", x, attention(b, f"{name}.attention", y, shape))
    x = b.node("Add", f"{name}.conv.residual", x, _convolution(b, f"{name}.conv", x, shape.hidden, kernel))
    x = _half_step(b, f"{name}.ffn2", x, shape)
    return layer_norm(b, f"{name}.norm", x, shape.hidden, epsilon=EPSILON)


def _half_step(b: Builder, name: str, x: Value, shape: Shape) -> Value:
    """x + feed_forward(x) / 2."""
    y = layer_norm(b, f"{name}.norm", x, shape.hidden, epsilon=EPSILON)
    y = _swish(b, f"{name}.swish", linear(b, f"{name}.fc1", y, shape.hidden, shape.ffn))
    y = linear(b, f"{name}.fc2", y, shape.ffn, shape.hidden, gain=SWISH_GAIN)
    return b.node("Add", f"{name}.residual", x, b.node("Mul", f"{name}.half", y, b.scalar("half", 0.5)))


def _convolution(b: Builder, name: str, x: Value, hidden: int, kernel: int) -> Value:
    """Over time, each feature on its own, between two layers that mix the features; the first one is gated."""
    y = layer_norm(b, f"{name}.norm", x, hidden, epsilon=EPSILON)
    y = b.node("Transpose", f"{name}.transpose", y, perm=[0, 2, 1])
    y = _conv(b, f"{name}.pointwise1", y, (hidden, 2 * hidden), kernel=(1,), gain=LINEAR)
    y = _gate(b, f"{name}.glu", y, hidden)
    y = _conv(b, f"{name}.depthwise", y, (hidden, hidden), kernel=(kernel,), groups=hidden, gain=GLU_GAIN)
    y = _swish(b, f"{name}.swish", batch_norm(b, f"{name}.bn", y, hidden))
    y = _conv(b, f"{name}.pointwise2", y, (hidden, hidden), kernel=(1,), gain=BRANCH_SCALE * SWISH_GAIN)
    return b.node("Transpose", f"{name}.transpose_back", y, perm=[0, 2, 1])


def _conv(
    b: Builder,
    name: str,
    x: Value,
    channels: tuple[int, int],
    *,
    kernel: Sequence[int],
    gain: float,
    stride: int = 1,
    groups: int = 1,
) -> Value:
    """[N, C, ...] → [N, C', ...] with bias, padded by half the kernel."""
    fan_in, fan_out = channels
    return b.node(
        "Conv",
        name,
        x,
        b.filters(f"{name}.weight", [fan_out, fan_in // groups, *kernel], gain=gain),
        b.normal(f"{name}.bias", [fan_out], std=0.1),
        kernel_shape=list(kernel),
        strides=[stride] * len(kernel),
        pads=[extent // 2 for extent in kernel] * 2,
        group=groups,
    )


def _swish(b: Builder, name: str, x: Value) -> Value:
    """x · σ(x): Ramachandran et al., "Searching for Activation Functions", 2017."""
    return b.node("Mul", name, x, b.node("Sigmoid", f"{name}.sigmoid", x))


def _gate(b: Builder, name: str, x: Value, channels: int) -> Value:
    """GLU, [N, 2C, T] → [N, C, T]: the first half of the channels times σ of the second.

    Dauphin et al., "Language Modeling with Gated Convolutional Networks", ICML 2017.
    """
    axis = b.ints("glu.axis", [1])
    bounds = [b.ints(f"glu.{part}", [part * channels]) for part in range(3)]
    value, gate = (
        b.node("Slice", f"{name}.{part}", x, bounds[i], bounds[i + 1], axis) for i, part in enumerate(("value", "gate"))
    )
    return b.node("Mul", name, value, b.node("Sigmoid", f"{name}.sigmoid", gate))
