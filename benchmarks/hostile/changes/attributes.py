"""Changes of attributes: their values and types, and whether they are there."""

from __future__ import annotations

from random import Random
from typing import Any

import onnx
from onnx import AttributeProto, helper

from benchmarks.hostile.changes.draw import (
    FLOATS,
    INTEGERS,
    changed_list,
    node_of,
    pick,
    said,
)
from benchmarks.hostile.changes.tensors import change_tensor


def attribute_of(model: onnx.ModelProto, rng: Random) -> tuple[onnx.NodeProto, onnx.AttributeProto] | None:
    return pick(rng, [(node, a) for node in model.graph.node for a in node.attribute])


def drop_attribute(model: onnx.ModelProto, rng: Random) -> str | None:
    place = attribute_of(model, rng)
    if place is None:
        return None
    node, attribute = place
    text = f"drop {attribute.name} of {said(node)}"
    node.attribute.remove(attribute)
    return text


def change_attribute(model: onnx.ModelProto, rng: Random) -> str | None:
    place = attribute_of(model, rng)
    if place is None:
        return None
    node, attribute = place
    if attribute.type == AttributeProto.TENSOR:
        return f"{change_tensor(attribute.t, rng)} in {attribute.name} of {said(node)}"
    if attribute.ref_attr_name:
        attribute.ref_attr_name = rng.choice(("", "nothing"))
        return f"{attribute.name} of {said(node)} refers to {attribute.ref_attr_name!r}"
    value = helper.get_attribute_value(attribute)
    new: Any
    if attribute.type == AttributeProto.INT:
        new = rng.choice(INTEGERS)
    elif attribute.type == AttributeProto.FLOAT:
        new = rng.choice(FLOATS)
    elif attribute.type == AttributeProto.INTS:
        new = changed_list(list(value), rng)
    elif attribute.type == AttributeProto.STRING:
        new = rng.choice((b"", b"nothing", b"\xff\xfe", b"SAME_LOWER", b"linear", b"reflect"))
    else:
        return None
    set_attribute(attribute, new)
    return f"{attribute.name} of {said(node)} becomes {new!r}"


def set_attribute(attribute: onnx.AttributeProto, value: Any) -> None:
    name = attribute.name
    kind = AttributeProto.INTS if value == [] else None
    attribute.CopyFrom(helper.make_attribute(name, value, attr_type=kind))


def retype_attribute(model: onnx.ModelProto, rng: Random) -> str | None:
    """A value of another type; or only the field that says which type it is."""
    place = attribute_of(model, rng)
    if place is None:
        return None
    node, attribute = place
    if rng.random() < 0.5:
        attribute.type = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 11))
        return f"{attribute.name} of {said(node)} is declared to be of type {attribute.type}"
    value = rng.choice((1, 0.5, "text", [1, 2], [0.5], ["a", "b"], float("nan")))
    set_attribute(attribute, value)
    return f"{attribute.name} of {said(node)} becomes {value!r}"


def add_attribute(model: onnx.ModelProto, rng: Random) -> str | None:
    """One that the operator does not have, one of another operator, or one for the second time."""
    node, place = node_of(model, rng), attribute_of(model, rng)
    if node is None:
        return None
    if place is None or rng.random() < 0.3:
        node.attribute.append(helper.make_attribute(rng.choice(("frobnicate", "axis", "")), rng.choice(INTEGERS[:7])))
    else:
        node.attribute.append(place[1])
    return f"{said(node)} has {node.attribute[-1].name!r} as well"


def refer_attribute(model: onnx.ModelProto, rng: Random) -> str | None:
    """An attribute of a function's caller, where there is none."""
    place = attribute_of(model, rng)
    if place is None:
        return None
    node, attribute = place
    attribute.ref_attr_name = "outer"
    return f"{attribute.name} of {said(node)} refers to an attribute of a caller"
