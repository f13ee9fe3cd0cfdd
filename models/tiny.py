"""Networks of a few kilobytes with the structures of the large ones, for tests and first steps."""

from __future__ import annotations

import onnx

from .bert import embedding, encoder
from .builder import Builder
from .layers import BRANCH_SCALE, LINEAR, batch_norm, classifier, conv, max_pool, relu
from .transformer import Shape


def tiny_cnn(*, seed: int = 0, size: int = 16, width: int = 16, classes: int = 10) -> onnx.ModelProto:
    """input [N, 3, size, size] → logits [N, classes]: a residual block among plain layers."""
    b = Builder("tiny-cnn", seed)
    x = b.input("input", [3, size, size])
    x = conv(b, "conv1", x, (3, width), kernel=3, gain=LINEAR)
    x = relu(b, "relu1", batch_norm(b, "bn1", x, width))
    x = max_pool(b, "maxpool", x, kernel=2, stride=2)
    y = conv(b, "block.conv1", x, (width, width), kernel=3)
    y = relu(b, "block.relu1", batch_norm(b, "block.bn1", y, width))
    y = conv(b, "block.conv2", y, (width, width), kernel=3)
    y = batch_norm(b, "block.bn2", y, width, scale=BRANCH_SCALE)
    x = relu(b, "block.relu2", b.node("Add", "block.add", x, y))
    x = conv(b, "conv2", x, (width, 2 * width), kernel=3, stride=2)
    x = relu(b, "relu2", batch_norm(b, "bn2", x, 2 * width))
    return b.model(classifier(b, x, 2 * width, classes), [classes])


def tiny_transformer(
    *, seed: int = 0, seq: int = 16, layers: int = 2, hidden: int = 32, heads: int = 4, ffn: int = 64
) -> onnx.ModelProto:
    """embedding [N, seq, hidden] → last hidden state [N, seq, hidden]: BERT, small."""
    b = Builder("tiny-transformer", seed)
    shape = Shape(seq, hidden, heads, ffn)
    return encoder(b, shape, layers, embedding(b, shape))
