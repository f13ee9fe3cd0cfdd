"""The ONNX model, cleaned: static shapes, no functions, nothing left to compute that is already known.

ModelProto ──inline functions──► ──fold constants and shapes──► ──rewrite──► Network
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from ...ir.errors import UnsupportedError, UsageError
from ...ir.graph import DTYPES, FLOATS
from ..net.net import Info, fresh
from . import dims
from .checks.constant_operands import check_constant_operands
from .checks.limits import refuse_shape
from .checks.operand_shapes import check_operand_shapes
from .checks.operand_types import check_operand_types
from .custom_types import CustomResults, custom_infos, info_of, value_info, with_custom_types
from .forms.auto_pad import rounds_up, within_input
from .inline import HANDLED, MICROSOFT, SMALL, Node, declare, inline, proto_of
from .quantised_operators import expanded, widen_weights

FOLD_BYTES = 1 << 30
"""No constant larger than this is computed at import."""

_WIDENED = 4
"""How often an operator that only converts its operand may make it larger: int8 to float32."""

RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


__all__ = ["HANDLED", "Network", "Node", "prepare"]


Declared: TypeAlias = tuple[str | None, tuple[int | None, ...] | None]
"""The dtype and shape that a file declares for an output; ``None`` where it leaves something open."""


@dataclass
class Network:
    """A cleaned model. ``infos`` hold shapes and dtypes of inputs, outputs and constants, and of what was inferred."""

    opset: int
    inputs: list[str]
    outputs: list[str]
    nodes: list[Node]
    infos: dict[str, Info]
    declared: dict[str, Declared] = field(default_factory=dict[str, "Declared"])
    constants: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    def add_constant(self, name: str, array: np.ndarray) -> str:
        """A new constant; returns its name, which is ``name`` or, if that is taken, ``name`` with a number."""
        name = fresh(name, ChainMap(self.infos, self.constants))  # type: ignore[arg-type]
        self.constants[name] = array
        self.infos[name] = Info(array.shape, array.dtype.name)
        return name


def prepare(
    model: onnx.ModelProto,
    sizes: Mapping[str, int],
    importable: Callable[[str], bool],
    custom_results: CustomResults | None = None,
) -> Network:
    """Clean a model whose symbolic dimensions have ``sizes``; ``importable`` tells which operators TVM takes.

    ``custom_results`` infers shapes and dtypes of the results of custom operators, which ONNX knows nothing of.
    """
    light, weights = strip(model)
    dims.apply(light, sizes)
    nodes, opsets = inline(light, weights, importable, lambda m: with_custom_types(m, weights, custom_results))
    widen_weights(nodes, weights)
    nodes = expanded(nodes, weights, next(o.version for o in opsets if o.domain in ("", "ai.onnx")))
    del light.graph.node[:], light.functions[:], light.opset_import[:]
    light.opset_import.extend(opsets)
    of_custom = {name for node in nodes if node.custom for name in node.outputs}
    between = (v for v in model.graph.value_info if v.name in of_custom)
    network = Network(
        next(o.version for o in opsets if o.domain in ("", "ai.onnx")),
        [v.name for v in dims.network_inputs(model)],
        [v.name for v in light.graph.output],
        nodes,
        {},
        {v.name: declared(v.type, model) for v in (*between, *model.graph.output)},
        weights,
    )
    fold(network, light, custom_results)
    return network


def declared(kind: onnx.TypeProto, model: onnx.ModelProto) -> Declared:
    """What a file declares for an output.

    Files whose inputs begin with a symbolic dimension often have the batch that they were exported with in the types of
    their outputs: that size is left open.
    """
    tensor = kind.tensor_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name if tensor.elem_type else None
    except KeyError:
        dtype = None
    if not tensor.HasField("shape"):
        return dtype, None
    symbolic = any(axis == 0 for value in dims.network_inputs(model) for axis, _ in dims.symbols(value))
    sizes = [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim]
    return dtype, tuple(None if symbolic and axis == 0 else size for axis, size in enumerate(sizes))


def strip(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model without its weights, and the weights. Shape inference then costs nothing."""
    light = onnx.ModelProto()
    for entry in model.DESCRIPTOR.fields:
        if entry.name == "graph" or not _present(model, entry.name):
            continue
        value = getattr(model, entry.name)
        if entry.is_repeated:
            getattr(light, entry.name).extend(value)
        elif entry.message_type is not None:
            getattr(light, entry.name).CopyFrom(value)
        else:
            setattr(light, entry.name, value)
    graph, source = light.graph, model.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.output.extend(source.output)
    graph.input.extend(dims.network_inputs(model))
    weights: dict[str, np.ndarray] = {}
    for tensor in source.initializer:
        try:
            weights[tensor.name] = numpy_helper.to_array(tensor)
        except Exception as error:
            raise UsageError(f"the weight {tensor.name!r} cannot be read: {error}") from error
    return light, weights


def _present(message: onnx.ModelProto, name: str) -> bool:
    return any(f.name == name for f, _ in message.ListFields())


def fold(network: Network, light: onnx.ModelProto, custom_results: CustomResults | None) -> None:
    """Infer shapes and compute what is constant, until nothing changes; then apply the rewrites."""
    while True:
        network.infos = infer(network, light)
        before = len(network.nodes)
        fold_once(network, light, custom_results)
        if len(network.nodes) == before:
            break
    for node in network.nodes:
        for info in (network.infos[o] for o in node.outputs if o in network.infos):
            refuse_shape(node.name, node.op_type, info.shape)
        if node.inputs and node.inputs[0] in network.infos:
            check_constant_operands(node, network.infos[node.inputs[0]].shape, network.constants)
        check_operand_types(node, network.opset, network.infos)
        check_operand_shapes(node, network.infos)
    network.nodes = [without_empty(node, network.constants) for node in network.nodes]
    used = {name for node in network.nodes for name in node.inputs} | set(network.outputs)
    network.constants = {n: a for n, a in network.constants.items() if n in used}
    network.infos |= {n: Info(a.shape, a.dtype.name) for n, a in network.constants.items()}


def without_empty(node: Node, constants: Mapping[str, np.ndarray]) -> Node:
    """Exporters give a Resize an empty tensor for the inputs that they leave out."""
    if node.op_type != "Resize":
        return node
    inputs = tuple("" if i in constants and not constants[i].size else i for i in node.inputs)
    return replace(node, inputs=inputs)


def infer(network: Network, light: onnx.ModelProto) -> dict[str, Info]:
    """Static shapes and dtypes of all values for which ONNX can tell them.

    ONNX infers pools as it defines them from operator set 22 on, by the shapes of their inputs: what is inferred for
    one pool may change the next.
    """
    infos = network.infos
    while any(rounds_up(node) for node in network.nodes):
        before, infos = infos, _inferred(network, light, infos, strict=False)
        if infos == before:
            break
    return _inferred(network, light, infos, strict=True)


def _inferred(network: Network, light: onnx.ModelProto, infos: Mapping[str, Info], *, strict: bool) -> dict[str, Info]:
    """The same, where ``infos`` are what is known of the inputs of pools."""
    model = onnx.ModelProto()
    model.CopyFrom(light)
    graph = model.graph
    del graph.node[:]
    for node in network.nodes:
        graph.node.extend(_inferable(within_input(node, infos)))
    declare(graph, network.constants)
    outputs = {value.name for value in graph.output}
    for name in (o for node in network.nodes if node.custom for o in node.outputs if o in network.infos):
        if name not in outputs:
            graph.value_info.append(value_info(name, network.infos[name]))
    try:
        model = shape_inference.infer_shapes(model, strict_mode=strict)
    except shape_inference.InferenceError as error:
        raise UsageError(f"the model is inconsistent: {str(error).strip().splitlines()[-1]}") from error
    except MemoryError as error:
        # ONNX holds the values of what it takes for a shape, however long it is.
        raise UsageError("the model has a value that is too large for its shapes to be inferred") from error
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    inferred = {value.name: info for value in values if (info := info_of(value.type)) is not None}
    return inferred | {name: Info(array.shape, array.dtype.name) for name, array in network.constants.items()}


def _inferable(node: Node) -> list[onnx.NodeProto]:
    """What ONNX is to infer for a node.

    Its inference, where it is strict, knows no type for what a GroupNormalization makes, which is that of its input. So
    is that of ONNX Runtime's SkipLayerNormalization, and that of its fourth result; ONNX knows nothing of it.
    """
    if (node.domain, node.op_type) in (("", "GroupNormalization"), (MICROSOFT, "SkipLayerNormalization")):
        outputs = [name for name in (*node.outputs[:1], *node.outputs[3:4]) if name]
        return [onnx.helper.make_node("Identity", node.inputs[:1], [name], name=node.name) for name in outputs]
    return [proto_of(node)]


def inferred_outputs(node: Node, network: Network, light: onnx.ModelProto) -> dict[str, Info]:
    """Of a node whose inputs are known by now: ONNX does not follow shapes that more than simple nodes compute."""
    constants, names = network.constants, [name for name in node.inputs if name]
    infos = {
        n: Info(constants[n].shape, constants[n].dtype.name) if n in constants else network.infos.get(n) for n in names
    }
    if any(info is None for info in infos.values()) or not onnx.defs.has(node.op_type, network.opset, node.domain):
        return {}
    schema = onnx.defs.get_schema(node.op_type, network.opset, node.domain)
    if schema.deprecated:
        return {}  # ONNX refuses to infer it, and exporters write it all the same (GroupNormalization in 18).
    types = {
        n: onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(i.dtype)), i.shape)
        for n, i in infos.items()
        if i is not None
    }
    small = {
        n: numpy_helper.from_array(constants[n], n) for n in names if n in constants and constants[n].size <= SMALL
    }
    try:
        outputs = shape_inference.infer_node_outputs(
            schema,
            proto_of(within_input(node, network.infos)),
            types,
            small,
            opset_imports=list(light.opset_import),
            ir_version=light.ir_version,
        )
    except (shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise UsageError(f"the model is inconsistent: node {node.name!r} ({node.op_type}): {reason}") from error
    values = {name: info_of(kind) for name, kind in outputs.items()}
    return {name: info for name, info in values.items() if info is not None}


def fold_once(network: Network, light: onnx.ModelProto, custom_results: CustomResults | None) -> None:
    kept: list[Node] = []
    outputs = frozenset(network.outputs)
    renamed: dict[str, str] = {}
    for node in network.nodes:
        if any(i in renamed for i in node.inputs):
            node = replace(node, inputs=tuple(renamed.get(i, i) for i in node.inputs))
        refuse_training(node, network.constants)
        source = through(node, network.constants, outputs)
        if source is not None:
            renamed[node.outputs[0]] = source
            continue
        values = known(node, network, light)
        if values is not None:
            network.constants.update({o: v for o, v in zip(node.outputs, values, strict=False) if o})
            continue
        if node.custom is not None:
            if custom_results is not None:
                network.infos |= custom_infos(node, network.infos, network.constants, custom_results)
        elif any(o and o not in network.infos for o in node.outputs):
            network.infos |= inferred_outputs(node, network, light)
        kept.append(node)
    network.nodes = kept
    # A graph output must keep its name: what was renamed to another tensor is copied.
    produced = {o for n in kept for o in n.outputs}
    for output in network.outputs:
        if output in renamed and output not in produced:
            source = renamed[output]
            while source in renamed:
                source = renamed[source]
            network.nodes.append(Node(output, "Identity", (source,), (output,), origin=(output,)))


def through(node: Node, constants: Container[str], outputs: Container[str]) -> str | None:
    """The input that the node hands on unchanged, if it does (graph outputs keep their own node)."""
    if node.outputs[0] in outputs and node.inputs and node.inputs[0] not in constants:
        return None
    if node.op_type == "Identity":
        return node.inputs[0]
    if node.op_type == "Dropout" and not any(node.outputs[1:]):
        return node.inputs[0]
    return None


def refuse_training(node: Node, constants: Mapping[str, np.ndarray]) -> None:
    """A Dropout that drops, by its third input."""
    mode = node.inputs[2:3]
    if node.op_type == "Dropout" and any(m and (m not in constants or constants[m].any()) for m in mode):
        raise UnsupportedError(f"node {node.name!r}: Dropout in training mode is not supported")


def known(node: Node, network: Network, light: onnx.ModelProto) -> list[np.ndarray] | None:
    """The node's results, if they can be computed now.

    Raises :class:`UnsupportedError` if a few constants make one that is too large to be computed at all.
    """
    if node.op_type in ("Shape", "Size") and node.inputs[0] in network.infos:
        shape = network.infos[node.inputs[0]].shape
        if node.op_type == "Size":
            return [np.array(math.prod(shape), np.int64)]
        start, end = node.attribute("start", 0), node.attribute("end", None)
        return [np.array(shape, np.int64)[slice(start, end)]]  # type: ignore[misc]
    constant = network.constants
    # What is dequantised may be multiplied as the integers that it was.
    if node.op_type in {*RANDOM, "DequantizeLinear"} or any(i and i not in constant for i in node.inputs):
        return None
    if any(a.HasField("g") or a.graphs for a in node.attributes):
        return None
    infos = network.infos if node.outputs[0] in network.infos else inferred_outputs(node, network, light)
    info = infos.get(node.outputs[0])
    size = 0 if info is None else info.elements * DTYPES.get(info.dtype, 8)
    if size > FOLD_BYTES:
        # Weights that are cast, transposed or reshaped are as large as the file made them.
        if size <= _WIDENED * sum(constant[i].nbytes for i in set(node.inputs) if i):
            return None
        raise UnsupportedError(
            f"node {node.name!r}: {node.op_type} makes a constant of {size:,} bytes; at most {FOLD_BYTES:,} are "
            "computed at import: make it smaller, or an input"
        )
    names = list(dict.fromkeys(i for i in node.inputs if i))
    graph = onnx.helper.make_graph(
        [proto_of(node)],
        "fold",
        [onnx.helper.make_empty_tensor_value_info(i) for i in names],
        [onnx.helper.make_empty_tensor_value_info(o) for o in node.outputs if o],
    )
    single = onnx.helper.make_model(graph, opset_imports=list(light.opset_import), ir_version=light.ir_version)
    try:
        with np.errstate(all="ignore"):
            results = iter(ReferenceEvaluator(single).run(None, {i: constant[i] for i in names}))
    except Exception:
        return None  # The reference has no kernel for it: TVM may.
    values = [np.asarray(next(results)) if o else np.zeros(0) for o in node.outputs]
    return values if all(v.dtype.kind in "iub" or v.dtype.name in FLOATS for v in values) else None
