"""Inputs that a network uses as indices: which tables they index, and whether their values are in range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..ir.errors import UsageError
from ..ir.graph import Port


@dataclass(frozen=True)
class IndexUse:
    """An input whose elements are indices of a table, by ``node``.

    ``entries`` is how many each may choose from: one number, or one for each position along the input's last axis.
    """

    input: str
    node: str
    table: str
    entries: tuple[int, ...]


_KEEPS_ELEMENTS = frozenset({"Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose"})
_KEEPS_SHAPE = frozenset({"Cast", "Identity"})
_ALONG_AN_AXIS = frozenset({"Gather", "GatherElements", "ScatterElements", "Scatter"})
_TUPLES = frozenset({"GatherND", "ScatterND"})


def index_uses(model: bytes, ports: Sequence[Port] = ()) -> list[IndexUse]:
    """Which inputs of an ONNX network index tables of known shape: weights, and inputs with that of ``ports``.

    Only indices that are used as they are given are known, perhaps in another dtype or shape.
    """
    import onnx

    graph = onnx.load_from_string(model).graph
    shapes = {port.name: port.shape for port in ports} | {w.name: tuple(w.dims) for w in graph.initializer}
    # By value: the input that it holds, and whether it still has the input's shape.
    source = {value.name: (value.name, True) for value in graph.input}
    uses: list[IndexUse] = []
    for node in graph.node:
        if node.op_type in _KEEPS_ELEMENTS and node.input[0] in source:
            name, shaped = source[node.input[0]]
            source[node.output[0]] = name, shaped and node.op_type in _KEEPS_SHAPE
        if len(node.input) < 2 or node.input[0] not in shapes or node.input[1] not in source:
            continue
        table, (name, shaped) = shapes[node.input[0]], source[node.input[1]]
        numbers = {a.name: a.i for a in node.attribute}
        axis = numbers.get("axis", 0)
        if node.op_type in _ALONG_AN_AXIS and -len(table) <= axis < len(table):
            uses.append(IndexUse(name, node.name or node.op_type, node.input[0], (table[axis],)))
        elif node.op_type in _TUPLES and shaped and name in shapes and shapes[name]:
            first = numbers.get("batch_dims", 0)
            entries = table[first : first + shapes[name][-1]]
            if len(entries) == shapes[name][-1]:
                uses.append(IndexUse(name, node.name or node.op_type, node.input[0], entries))
    return uses


def index_limits(uses: Sequence[IndexUse]) -> dict[str, int]:
    """For each input that holds indices: how many entries the smallest of its tables has."""
    limits: dict[str, int] = {}
    for use in uses:
        limits[use.input] = min(limits.get(use.input, min(use.entries)), *use.entries)
    return limits


def check_indices(uses: Sequence[IndexUse], arrays: Mapping[str, np.ndarray]) -> None:
    """Raise :class:`UsageError` for an index that its table does not have; negative ones count from the end."""
    for use in uses:
        array = arrays[use.input]
        if array.dtype.kind not in "iu" or not array.size:
            continue
        entries = np.broadcast_to(np.asarray(use.entries, np.int64), array.shape)
        signed = array.dtype.kind == "i"
        wrong = (array >= entries) | (array < -entries) if signed else array >= entries.astype(np.uint64)
        if not wrong.any():
            continue
        place = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), array.shape))
        value, limit = int(array[place]), int(entries[place])
        raise UsageError(
            f"input {use.input!r} holds the index {value} at [{', '.join(map(str, place))}], but {use.table!r}, which "
            f"node {use.node!r} indexes with it, has {limit} entries: give indices from {-limit} to {limit - 1} "
            f"({int(wrong.sum()):,} of {math.prod(array.shape):,} are out of range)"
        )
