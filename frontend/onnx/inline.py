"""ONNX nodes as records, with functions replaced by their bodies.

A body's nodes remember the node of the file that they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import inliner, numpy_helper, shape_inference

from ...ir.custom_operators import CustomOperator, find_operator, operator_by_key, shipped_operators
from ...ir.errors import UnsupportedError
from ...ir.graph import node_name
from ..library.shipped_operators import DOMAIN
from .checks.limits import refuse, refuse_flags
from .local_functions import adopt_opsets, give_function_defaults, keep_functions, nodes_in, rename_overloads
from .operator_sets import OWN_DOMAINS

SMALL = 4096
"""Weights up to this many elements stay in the model while its shapes are inferred (they may be shapes)."""

HANDLED = frozenset(
    {"Constant", "Identity", "Dropout", "BatchNormalization", "Shape", "Size", "Sum",
     "ConvInteger", "MatMulInteger"}
)  # fmt: skip
"""Operators that are rewritten before TVM sees them."""

MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

QUANTISED = {
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), ""),
    **dict.fromkeys(
        ("QGemm", "QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearSigmoid", "QLinearSoftmax", "QLinearLeakyRelu",
         "QLinearAveragePool", "QLinearGlobalAveragePool"), MICROSOFT,
    ),
}  # fmt: skip
"""Operators on quantised tensors, and their domains; :mod:`.quantised_operators` rewrites them."""

CUSTOM_DOMAIN = "girih.custom"
"""The domain of nodes whose operator is registered; their type is the operator's key, which no other has."""


@dataclass(frozen=True)
class Node:
    """One ONNX node; ``origin`` names the nodes of the file that it stands for."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[onnx.AttributeProto, ...] = ()
    domain: str = ""
    origin: tuple[str, ...] = ()

    def attribute(self, name: str, default: object = None) -> object:
        for a in self.attributes:
            if a.name == name:
                return onnx.helper.get_attribute_value(a)
        return default

    @property
    def custom(self) -> CustomOperator | None:
        """The registered operator of a user that computes the node."""
        return operator_by_key(self.op_type) if self.domain == CUSTOM_DOMAIN else None


def proto_of(node: Node) -> onnx.NodeProto:
    proto = onnx.NodeProto(op_type=node.op_type, name=node.name, domain=node.domain)
    proto.input.extend(node.inputs)
    proto.output.extend(node.outputs)
    proto.attribute.extend(node.attributes)
    return proto


def declare(graph: onnx.GraphProto, weights: Mapping[str, np.ndarray]) -> None:
    """Tell a graph about its weights: small ones by value, large ones by shape."""
    used = names_in(graph)
    for name, array in weights.items():
        if name not in used:
            continue
        if array.size <= SMALL:
            graph.initializer.append(numpy_helper.from_array(array, name))
        else:
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(onnx.helper.make_tensor_value_info(name, kind, array.shape))


def names_in(graph: onnx.GraphProto) -> set[str]:
    """All values that nodes of the graph, and of the bodies of its control flow, read; and its outputs."""
    names = {o.name for o in graph.output}
    for node in graph.node:
        names.update(node.input)
        for a in node.attribute:
            if a.HasField("g"):
                names |= names_in(a.g)
    return names


def inline(
    model: onnx.ModelProto,
    weights: Mapping[str, np.ndarray],
    importable: Callable[[str], bool],
    with_types: Callable[[onnx.ModelProto], onnx.ModelProto],
) -> tuple[list[Node], list[onnx.OperatorSetIdProto]]:
    """The nodes of a model without functions, all of which TVM imports; and the operator sets that they are of.

    ``with_types`` infers the types of the model's values.
    """
    work = onnx.ModelProto()
    work.CopyFrom(model)
    declare(work.graph, weights)
    keep_functions(work, [f for f in work.functions if find_operator(f.domain, f.name) is None])
    rename_overloads(work)
    # A node that is renamed is called as it was.
    pairs = enumerate(zip(work.graph.node, model.graph.node, strict=True))
    names = {id_of(node): node_name(original, i) for i, (node, original) in pairs}
    names, work = without_functions(names, work)
    opset = next(o.version for o in work.opset_import if o.domain in OWN_DOMAINS)
    for _ in range(8):
        for node in work.graph.node:
            give_defaults(node, opset)
        before = list(work.graph.node)
        functions = sorted({(n.domain, n.op_type) for n in before if is_function(n, importable)})
        if not functions:
            break
        try:
            # The bodies of some functions depend on the types of their inputs.
            typed = with_types(work)
            for tensor in typed.graph.initializer:
                typed.graph.value_info.append(
                    onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                )
            work = inliner.inline_selected_functions(typed, functions, exclude=False, inline_schema_functions=True)
        except (RuntimeError, MemoryError, shape_inference.InferenceError) as error:
            raise UnsupportedError(f"{', '.join(o for _, o in functions)}: cannot be expanded ({error})") from error
        del work.graph.value_info[:]
        if [id_of(n) for n in work.graph.node] == [id_of(n) for n in before]:
            break
        names = inherit(names, before, work)
    nodes = [record(proto, names[id_of(proto)]) for proto in work.graph.node]
    for node in nodes:
        if node.custom is not None or QUANTISED.get(node.op_type) == node.domain:
            continue
        if node.domain == DOMAIN:
            known = ", ".join(o.name for o in shipped_operators())
            raise UnsupportedError(f"node {node.name!r}: the domain {DOMAIN} has no {node.op_type}, but {known}")
        if node.domain and not (node.domain == MICROSOFT and importable(node.op_type)):
            raise UnsupportedError(
                f"node {node.name!r}: operator {node.domain}.{node.op_type} is of an unknown domain; "
                "register it, and give the file as --plugin"
            )
        if node.op_type not in HANDLED and not importable(node.op_type):
            raise UnsupportedError(f"node {node.name!r}: operator {node.op_type} is not supported")
    opsets = [*work.opset_import, onnx.helper.make_opsetid(CUSTOM_DOMAIN, 1)]
    return nodes, opsets if any(node.custom for node in nodes) else opsets[:-1]


def without_functions(
    names: Mapping[tuple[str, ...], str], model: onnx.ModelProto
) -> tuple[dict[tuple[str, ...], str], onnx.ModelProto]:
    """The model with its own functions replaced by their bodies, and the names of its nodes.

    No two functions have the same domain and name. Those that no other calls go first: then all calls of a function
    stand in the graph when its turn comes, with the attributes that the bodies around them hand on or leave out.
    """
    names = dict(names)
    while model.functions:
        functions = {(f.domain, f.name): f for f in model.functions}
        inner = {(n.domain, n.op_type) for f in model.functions for n in nodes_in(f.node)}
        turn = functions.keys() - inner
        before = list(model.graph.node)
        called: dict[tuple[str, str], onnx.FunctionProto] = {}
        for node in nodes_in(before):
            key = node.domain, node.op_type
            if key in turn:
                called[key] = functions[key]
                give_function_defaults(node, functions[key])
        for function in called.values():
            adopt_opsets(function, model)
        rest = [f for key, f in functions.items() if key not in turn]
        if called:
            # Beside others, whose operator sets are still their own, the inliner takes none.
            keep_functions(model, list(called.values()))
            model = inliner.inline_local_functions(model)
            names = inherit(names, before, model)
        keep_functions(model, rest)
    return names, model


def is_function(node: onnx.NodeProto, importable: Callable[[str], bool]) -> bool:
    """Whether the node should be expanded: TVM has no converter for it, or not for all of its outputs."""
    if (
        node.domain not in OWN_DOMAINS
        or node.op_type in {*HANDLED, *QUANTISED}
        or find_operator("", node.op_type) is not None
    ):
        return False
    return not importable(node.op_type) or (node.op_type == "LayerNormalization" and any(node.output[1:]))


def give_defaults(node: onnx.NodeProto, opset: int) -> None:
    """Add the attributes that a node leaves out, if ONNX defines it by a body that refers to them.

    Neither the inliner nor the inference of shapes, which looks into bodies, knows their defaults.
    """
    is_custom = find_operator(node.domain, node.op_type) is not None
    if is_custom or node.domain not in OWN_DOMAINS or not onnx.defs.has(node.op_type, opset, ""):
        return
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    if not schema.has_function:  # pyright: ignore
        return
    present = {a.name for a in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in present and attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            node.attribute.append(attribute.default_value)


def id_of(node: onnx.NodeProto) -> tuple[str, ...]:
    """What tells a node from all others: what it computes."""
    return (node.op_type, *node.output)


def inherit(
    names: Mapping[tuple[str, ...], str], before: Sequence[onnx.NodeProto], after: onnx.ModelProto
) -> dict[tuple[str, ...], str]:
    """The names of nodes after inlining: a body's nodes are called like the node that they replace.

    Bodies stand where their node stood; each ends when the node's outputs are all there.
    """
    result: dict[tuple[str, ...], str] = {}
    written: set[str] = set()
    position = 0
    for node in after.graph.node:
        name = names.get(id_of(node))
        position = min(position, len(before) - 1)
        result[id_of(node)] = name if name is not None else names[id_of(before[position])]
        written.update(node.output)
        while position < len(before) and all(o in written for o in before[position].output if o):
            position += 1
    return result


def record(proto: onnx.NodeProto, name: str) -> Node:
    custom = find_operator(proto.domain, proto.op_type)
    if custom is not None:
        fields = tuple(proto.input), tuple(proto.output), tuple(proto.attribute)
        return Node(name, custom.key, *fields, CUSTOM_DOMAIN, (name,))
    domain = "" if proto.domain in OWN_DOMAINS else proto.domain
    node = Node(name, proto.op_type, tuple(proto.input), tuple(proto.output), tuple(proto.attribute), domain, (name,))
    refuse(node.name, node.op_type, node.attribute)
    refuse_flags(node.name, node.op_type, node.attributes)
    return node
