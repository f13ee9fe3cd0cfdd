"""Which inputs of a network are indices, and of which tables: what a run checks before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from ...ir.custom_operators import find_operator
from ...ir.graph import Port
from .operator_sets import OWN_DOMAINS


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
    graph = onnx.load_from_string(model).graph
    weights = {w.name: tuple(w.dims) for w in graph.initializer}
    shapes = {port.name: port.shape for port in ports} | weights
    # By value: the input that it holds, and whether it still has the input's shape. Up to IR version 3, graph.input
    # lists the weights, too.
    source = {value.name: (value.name, True) for value in graph.input if value.name not in weights}
    uses: list[IndexUse] = []
    for node in graph.node:
        if find_operator(node.domain, node.op_type) is not None or node.domain not in OWN_DOMAINS:
            continue
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
