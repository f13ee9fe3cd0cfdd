"""What operators of ONNX mean in one operator set and in another."""

from __future__ import annotations

import onnx

OWN_DOMAINS = ("", "ai.onnx")

_EXTENDED = frozenset(
    {"ArgMax", "ArgMin", "AveragePool", "Cast", "CastLike", "Constant", "DequantizeLinear", "GatherND", "LpPool",
     "MaxPool", "QuantizeLinear", "Reshape", "ScatterElements", "ScatterND", "Shape", "TopK"}
)  # fmt: skip
"""Operators to which operator sets add attributes that change nothing where a node leaves them out."""

_CHANGED = {"PRelu": 7}
"""Operators of which only the meaning changed, and the set from which on: a slope belongs to channels before."""


def means_the_same(node: onnx.NodeProto, first: int, second: int) -> bool:
    """Whether a node of ONNX computes the same in two operator sets, so far as it is valid in both.

    It does if its operator has the same inputs, outputs and attributes: what else changes are the types that it takes.
    """
    known = [version for version in (first, second) if onnx.defs.has(node.op_type, version, "")]
    if len(known) < 2:
        return not known  # What neither knows is refused as such.
    old, new = (onnx.defs.get_schema(node.op_type, version, "") for version in known)
    if old.since_version == new.since_version:
        return True
    if min(first, second) < _CHANGED.get(node.op_type, 0) <= max(first, second):
        return False
    if _signature(old) != _signature(new):
        return False
    before, after = _attributes_of(old), _attributes_of(new)
    if before == after:
        return True
    added = before.keys() ^ after.keys()
    return (
        node.op_type in _EXTENDED
        and all(before[name] == after[name] for name in before.keys() & after.keys())
        and not added & {a.name for a in node.attribute}
    )


def _signature(schema: onnx.defs.OpSchema) -> tuple[object, ...]:
    """Which inputs and outputs an operator has, and whether ONNX deprecates it."""
    ports = [[port.option for port in side] for side in (schema.inputs, schema.outputs)]
    return schema.deprecated, *ports, schema.min_input, schema.max_input, schema.min_output, schema.max_output


def _attributes_of(schema: onnx.defs.OpSchema) -> dict[str, tuple[object, ...]]:
    """The types and defaults of an operator's attributes."""
    return {n: (a.type, a.required, a.default_value.SerializeToString()) for n, a in schema.attributes.items()}
