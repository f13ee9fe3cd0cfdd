"""Functions of a model: their overloads, the defaults of their attributes, and their operator sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx

from ...ir.custom_operators import find_operator
from ...ir.errors import UnsupportedError
from ..net.net import fresh
from .operator_sets import OWN_DOMAINS, means_the_same


def keep_functions(model: onnx.ModelProto, functions: Sequence[onnx.FunctionProto]) -> None:
    """Leave the model these functions alone."""
    kept: list[onnx.FunctionProto] = []
    for function in functions:
        kept.append(onnx.FunctionProto())
        kept[-1].CopyFrom(function)
    del model.functions[:]
    model.functions.extend(kept)


def nodes_in(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those of the bodies of control flow in them."""
    for node in nodes:
        yield node
        for a in node.attribute:
            for graph in (*([a.g] if a.HasField("g") else []), *a.graphs):
                yield from nodes_in(graph.node)


def rename_overloads(model: onnx.ModelProto) -> None:
    """Give each overload of a function a name of its own, so that a domain and a name tell which one it is."""
    used_names = {f.name for f in model.functions} | {n.op_type for n in _all_nodes(model)}
    renamed: dict[tuple[str, str, str], str] = {}
    for function in model.functions:
        if function.overload:
            key = function.domain, function.name, function.overload
            function.name = renamed[key] = fresh(f"{function.name}:{function.overload}", used_names)
            function.ClearField("overload")
            used_names.add(function.name)
    for node in _all_nodes(model):
        name = renamed.get((node.domain, node.op_type, node.overload))
        if name is not None:
            node.op_type = name
            node.ClearField("overload")


def _all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of the graph and of the functions, and those of the bodies of control flow in them."""
    for part in (model.graph, *model.functions):
        yield from nodes_in(part.node)


def give_function_defaults(node: onnx.NodeProto, function: onnx.FunctionProto) -> None:
    """Add the attributes that a call of a function leaves out and that have a default; the inliner drops them."""
    present = {a.name for a in node.attribute}
    node.attribute.extend(a for a in function.attribute_proto if a.name not in present)


def adopt_opsets(function: onnx.FunctionProto, model: onnx.ModelProto) -> None:
    """Make a function one of the model's operator sets, as the inliner demands; the model gets the domains it lacks.

    Versions of other domains than ONNX's say nothing: their operators are functions, or registered without a version.
    Raises :class:`UnsupportedError` if an operator means something else in the operator set of the model.
    """
    what = f"the function {function.domain}.{function.name}"
    model_opset = next(o.version for o in model.opset_import if o.domain in OWN_DOMAINS)
    function_opset = next((o.version for o in function.opset_import if o.domain in OWN_DOMAINS), model_opset)
    latest = onnx.defs.onnx_opset_version()
    if not 1 <= function_opset <= latest:
        raise UnsupportedError(
            f"{what} is of operator set {function_opset}; known are 1 to {latest}: export it with one of these"
        )
    functions = {(f.domain, f.name) for f in model.functions}
    changed = {
        node.op_type
        for node in nodes_in(function.node)
        if node.domain in OWN_DOMAINS
        and (node.domain, node.op_type) not in functions
        and find_operator("", node.op_type) is None
        and not means_the_same(node, function_opset, model_opset)
    }
    if changed:
        raise UnsupportedError(
            f"{what} is of operator set {function_opset}, but the model of {model_opset}, in which "
            f"{', '.join(sorted(changed))} may mean something else; export both with the same operator set"
        )
    domains = {o.domain for o in model.opset_import} | set(OWN_DOMAINS)
    model.opset_import.extend(o for o in function.opset_import if o.domain not in domains)
    del function.opset_import[:]
    function.opset_import.extend(model.opset_import)
