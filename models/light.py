"""The nine image classifiers that the onnx package carries for its own tests, with weights that mean something.

They come as graphs alone: a weight is a constant fill of 0.02, or a vector left over from training that fits
nothing any more. `randomise` replaces them all by seeded draws that suit the place where each is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import helper, numpy_helper

from ..ir.errors import UsageError
from . import draws
from .builder import IR_VERSION
from .layers import BRANCH_SCALE, LINEAR, OFFSET, rectified_gain

_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
_PREFIX = "light_"

_VIEWS = frozenset({"Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that hand a weight on to its true user, draws and all."""

_PASSING = _VIEWS | {"AveragePool", "Concat", "Dropout", "Flatten", "GlobalAveragePool", "LRN", "MaxPool"}
"""Operators whose output is rectified if their input is."""

_DRAWN = frozenset({"Add", "BatchNormalization", "Conv", "Gemm", "MatMul", "Mul"})
"""Operators that have weights."""

_PLAIN_OFFSET = 0.5
"""The offset of layers with biases of their own: up to 26 in a row, without normalisations or shortcuts between."""


@dataclass(frozen=True)
class _Use:
    """Where a weight goes: input `slot` of `node`. The other three keep the variance of the node's output."""

    node: onnx.NodeProto
    slot: int
    gain: float
    offset: float
    scale: float


def light_names() -> tuple[str, ...]:
    """The networks that `light` knows, in alphabetical order."""
    return tuple(sorted(path.stem.removeprefix(_PREFIX) for path in _FOLDER.glob(f"{_PREFIX}*.onnx")))


def light(name: str, seed: int = 0) -> onnx.ModelProto:
    """The network `name` with random weights; its batch is 1, as in the file. UsageError on an unknown name."""
    if name not in light_names():
        raise UsageError(f"unknown light model {name!r}; choose one of {', '.join(light_names())}")
    return randomise(onnx.load(_FOLDER / f"{_PREFIX}{name}.onnx"), seed)


def randomise(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """A copy whose float weights are seeded initialisers that keep the variance of activations healthy.

    A weight is an initialiser, or a ConstantOfShape over one, that reaches an operator of `_draw` directly or
    through views. Integers (shapes) and scalars stay; what is no longer used goes. A node without a name takes its
    output's.
    """
    graph = model.graph
    fills = {node.output[0]: node for node in graph.node if _is_fill(node)}
    stored = {tensor.name: tensor for tensor in graph.initializer}
    uses = _uses(graph)
    nodes = [_named(node) for node in graph.node if node.output[0] not in fills or node.output[0] not in uses]
    read = {name for node in nodes for name in node.input}
    copy = helper.make_graph(
        nodes, graph.name, [i for i in graph.input if i.name not in stored and i.name in read], graph.output
    )
    for name in sorted(read & (fills.keys() | stored.keys())):
        if name not in uses:
            copy.initializer.append(stored[name])
            continue
        shape = _filled_shape(fills[name], stored) if name in fills else tuple(stored[name].dims)
        copy.initializer.append(numpy_helper.from_array(_draw(uses[name], shape, seed, name), name))
    # From version 4 of the format on, an initialiser need not be an input as well.
    return helper.make_model(
        copy,
        opset_imports=model.opset_import,
        ir_version=max(model.ir_version, IR_VERSION),
        producer_name=model.producer_name,
    )


def _is_fill(node: onnx.NodeProto) -> bool:
    """Whether a node fills a shape with one float (the default is 0.0)."""
    value = [a.t.data_type for a in node.attribute if a.name == "value"]
    return node.op_type == "ConstantOfShape" and value in ([], [onnx.TensorProto.FLOAT])


def _named(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.name = node.name or node.output[0]
    return copy


def _filled_shape(fill: onnx.NodeProto, stored: dict[str, onnx.TensorProto]) -> tuple[int, ...]:
    shape = stored.get(fill.input[0])
    if shape is None:
        raise UsageError(f"{fill.output[0]!r} is filled to a shape that is not constant; give weights a fixed shape")
    return tuple(int(extent) for extent in numpy_helper.to_array(shape))


def _uses(graph: onnx.GraphProto) -> dict[str, _Use]:
    """The weight-like inputs of the graph: a map from tensor name to the place that decides its draws."""
    weights = {t.name for t in graph.initializer if t.dims and t.data_type == onnx.TensorProto.FLOAT}
    weights |= {node.output[0] for node in graph.node if _is_fill(node)}
    origin = {name: name for name in weights}
    for node in graph.node:
        if node.op_type in _VIEWS and node.input[0] in origin:
            origin[node.output[0]] = origin[node.input[0]]
    makers = {name: node for node in graph.node for name in node.output}
    summed = _summed(graph, frozenset(origin))

    def offset(node: onnx.NodeProto) -> float:
        return _PLAIN_OFFSET if node.op_type in ("Conv", "Gemm") and len(node.input) > 2 else OFFSET

    return {
        origin[name]: _Use(
            node,
            slot,
            gain=rectified_gain(offset(node)) if _rectified(node.input[0], makers) else LINEAR,
            offset=offset(node),
            scale=BRANCH_SCALE if node.output[0] in summed else 1.0,
        )
        for node in graph.node
        if node.op_type in _DRAWN
        for slot, name in enumerate(node.input)
        if name in origin
    }


def _rectified(name: str, makers: dict[str, onnx.NodeProto]) -> bool:
    """Whether a ReLU made the tensor, or the tensor that it was moved or pooled from."""
    while name in makers and makers[name].op_type in _PASSING:
        name = makers[name].input[0]
    return name in makers and makers[name].op_type == "Relu"


def _summed(graph: onnx.GraphProto, constant: frozenset[str]) -> frozenset[str]:
    """Values that meet another in a residual sum."""
    return frozenset(
        name
        for node in graph.node
        if node.op_type in ("Add", "Sum") and not constant & set(node.input)
        for name in node.input
    )


def _draw(use: _Use, shape: tuple[int, ...], seed: int, name: str) -> draws.FloatArray:
    """Random values for a weight, by the operator that uses it and the slot that it fills."""
    rng = draws.generator(seed, name)
    match use.node.op_type, use.slot:
        case "Conv", 1:
            return draws.filters(rng, shape, gain=use.gain)
        case "Gemm", 1:
            transposed = any(a.name == "transB" and a.i for a in use.node.attribute)
            # A view may still have to take ones off the front.
            first = next((axis for axis, extent in enumerate(shape) if extent > 1), 0)
            return draws.filters(rng, shape, gain=use.gain, out_axis=first if transposed else len(shape) - 1)
        case "MatMul", 1:
            return draws.filters(rng, shape, gain=use.gain, out_axis=len(shape) - 1)
        case "BatchNormalization", 1:
            return draws.uniform(rng, shape, 0.8 * use.scale, 1.2 * use.scale)
        case "Conv" | "Gemm" | "BatchNormalization", 2:
            return draws.normal(rng, shape, std=use.offset * use.scale)
        case "BatchNormalization", 4:
            return draws.uniform(rng, shape, 0.5, 2.0)
        case "Mul", _:
            return draws.uniform(rng, shape, 0.8, 1.2)
        case _:
            return draws.normal(rng, shape, std=0.1)
