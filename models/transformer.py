"""Layers that transformers share. Values have shape [N, S, D] (batch, sequence, features).

Vaswani et al., "Attention Is All You Need", NeurIPS 2017.
Hendrycks & Gimpel, "Gaussian Error Linear Units", 2016.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..ir.errors import UsageError
from .builder import Builder, Value

QUERY_KEY_GAIN = math.sqrt(2.0)
"""Spreads attention scores with std 2, so that attention picks tokens; gain 1 would nearly average them."""
MIXING_GAIN = 0.5
"""Attention makes tokens alike; at full strength twelve layers would leave one token, repeated."""
GELU_GAIN = 1.7
"""GELU keeps about a third of unit variance."""


@dataclass(frozen=True)
class Shape:
    """Sizes of an encoder: tokens, features of each, attention heads, features inside `feed_forward`."""

    seq: int
    hidden: int
    heads: int
    ffn: int

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise UsageError(f"hidden = {self.hidden} does not divide into heads = {self.heads}")


def linear(b: Builder, name: str, x: Value, fan_in: int, fan_out: int, *, gain: float = 1.0) -> Value:
    """x · W + bias over the last axis."""
    weight = b.filters(f"{name}.weight", [fan_in, fan_out], gain=gain, out_axis=1)
    bias = b.normal(f"{name}.bias", [fan_out], std=0.1)
    return b.node("Add", f"{name}.add", b.node("MatMul", f"{name}.matmul", x, weight), bias)


def layer_norm(b: Builder, name: str, x: Value, width: int, *, epsilon: float) -> Value:
    scale = b.uniform(f"{name}.weight", [width], 0.8, 1.2)
    bias = b.normal(f"{name}.bias", [width], std=0.1)
    return b.node("LayerNormalization", name, x, scale, bias, axis=-1, epsilon=epsilon)


def gelu(b: Builder, name: str, x: Value) -> Value:
    """x/2 · (1 + erf(x/√2)), spelled out because opset 17 has no Gelu."""
    scaled = b.node("Div", f"{name}.div", x, b.scalar("gelu.sqrt2", math.sqrt(2.0)))
    shifted = b.node("Add", f"{name}.add", b.node("Erf", f"{name}.erf", scaled), b.scalar("gelu.one", 1.0))
    product = b.node("Mul", f"{name}.mul", x, shifted)
    return b.node("Mul", f"{name}.half", product, b.scalar("gelu.half", 0.5))


def feed_forward(b: Builder, name: str, x: Value, shape: Shape) -> Value:
    y = linear(b, f"{name}.fc1", x, shape.hidden, shape.ffn)
    return linear(b, f"{name}.fc2", gelu(b, f"{name}.gelu", y), shape.ffn, shape.hidden, gain=GELU_GAIN)


def attention(b: Builder, name: str, x: Value, shape: Shape) -> Value:
    """Multi-head self-attention without a mask: every token sees every token."""
    depth = shape.hidden // shape.heads
    split = b.ints("attention.split", [0, shape.seq, shape.heads, depth])
    merge = b.ints("attention.merge", [0, shape.seq, shape.hidden])

    def heads(part: str, perm: list[int], gain: float) -> Value:
        y = linear(b, f"{name}.{part}", x, shape.hidden, shape.hidden, gain=gain)
        y = b.node("Reshape", f"{name}.{part}.split", y, split)
        return b.node("Transpose", f"{name}.{part}.transpose", y, perm=perm)

    query = heads("query", [0, 2, 1, 3], QUERY_KEY_GAIN)
    key = heads("key", [0, 2, 3, 1], QUERY_KEY_GAIN)
    value = heads("value", [0, 2, 1, 3], 1.0)
    scores = b.node("MatMul", f"{name}.scores", query, key)
    scores = b.node("Mul", f"{name}.scale", scores, b.scalar("attention.scale", 1.0 / math.sqrt(depth)))
    weights = b.node("Softmax", f"{name}.softmax", scores, axis=-1)
    context = b.node("MatMul", f"{name}.context", weights, value)
    context = b.node("Transpose", f"{name}.context.transpose", context, perm=[0, 2, 1, 3])
    context = b.node("Reshape", f"{name}.context.merge", context, merge)
    return linear(b, f"{name}.output", context, shape.hidden, shape.hidden, gain=MIXING_GAIN)
