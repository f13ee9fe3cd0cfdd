"""The ONNX model, cleaned: static shapes, no functions, nothing left to compute that is already known.

ModelProto ──inline functions──► ──fold constants and shapes──► ──rewrite──► Network
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from ...ir.errors import UnsupportedError, UsageError
from ...ir.graph import DTYPES
from ..net.net import Info, fresh
from . import dims
from .inline import HANDLED, Node, declare, inline, proto_of

FOLD_BYTES = 1 << 30
"""No constant larger than this is computed at import."""

RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


__all__ = ["HANDLED", "Network", "Node", "prepare"]


@dataclass
class Network:
    """A cleaned model. ``infos`` hold shapes and dtypes of inputs, outputs and constants, and of what was inferred."""

    opset: int
    inputs: list[str]
    outputs: list[str]
    nodes: list[Node]
    infos: dict[str, Info]
    constants: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    def add_constant(self, name: str, array: np.ndarray) -> str:
        """A new constant; returns its name, which is ``name`` or, if that is taken, ``name`` with a number."""
        name = fresh(name, ChainMap(self.infos, self.constants))  # type: ignore[arg-type]
        self.constants[name] = array
        self.infos[name] = Info(array.shape, array.dtype.name)
        return name


def prepare(model: onnx.ModelProto, sizes: Mapping[str, int], importable: Callable[[str], bool]) -> Network:
    """Clean a model whose symbolic dimensions have ``sizes``; ``importable`` tells which operators TVM takes."""
    light, weights = strip(model)
    dims.apply(light, sizes)
    nodes, opsets = inline(light, weights, importable)
    del light.graph.node[:], light.functions[:], light.opset_import[:]
    light.opset_import.extend(opsets)
    network = Network(
        next(o.version for o in opsets if o.domain in ("", "ai.onnx")),
        [v.name for v in dims.network_inputs(model)],
        [v.name for v in light.graph.output],
        nodes,
        {},
        weights,
    )
    fold(network, light)
    return network


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
    if source.sparse_initializer:
        raise UnsupportedError("sparse weights are not supported")
    weights: dict[str, np.ndarray] = {}
    for tensor in source.initializer:
        try:
            weights[tensor.name] = numpy_helper.to_array(tensor)
        except Exception as error:
            raise UsageError(f"the weight {tensor.name!r} cannot be read: {error}") from error
    return light, weights


def _present(message: onnx.ModelProto, name: str) -> bool:
    return any(f.name == name for f, _ in message.ListFields())


def fold(network: Network, light: onnx.ModelProto) -> None:
    """Infer shapes and compute what is constant, until nothing changes; then apply the rewrites."""
    for _ in range(6):
        network.infos = infer(network, light)
        before = len(network.nodes)
        fold_once(network, light)
        if len(network.nodes) == before:
            break
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
    """Static shapes and dtypes of all values for which ONNX can tell them."""
    model = onnx.ModelProto()
    model.CopyFrom(light)
    graph = model.graph
    del graph.node[:]
    for node in network.nodes:
        graph.node.append(proto_of(node))
    declare(graph, network.constants)
    try:
        model = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError as error:
        raise UsageError(f"the model is inconsistent: {str(error).strip().splitlines()[-1]}") from error
    infos: dict[str, Info] = {}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        info = info_of(value)
        if info is not None:
            infos[value.name] = info
    for name, array in network.constants.items():
        infos[name] = Info(array.shape, array.dtype.name)
    return infos


def info_of(value: onnx.ValueInfoProto) -> Info | None:
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    tensor = value.type.tensor_type
    if any(not d.HasField("dim_value") for d in tensor.shape.dim):
        return None
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    except KeyError:
        return None
    return Info(tuple(d.dim_value for d in tensor.shape.dim), dtype)


def fold_once(network: Network, light: onnx.ModelProto) -> None:
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
    """The node's results, if they can be computed now."""
    if node.op_type in ("Shape", "Size") and node.inputs[0] in network.infos:
        shape = network.infos[node.inputs[0]].shape
        if node.op_type == "Size":
            return [np.array(math.prod(shape), np.int64)]
        start, end = node.attribute("start", 0), node.attribute("end", None)
        return [np.array(shape, np.int64)[slice(start, end)]]  # type: ignore[misc]
    constant = network.constants
    if node.op_type in RANDOM or any(i and i not in constant for i in node.inputs):
        return None
    if any(a.HasField("g") or a.graphs for a in node.attributes):
        return None
    info = next((network.infos[o] for o in node.outputs if o in network.infos), None)
    if info is not None and info.elements * DTYPES.get(info.dtype, 8) > FOLD_BYTES:
        return None
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
    return values if all(v.dtype.kind in "fiub" for v in values) else None
