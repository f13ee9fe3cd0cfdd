"""DLRM: Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019.

The sizes are those that its authors publish for the Criteo Terabyte set with 64 features an embedding
(bench/dlrm_s_criteo_terabyte.sh of facebookresearch/dlrm): bottom 13-512-256-64, top 512-512-256-1, 26 tables. MLPerf
Inference has this one as the smaller of its two, tb0875_10M.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from .builder import Builder, Value
from .layers import LINEAR, RECTIFIED, relu
from .transformer import linear

DENSE = 13
"""Numerical features of a sample of the Criteo sets."""
CERTAINTY = 3.0
"""The standard deviation of the logit: a probability then tells samples apart."""


def dlrm(
    *,
    seed: int = 0,
    tables: int = 26,
    features: int = 64,
    width: int = 512,
    rows: int = 1000,
    embeddings: bool = False,
) -> onnx.ModelProto:
    """dense [N, 13] and embedding [N, tables, features] (already looked up) → probability of a click [N, 1].

    With `embeddings`, the second input is indices [N, tables] of int64 in 0..rows-1, one for each table (the Criteo
    sets have one), and the tables are in the model: `rows` stands for the up to ten million rows of the original.
    """
    b = Builder("dlrm", seed)
    x = b.input("dense", [DENSE])
    embedded = _look_up(b, tables, rows, features) if embeddings else b.input("embedding", [tables, features])
    x = _layers(b, "bottom", x, (DENSE, width, width // 2, features), first_gain=LINEAR)
    pairs = _interactions(b, x, embedded, tables, features)
    x = b.node("Concat", "interaction", x, pairs, axis=1)
    # A product of `features` pairs of unit variance has that variance.
    fan_in = features + tables * (tables + 1) // 2
    x = _layers(b, "top", x, (fan_in, width, width, width // 2), first_gain=LINEAR / features**0.5)
    logit = linear(b, "top.3", x, width // 2, 1, gain=CERTAINTY * RECTIFIED)
    return b.model(b.node("Sigmoid", "click", logit), [1])


def _layers(b: Builder, name: str, x: Value, sizes: tuple[int, ...], *, first_gain: float) -> Value:
    """A perceptron [N, sizes[0]] → [N, sizes[-1]], rectified after every layer."""
    for layer, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        x = linear(b, f"{name}.{layer}", x, fan_in, fan_out, gain=RECTIFIED if layer else first_gain)
        x = relu(b, f"{name}.{layer}.relu", x)
    return x


def _look_up(b: Builder, tables: int, rows: int, features: int) -> Value:
    """indices [N, tables] → [N, tables, features]; all tables lie in one, one after the other."""
    indices = b.input("indices", [tables], TensorProto.INT64)
    first = b.ints("tables.first_row", range(0, tables * rows, rows))
    weight = b.normal("tables.weight", [tables * rows, features])
    return b.node("Gather", "tables", weight, b.node("Add", "tables.row", indices, first), axis=0)


def _interactions(b: Builder, x: Value, embedded: Value, tables: int, features: int) -> Value:
    """The dot product of each two of the 1 + tables vectors of a sample: [N, tables * (tables + 1) / 2]."""
    count = tables + 1
    x = b.node("Reshape", "vectors.dense", x, b.ints("vectors.one", [0, 1, features]))
    vectors = b.node("Concat", "vectors", x, embedded, axis=1)
    products = b.node("MatMul", "products", vectors, b.node("Transpose", "vectors.transpose", vectors, perm=[0, 2, 1]))
    flat = b.node("Reshape", "products.flat", products, b.ints("products.shape", [0, count * count]))
    index = b.drawn("pairs.index", [count * tables // 2], 8, lambda: _pairs(count))
    return b.node("Gather", "pairs", flat, index, axis=1)


def _pairs(count: int) -> npt.NDArray[np.int64]:
    """Row by row below the diagonal of count x count products: each pair once, and none of a vector with itself."""
    row, column = np.tril_indices(count, -1)
    return row * count + column
