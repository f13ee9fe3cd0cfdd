"""What is drawn from: odd numbers and names, and the nodes and values of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

import onnx

Change = Callable[[onnx.ModelProto, Random], str | None]
T = TypeVar("T")

INTEGERS = (0, 1, -1, 2, 3, -2, 7, 64, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))
SIZES = tuple(n for n in INTEGERS if n != 1 << 20)
"""Of dimensions: without the one that makes a right network of a million samples, whose compilation takes minutes."""
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-30, 3.4e38, -3.4e38, float("inf"), float("-inf"), float("nan"))
NAMES = ("", "x", "y", "absent", "a b", "é\n'\"", "w_a", "x" * 300)
OPERATORS = (
    "Relu", "Add", "MatMul", "Reshape", "Conv", "Gather", "Loop", "If", "NonZero", "Concat", "Frobnicate", "",
    "Identity", "Attention", "Einsum", "TopK", "Shape", "Dropout", "Cast", "StringNormalizer", "Slice",
)  # fmt: skip


def pick(rng: Random, values: Sequence[T]) -> T | None:
    return values[rng.randrange(len(values))] if values else None


def node_of(model: onnx.ModelProto, rng: Random) -> onnx.NodeProto | None:
    return pick(rng, model.graph.node)


def names_of(model: onnx.ModelProto) -> list[str]:
    """Everything that a node may read."""
    graph = model.graph
    names = [v.name for v in (*graph.input, *graph.initializer)]
    return list(dict.fromkeys([*names, *(o for node in graph.node for o in node.output)]))


def said(node: onnx.NodeProto) -> str:
    return f"{node.op_type} {node.name!r}"


def changed_list(values: list[int], rng: Random) -> list[int]:
    """Longer, shorter, empty, shuffled, or with one value changed."""
    how = rng.randrange(6)
    if how == 0 or not values:
        return [*values, rng.choice(INTEGERS)]
    if how == 1:
        return values[:-1]
    if how == 2:
        return []
    if how == 3:
        rng.shuffle(values)
        return values
    values[rng.randrange(len(values))] = rng.choice(INTEGERS)
    return values
