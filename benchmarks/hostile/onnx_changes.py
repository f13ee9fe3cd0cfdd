"""Single changes of an ONNX model, most of which make it wrong. Each returns what it did, or ``None`` if it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

Change = Callable[[onnx.ModelProto, Random], str | None]
T = TypeVar("T")

INTEGERS = (0, 1, -1, 2, 3, -2, 7, 64, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))
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


# Nodes.


def drop_node(model: onnx.ModelProto, rng: Random) -> str | None:
    nodes = model.graph.node
    if not nodes:
        return None
    position = rng.randrange(len(nodes))
    text = said(nodes[position])
    del nodes[position]
    return f"drop {text}"


def repeat_node(model: onnx.ModelProto, rng: Random) -> str | None:
    node = node_of(model, rng)
    if node is None:
        return None
    model.graph.node.append(node)
    return f"append {said(node)} once more"


def reorder_nodes(model: onnx.ModelProto, rng: Random) -> str | None:
    nodes = list(model.graph.node)
    if len(nodes) < 2:
        return None
    rng.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return "shuffle the nodes"


def change_operator(model: onnx.ModelProto, rng: Random) -> str | None:
    node, op = node_of(model, rng), rng.choice(OPERATORS)
    if node is None:
        return None
    text = f"{said(node)} becomes {op!r}"
    node.op_type = op
    return text


def change_domain(model: onnx.ModelProto, rng: Random) -> str | None:
    node, domain = node_of(model, rng), rng.choice(("ai.onnx", "ai.onnx.ml", "com.microsoft", "my.company", "é"))
    if node is None:
        return None
    node.domain = domain
    if rng.random() < 0.5:
        model.opset_import.append(helper.make_opsetid(domain, rng.choice((0, 1, 3, 17))))
    return f"{said(node)} is of domain {domain!r}"


def rename_node(model: onnx.ModelProto, rng: Random) -> str | None:
    node, name = node_of(model, rng), rng.choice(NAMES)
    if node is None:
        return None
    text = f"{said(node)} is called {name!r}"
    for each in model.graph.node if rng.random() < 0.3 else [node]:
        each.name = name
    return text


def drop_input(model: onnx.ModelProto, rng: Random) -> str | None:
    node = node_of(model, rng)
    if node is None or not node.input:
        return None
    position = rng.randrange(len(node.input))
    del node.input[position]
    return f"drop input {position} of {said(node)}"


def add_input(model: onnx.ModelProto, rng: Random) -> str | None:
    node, name = node_of(model, rng), pick(rng, [*names_of(model), ""])
    if node is None or name is None:
        return None
    node.input.insert(rng.randrange(len(node.input) + 1), name)
    return f"{said(node)} reads {name!r} as well"


def change_input(model: onnx.ModelProto, rng: Random) -> str | None:
    node, name = node_of(model, rng), pick(rng, [*names_of(model), *NAMES])
    if node is None or name is None or not node.input:
        return None
    position = rng.randrange(len(node.input))
    node.input[position] = name
    return f"input {position} of {said(node)} becomes {name[:40]!r}"


def swap_inputs(model: onnx.ModelProto, rng: Random) -> str | None:
    node = node_of(model, rng)
    if node is None or len(node.input) < 2:
        return None
    inputs = list(node.input)
    rng.shuffle(inputs)
    node.input[:] = inputs
    return f"inputs of {said(node)} become {inputs}"


def change_output(model: onnx.ModelProto, rng: Random) -> str | None:
    node, name = node_of(model, rng), pick(rng, [*names_of(model), *NAMES])
    if node is None or name is None or not node.output:
        return None
    position = rng.randrange(len(node.output))
    node.output[position] = name
    return f"output {position} of {said(node)} becomes {name[:40]!r}"


def change_output_count(model: onnx.ModelProto, rng: Random) -> str | None:
    node = node_of(model, rng)
    if node is None:
        return None
    if node.output and rng.random() < 0.5:
        del node.output[-1]
        return f"drop the last output of {said(node)}"
    node.output.append(rng.choice(("more", "", "y")))
    return f"{said(node)} writes {node.output[-1]!r} as well"


# Attributes.


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


# Tensors.


def change_tensor(tensor: onnx.TensorProto, rng: Random) -> str:
    """Another dtype, shape or content, or less or more data than the shape says."""
    how = rng.randrange(9)
    if how == 0:
        tensor.data_type = rng.choice((0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 13, 14, 16, 17, 22, 23, 99))
        return f"dtype {tensor.data_type}"
    if how == 1:
        tensor.dims[:] = changed_list(list(tensor.dims), rng)
        return f"dims {list(tensor.dims)}"
    if how == 2 and tensor.HasField("raw_data"):
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
        return f"{len(tensor.raw_data)} bytes"
    if how == 3:
        tensor.raw_data = tensor.raw_data + b"\0" * rng.choice((1, 4, 4096))
        return f"{len(tensor.raw_data)} bytes"
    if how == 4:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=rng.choice(("absent.bin", "/etc/passwd", "../x", "")))
        return f"data in {tensor.external_data[0].value!r}"
    if how == 5:
        kind = rng.choice(("float64", "float16", "int32", "int64", "int8", "uint8", "bool"))
        with np.errstate(all="ignore"):
            array = _array(tensor).astype(kind)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        return f"values as {kind}"
    array = _array(tensor).copy()
    if not array.size or array.dtype.kind not in "fiu":
        return "nothing"
    at = rng.randrange(array.size)
    with np.errstate(all="ignore"):
        value = rng.choice(FLOATS) if array.dtype.kind == "f" else rng.choice(INTEGERS)
        array.reshape(-1)[at] = np.asarray(value).astype(array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return f"value {value} at {at}"


def _array(tensor: onnx.TensorProto) -> np.ndarray:
    """The tensor's values, or none if an earlier change made it unreadable."""
    try:
        return numpy_helper.to_array(tensor)
    except Exception:
        return np.zeros(0, np.float32)


def change_weight(model: onnx.ModelProto, rng: Random) -> str | None:
    tensor = pick(rng, model.graph.initializer)
    return None if tensor is None else f"{change_tensor(tensor, rng)} in weight {tensor.name!r}"


def drop_weight(model: onnx.ModelProto, rng: Random) -> str | None:
    tensor = pick(rng, model.graph.initializer)
    if tensor is None:
        return None
    text = f"drop weight {tensor.name!r}"
    model.graph.initializer.remove(tensor)
    return text


def repeat_weight(model: onnx.ModelProto, rng: Random) -> str | None:
    tensor = pick(rng, model.graph.initializer)
    if tensor is None:
        return None
    again = onnx.TensorProto()
    again.CopyFrom(tensor)
    change_tensor(again, rng)
    model.graph.initializer.append(again)
    return f"weight {tensor.name!r} twice"


def rename_weight(model: onnx.ModelProto, rng: Random) -> str | None:
    tensor, name = pick(rng, model.graph.initializer), pick(rng, [*names_of(model), *NAMES])
    if tensor is None or name is None:
        return None
    text = f"weight {tensor.name!r} is called {name[:40]!r}"
    tensor.name = name
    return text


# Inputs, outputs and what is declared of values in between.


def change_value(value: onnx.ValueInfoProto, rng: Random) -> str:
    """Another dtype, shape or kind of type, or nothing at all."""
    tensor = value.type.tensor_type
    dims = tensor.shape.dim
    how = rng.randrange(9)
    if how == 0:
        tensor.elem_type = rng.choice((0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 17, 99))
        return f"dtype {tensor.elem_type}"
    if how == 1:
        value.type.Clear()
        return "no type"
    if how == 2:
        tensor.ClearField("shape")
        return "no shape"
    if how == 3:
        dims.add().dim_value = rng.choice(INTEGERS)
        return f"one more dimension, of {dims[-1].dim_value}"
    if how == 4 and dims:
        del dims[rng.randrange(len(dims))]
        return "one dimension less"
    if how == 5 and dims:
        position = rng.randrange(len(dims))
        dims[position].Clear()
        if rng.random() < 0.7:
            dims[position].dim_param = rng.choice(("N", "M", "N + 1", ""))
        return f"dimension {position} is symbolic"
    if how == 6:
        inner = onnx.TypeProto()
        inner.CopyFrom(value.type)
        kind = rng.choice(("sequence_type", "optional_type"))
        value.type.Clear()
        getattr(value.type, kind).elem_type.CopyFrom(inner)
        return kind
    if not dims:
        return "nothing"
    position = rng.randrange(len(dims))
    dims[position].dim_value = rng.choice(INTEGERS)
    return f"dimension {position} is {dims[position].dim_value}"


def change_graph_input(model: onnx.ModelProto, rng: Random) -> str | None:
    value = pick(rng, model.graph.input)
    return None if value is None else f"input {value.name!r}: {change_value(value, rng)}"


def change_graph_output(model: onnx.ModelProto, rng: Random) -> str | None:
    value = pick(rng, model.graph.output)
    return None if value is None else f"output {value.name!r}: {change_value(value, rng)}"


def declare_value(model: onnx.ModelProto, rng: Random) -> str | None:
    """A claim about a value that nothing needs, and that may be wrong."""
    name = pick(rng, names_of(model))
    if name is None:
        return None
    shape = [rng.choice((1, 2, 3, 5, 0, 1 << 40)) for _ in range(rng.randrange(4))]
    model.graph.value_info.append(helper.make_tensor_value_info(name, rng.choice((1, 7, 10)), shape))
    return f"{name!r} is declared to have shape {shape}"


def change_ports(model: onnx.ModelProto, rng: Random) -> str | None:
    """An input or output that is dropped, there twice or called otherwise."""
    side = rng.choice(("input", "output"))
    ports = getattr(model.graph, side)
    if not ports:
        return None
    position, how = rng.randrange(len(ports)), rng.randrange(3)
    name = ports[position].name
    if how == 0:
        del ports[position]
        return f"drop {side} {name!r}"
    if how == 1:
        ports.add().CopyFrom(ports[position])
        return f"{side} {name!r} twice"
    ports[position].name = rng.choice([*names_of(model), *NAMES])
    return f"{side} {name!r} is called {ports[position].name[:40]!r}"


# The model.


def change_versions(model: onnx.ModelProto, rng: Random) -> str | None:
    how = rng.randrange(4)
    if how == 0:
        model.ir_version = rng.choice((0, 1, 2, 3, 7, 999))
        return f"IR version {model.ir_version}"
    if how == 1:
        del model.opset_import[:]
        return "no operator set"
    version = rng.choice((-1, 0, 1, 5, 6, 7, 9, 10, 11, 12, 13, 18, 20, 21, 22, 23, 999, 1 << 40))
    if how == 2:
        model.opset_import.append(helper.make_opsetid("", version))
        return f"operator set {version} as well"
    for opset in model.opset_import:
        opset.version = version
    return f"operator set {version}"


def add_function(model: onnx.ModelProto, rng: Random) -> str | None:
    """A node becomes a call of a local function, which may call itself."""
    node = node_of(model, rng)
    if node is None or not node.input or not node.output:
        return None
    recursive = rng.random() < 0.3
    inputs, outputs = list(dict.fromkeys(node.input)), list(node.output)
    body = onnx.NodeProto()
    body.CopyFrom(node)
    if recursive:
        body.CopyFrom(helper.make_node("Own", inputs, outputs, domain="local"))
    model.functions.append(helper.make_function("local", "Own", inputs, outputs, [body], [helper.make_opsetid("", 17)]))
    model.opset_import.append(helper.make_opsetid("local", 1))
    text = f"{said(node)} in a function{' that calls itself' if recursive else ''}"
    node.CopyFrom(helper.make_node("Own", inputs, outputs, name=node.name, domain="local"))
    return text


CHANGES: tuple[Change, ...] = (
    drop_node, repeat_node, reorder_nodes, change_operator, change_domain, rename_node,
    drop_input, add_input, change_input, swap_inputs, change_output, change_output_count,
    drop_attribute, change_attribute, retype_attribute, add_attribute, refer_attribute,
    change_weight, drop_weight, repeat_weight, rename_weight,
    change_graph_input, change_graph_output, declare_value, change_ports,
    change_versions, add_function,
)  # fmt: skip


def damaged(data: bytes, rng: Random) -> tuple[str, bytes]:
    """Bytes that are cut short, changed, repeated or put in."""
    at = rng.randrange(len(data))
    how = rng.randrange(4)
    if how == 0:
        return f"cut after {at} bytes", data[:at]
    if how == 1:
        return f"one bit of byte {at}", data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if how == 2:
        end = min(len(data), at + rng.randrange(1, 40))
        return f"bytes {at} to {end} twice", data[:end] + data[at:]
    noise = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
    return f"{len(noise)} bytes of noise at {at}", data[:at] + noise + data[at:]
