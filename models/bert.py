"""BERT: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", NAACL 2019."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from .builder import Builder, Value
from .transformer import Shape, attention, feed_forward, layer_norm

VOCABULARY = 30522
"""Word pieces of the published English, uncased model."""
EPSILON = 1e-12


def bert_base(
    *,
    seed: int = 0,
    seq: int = 128,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    ffn: int = 3072,
    embeddings: bool = False,
) -> onnx.ModelProto:
    """embedding [N, seq, hidden] (words already looked up) → last hidden state [N, seq, hidden].

    With `embeddings`, the input is input_ids [N, seq] of int64 in 0..30521 and the table is in the model.
    """
    b = Builder("bert-base", seed)
    shape = Shape(seq, hidden, heads, ffn)
    return encoder(b, shape, layers, words(b, shape, VOCABULARY) if embeddings else embedding(b, shape))


def embedding(b: Builder, shape: Shape) -> Value:
    return b.input("embedding", [shape.seq, shape.hidden])


def words(b: Builder, shape: Shape, vocabulary: int) -> Value:
    """input_ids [N, S] → word embeddings [N, S, D]."""
    ids = b.input("input_ids", [shape.seq], TensorProto.INT64)
    table = b.normal("embeddings.word.weight", [vocabulary, shape.hidden])
    return b.node("Gather", "embeddings.word", table, ids, axis=0)


def encoder(b: Builder, shape: Shape, layers: int, x: Value) -> onnx.ModelProto:
    """Word embeddings plus positions (one segment only), then `layers` blocks that normalise each sum."""
    position = b.normal("embeddings.position.weight", [shape.seq, shape.hidden], std=0.5)
    segment = b.normal("embeddings.segment.weight", [shape.hidden], std=0.2)
    x = b.node("Add", "embeddings.add_position", x, position)
    x = b.node("Add", "embeddings.add_segment", x, segment)
    x = layer_norm(b, "embeddings.norm", x, shape.hidden, epsilon=EPSILON)
    for layer in range(layers):
        x = _block(b, f"layer.{layer}", x, shape)
    return b.model(x, [shape.seq, shape.hidden])


def _block(b: Builder, name: str, x: Value, shape: Shape) -> Value:
    y = attention(b, f"{name}.attention", x, shape)
    x = b.node("Add", f"{name}.attention.residual", x, y)
    x = layer_norm(b, f"{name}.attention.norm", x, shape.hidden, epsilon=EPSILON)
    y = feed_forward(b, f"{name}.mlp", x, shape)
    x = b.node("Add", f"{name}.mlp.residual", x, y)
    return layer_norm(b, f"{name}.mlp.norm", x, shape.hidden, epsilon=EPSILON)
