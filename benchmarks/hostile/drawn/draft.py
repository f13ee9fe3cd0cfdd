"""A network that grows node by node, with the type and shape of every value, as ONNX infers them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

MOST_ELEMENTS = 4096
"""Of one value, so that a network takes a fraction of a second."""

SIZES = (1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17)


@dataclass(frozen=True)
class Value:
    """A tensor of the network; ``steady`` if rounding cannot change it, so that a comparison of it has one answer."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    steady: bool

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass
class Draft:
    """Nodes so far. ``half``: floats will be rounded to float16, so that none of them is steady."""

    rng: Random
    opset: int
    half: bool
    values: list[Value] = field(default_factory=list[Value])
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    inputs: list[Value] = field(default_factory=list[Value])
    weights: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    def input(self, dtype: str, shape: Sequence[int]) -> Value:
        value = Value(f"x{len(self.inputs)}", np.dtype(dtype), tuple(shape), dtype != "float32" or not self.half)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def constant(self, array: np.ndarray | Sequence[int] | float, dtype: str | None = None) -> str:
        """An array that is known when the network is compiled."""
        name = f"w{len(self.weights)}"
        known = isinstance(array, np.ndarray | np.generic)
        self.weights[name] = np.asarray(array, dtype if dtype or known else np.int64)
        return name

    def noise(self, *shape: int, scale: float = 1.0) -> str:
        """Seeded weights from a normal distribution."""
        generator = np.random.Generator(np.random.PCG64(self.rng.getrandbits(32)))
        return self.constant((generator.standard_normal(shape) * scale).astype(np.float32))

    def pick(self, where: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """A value for which this holds; later ones rather than earlier ones."""
        values = [v for v in self.values if where(v)]
        return values[max(self.rng.randrange(len(values)) for _ in range(2))] if values else None

    def floats(self, rank: int = 0) -> Value | None:
        return self.pick(lambda v: v.dtype == np.float32 and v.rank >= rank)

    def node(
        self, operator: str, inputs: Sequence[str | Value], *, outputs: int = 1, steady: bool = False, **attributes: Any
    ) -> list[Value]:
        """Append a node if ONNX infers static shapes of its outputs, and these are small; else nothing."""
        names = [value.name if isinstance(value, Value) else value for value in inputs]
        results = [f"v{len(self.nodes)}_{position}" for position in range(outputs)]
        attributes = {name: value for name, value in attributes.items() if value is not None}
        node = helper.make_node(operator, names, results, f"{operator.lower()}.{len(self.nodes)}", **attributes)
        inferred = self._inferred(node)
        if len(inferred) != outputs or any(not 1 <= math.prod(shape) <= MOST_ELEMENTS for _, shape in inferred):
            return []
        self.nodes.append(node)
        new = [
            Value(name, dtype, shape, steady or dtype.kind != "f")
            for name, (dtype, shape) in zip(results, inferred, strict=True)
        ]
        self.values += new
        return new

    def _inferred(self, node: onnx.NodeProto) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
        """Types and shapes of a node's outputs; none where they depend on data or the node is invalid."""
        known = {value.name: value for value in self.values}
        ports = [_port(known[name]) for name in dict.fromkeys(node.input) if name in known]
        weights = [numpy_helper.from_array(self.weights[n], n) for n in dict.fromkeys(node.input) if n in self.weights]
        results = [onnx.ValueInfoProto(name=name) for name in node.output]
        graph = helper.make_graph([node], "node", ports, results, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        try:
            model = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except shape_inference.InferenceError:
            return []
        types = [output.type.tensor_type for output in model.graph.output]
        if any(not t.HasField("shape") or any(not d.HasField("dim_value") for d in t.shape.dim) for t in types):
            return []
        return [
            (np.dtype(helper.tensor_dtype_to_np_dtype(t.elem_type)), tuple(d.dim_value for d in t.shape.dim))
            for t in types
        ]

    def model(self, batch: str | None) -> onnx.ModelProto:
        """The network; its outputs are what no node reads. ``batch`` names the first dimension of the inputs."""
        read = {name for node in self.nodes for name in node.input}
        used = [value for value in self.inputs if value.name in read]
        written = {name for node in self.nodes for name in node.output}
        sinks = [value for value in self.values if value.name in written - read]
        ports = [_port(value, batch) for value in used]
        results = [_port(value) for value in sinks]
        if batch is not None:
            for result in results:
                result.type.tensor_type.ClearField("shape")
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items() if name in read]
        graph = helper.make_graph(self.nodes, "drawn", ports, results, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def _port(value: Value, batch: str | None = None) -> onnx.ValueInfoProto:
    shape: list[int | str] = list(value.shape)
    if batch is not None and shape:
        shape[0] = batch
    return helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(value.dtype), shape)
