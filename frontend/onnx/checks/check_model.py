"""What ONNX demands of a file before anything is made of it: names, operator sets, nodes one by one, data of weights.

Nodes go through ``onnx.checker``; what holds between them is checked here, so that each message names both sites.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import checker

from ....ir.custom_operators import find_operator
from ....ir.errors import UnsupportedError, UsageError
from ..inline import node_name
from ..local_functions import nodes_in
from ..operator_sets import OWN_DOMAINS

_PACKED = frozenset({"UINT4", "INT4", "FLOAT4E2M1", "UINT2", "INT2"})
"""Types of which a byte holds several elements."""


def check_model(model: onnx.ModelProto) -> None:
    """Raise :class:`UsageError` for a model that breaks a rule of ONNX, :class:`UnsupportedError` for what is unknown.

    Shapes are left to the inference that follows (:mod:`..prepare`).
    """
    _check_texts(model)
    _check_opsets(model)
    _check_functions(model)
    _check_calls(model)
    _check_weights(model.graph)
    _check_names(model.graph)
    _check_nodes(model)


def _check_texts(message: Message) -> None:
    """All names are texts: what is not UTF-8 arrives as bytes, of which no other check knows."""
    for entry, value in message.ListFields():
        if entry.type not in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE):
            continue
        values = value if entry.is_repeated else [value]
        if entry.type == FieldDescriptor.TYPE_MESSAGE:
            for part in values:
                _check_texts(part)
        elif any(isinstance(text, bytes) for text in values):
            raise UsageError(f"{entry.name} of a {message.DESCRIPTOR.name} is not UTF-8 in the model: {value!r}")


def _check_opsets(model: onnx.ModelProto) -> None:
    versions: dict[str, int] = {}
    for opset in model.opset_import:
        domain = "" if opset.domain in OWN_DOMAINS else opset.domain
        if versions.setdefault(domain, opset.version) != opset.version:
            both = f"{versions[domain]} and {opset.version}"
            raise UsageError(f"the model imports the operator set {domain or 'ai.onnx'!r} in versions {both}; keep one")
    latest = onnx.defs.onnx_opset_version()
    if "" not in versions:
        raise UsageError(f"the model does not import the operator set 'ai.onnx'; import a version from 1 to {latest}")
    if not 1 <= versions[""] <= latest:
        raise UnsupportedError(
            f"the model is of operator set {versions['']}; known are 1 to {latest}: export it with one of these"
        )


def _check_functions(model: onnx.ModelProto) -> None:
    """No function is defined twice, or calls itself through whatever others."""
    calls: dict[tuple[str, str, str], set[tuple[str, str, str]]] = {}
    for function in model.functions:
        key = function.domain, function.name, function.overload
        if key in calls:
            overload = f"overload {function.overload!r} of the " if function.overload else ""
            raise UsageError(f"the {overload}function {function.domain}.{function.name} is defined twice")
        calls[key] = {_called(node) for node in nodes_in(function.node)}
    # What calls nothing that is left is no part of a cycle.
    while leaves := [key for key, callees in calls.items() if not callees & calls.keys()]:
        for key in leaves:
            del calls[key]
    if calls:
        names = ", ".join(f"{domain}.{name}{overload and ':'}{overload}" for domain, name, overload in calls)
        raise UsageError(f"functions call themselves, which ONNX does not allow: {names}")


def _called(node: onnx.NodeProto) -> tuple[str, str, str]:
    """The domain, name and overload of the function that the node calls, if it calls one."""
    return node.domain, node.op_type, node.overload


def _check_calls(model: onnx.ModelProto) -> None:
    """Calls of functions are of overloads that there are, with no more inputs and outputs than these."""
    functions = {(function.domain, function.name, function.overload): function for function in model.functions}
    overloads: dict[tuple[str, str], list[str]] = {}
    for domain, name, overload in functions:
        overloads.setdefault((domain, name), []).append(overload)
    for number, node in enumerate(node for part in (model.graph, *model.functions) for node in part.node):
        function = functions.get(_called(node))
        if function is None:
            known = overloads.get((node.domain, node.op_type))
            if known and find_operator(node.domain, node.op_type) is None:
                raise UsageError(
                    f"node {node_name(node, number)!r} calls the overload {node.overload!r} of "
                    f"{node.domain}.{node.op_type}, of which the model has only {_listed(known)}; call one of these"
                )
            continue
        for side, arguments, parameters in (
            ("inputs", node.input, function.input),
            ("outputs", node.output, function.output),
        ):
            if len(arguments) > len(parameters):
                raise UsageError(
                    f"node {node_name(node, number)!r} has {len(arguments)} {side}, but the function "
                    f"{node.domain}.{node.op_type} that it calls has {len(parameters)}"
                )


def _check_weights(graph: onnx.GraphProto) -> None:
    if graph.sparse_initializer:
        listed = _listed([weight.values.name for weight in graph.sparse_initializer])
        raise UnsupportedError(f"sparse weights are not supported: {listed}; export them as dense ones")
    names: set[str] = set()
    for weight in graph.initializer:
        if not weight.name:
            raise UsageError("a weight has no name, so that no node can read it; name or remove it")
        if weight.name in names:
            raise UsageError(f"two weights are called {weight.name!r}; rename or remove one of them")
        names.add(weight.name)
        _check_data(weight, f"the weight {weight.name!r}")


def _check_data(tensor: onnx.TensorProto, what: str) -> None:
    """The data of a tensor is as much as its shape says."""
    dims = list(tensor.dims)
    if any(n < 0 for n in dims):
        raise UsageError(f"{what} has shape {dims}; dimensions cannot be negative")
    try:
        name = onnx.TensorProto.DataType.Name(tensor.data_type)
        size = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except (KeyError, ValueError) as error:
        raise UsageError(f"{what} is of data type {tensor.data_type}, which ONNX does not know") from error
    if name in _PACKED or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return
    if tensor.HasField("raw_data"):
        unit, actual, needed = "bytes", len(tensor.raw_data), math.prod(dims) * size
    else:
        field = onnx.helper.tensor_dtype_to_field(tensor.data_type)
        # A complex number is two.
        parts = 2 if name.startswith("COMPLEX") else 1
        unit, actual, needed = f"numbers in {field}", len(getattr(tensor, field)), math.prod(dims) * parts
    if actual != needed:
        raise UsageError(f"{what} holds {actual:,} {unit}, but {name} of shape {dims} needs {needed:,}")


def _check_names(graph: onnx.GraphProto) -> None:
    """Each value is made once, before it is read; and the outputs are made."""
    writers: dict[str, str] = {weight.name: "a weight" for weight in graph.initializer}
    for side, ports in (("input", graph.input), ("output", graph.output)):
        names: set[str] = set()
        for port in ports:
            if not port.name:
                raise UsageError(f"an {side} of the network has no name; give it one")
            if port.name in names:
                raise UsageError(f"two {side}s of the network are called {port.name!r}; rename or remove one of them")
            names.add(port.name)
    writers |= {value.name: "an input" for value in graph.input if value.name not in writers}
    places = [f"node {node_name(node, n)!r} ({node.op_type})" for n, node in enumerate(graph.node)]
    later = {output: place for node, place in zip(graph.node, places, strict=True) for output in node.output}
    for node, place in zip(graph.node, places, strict=True):
        for name in node.input:
            if name and name not in writers:
                raise UsageError(f"{place} reads {name!r}, which {_maker(name, place, later)}")
        for name in node.output:
            if name and name in writers:
                raise UsageError(f"{place} writes {name!r}, but {writers[name]} is called so too; rename one of them")
            writers[name] = f"what {place} writes"
    for port in graph.output:
        if port.name not in writers:
            raise UsageError(
                f"output {port.name!r} is made by no node; the network makes {_listed(sorted({*later} - {''}))}"
            )


def _maker(name: str, reader: str, later: dict[str, str]) -> str:
    if name not in later:
        return "nothing makes: the graph lacks a node, an input or a weight"
    if later[name] == reader:
        return "it makes itself: the graph has a cycle"
    return f"nothing before it makes, only {later[name]} after it: the graph has a cycle"


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def _check_nodes(model: onnx.ModelProto) -> None:
    """Number of inputs and outputs, attributes and their types, as the schema of each operator demands."""
    context = checker.C.CheckerContext()
    context.ir_version = max(model.ir_version, 3)
    versions = {"" if o.domain in OWN_DOMAINS else o.domain: o.version for o in model.opset_import}
    context.opset_imports = {d: v for d, v in versions.items() if -(1 << 31) <= v < 1 << 31}
    for number, node in enumerate(model.graph.node):
        name = node_name(node, number)
        if node.domain not in OWN_DOMAINS or find_operator("", node.op_type) is not None:
            continue
        if not onnx.defs.has(node.op_type, versions[""], ""):
            raise UnsupportedError(
                f"node {name!r}: operator {node.op_type} is not supported: operator set {versions['']} does not have it"
            )
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                raise UsageError(
                    f"node {name!r} ({node.op_type}): the attribute {attribute.name} refers to an attribute of a "
                    "function, but is in none; give its value"
                )
            if attribute.HasField("t"):
                _check_data(attribute.t, f"node {name!r} ({node.op_type}): the attribute {attribute.name}")
        schema = onnx.defs.get_schema(node.op_type, versions[""], "")
        _check_omissions(node, name, schema)
        # The bodies of control flow read values of the graph around them, which the checker of a node does not know.
        # It also refuses what an operator set deprecates (GroupNormalization in 18), although exporters write it.
        if schema.deprecated or any(a.HasField("g") for a in node.attribute):
            continue
        try:
            checker.check_node(node, context)
        except checker.ValidationError as error:
            reason = " ".join(str(error).partition("==> Context")[0].split())
            raise UsageError(f"node {name!r} ({node.op_type}) is not valid: {reason}") from error


def _check_omissions(node: onnx.NodeProto, name: str, schema: onnx.defs.OpSchema) -> None:
    """Only inputs that are optional are left out, by an empty name; the checker of a node does not look at that."""
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    for position, value in enumerate(node.input):
        if not value and schema.inputs and schema.inputs[min(position, len(schema.inputs) - 1)].option != optional:
            raise UsageError(
                f"node {name!r} ({node.op_type}) leaves out input {position}, which is not optional; name a value"
            )
