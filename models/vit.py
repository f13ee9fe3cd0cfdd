"""ViT-B/16: Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021."""

from __future__ import annotations

import numpy as np
import onnx

from ..ir.errors import UsageError
from .builder import Builder, Value
from .layers import LINEAR
from .transformer import Shape, attention, feed_forward, layer_norm, linear

EPSILON = 1e-6


def vit_b16(
    *,
    seed: int = 0,
    size: int = 224,
    patch: int = 16,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    ffn: int = 3072,
    classes: int = 1000,
) -> onnx.ModelProto:
    """input [N, 3, size, size] → logits [N, classes]; a token is a patch × patch piece of the image."""
    if size % patch:
        raise UsageError(f"size = {size} is not a whole number of patches of {patch}")
    patches = (size // patch) ** 2
    shape = Shape(patches + 1, hidden, heads, ffn)
    b = Builder("vit-b16", seed)
    x = _patches(b, b.input("input", [3, size, size]), patch, patches, hidden)
    x = _with_class_token(b, x, hidden)
    position = b.normal("encoder.position.weight", [1, shape.seq, hidden], std=0.5)
    x = b.node("Add", "encoder.position", x, position)
    for layer in range(layers):
        x = _block(b, f"encoder.{layer}", x, shape)
    x = layer_norm(b, "encoder.norm", x, hidden, epsilon=EPSILON)
    first = b.constant("class_token.index", np.array(0, dtype=np.int64))
    x = b.node("Gather", "class_token.pick", x, first, axis=1)
    return b.model(linear(b, "head", x, hidden, classes), [classes])


def _patches(b: Builder, image: Value, patch: int, patches: int, hidden: int) -> Value:
    """[N, 3, H, W] → [N, patches, hidden] by a convolution that does not overlap."""
    weight = b.filters("patch.weight", [hidden, 3, patch, patch], gain=LINEAR)
    bias = b.normal("patch.bias", [hidden], std=0.1)
    x = b.node("Conv", "patch.conv", image, weight, bias, kernel_shape=[patch] * 2, strides=[patch] * 2)
    x = b.node("Reshape", "patch.flatten", x, b.ints("patch.shape", [0, hidden, patches]))
    return b.node("Transpose", "patch.transpose", x, perm=[0, 2, 1])


def _with_class_token(b: Builder, x: Value, hidden: int) -> Value:
    """[N, patches, D] → [N, 1 + patches, D]; the token is repeated N times, known only when run."""
    token = b.normal("class_token.weight", [1, 1, hidden])
    batch = b.node("Shape", "class_token.batch", x, start=0, end=1)
    target = b.node("Concat", "class_token.shape", batch, b.ints("class_token.tail", [1, hidden]), axis=0)
    token = b.node("Expand", "class_token.expand", token, target)
    return b.node("Concat", "class_token.concat", token, x, axis=1)


def _block(b: Builder, name: str, x: Value, shape: Shape) -> Value:
    """Normalisation before each branch: nothing but sums on the way through."""
    y = layer_norm(b, f"{name}.attention.norm", x, shape.hidden, epsilon=EPSILON)
    x = b.node("Add", f"{name}.attention.residual", x, attention(b, f"{name}.attention", y, shape))
    y = layer_norm(b, f"{name}.mlp.norm", x, shape.hidden, epsilon=EPSILON)
    return b.node("Add", f"{name}.mlp.residual", x, feed_forward(b, f"{name}.mlp", y, shape))
