"""A notebook for writing an ONNX graph: values are strings, nodes are appended in execution order.

Contract: a node has one output, and the output carries the node's name, so that `layer1.0.conv2` names the
same thing in the file, in the plan and in a trace. Every weight is drawn (see `draws`) from a stream of its own,
seeded by the model's seed and the weight's name; a layer's weights therefore do not change when another layer is
added before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import draws

OPSET = 17
IR_VERSION = 8
BATCH = "N"
"""The symbolic dimension that comes first in every input and output."""

Value: TypeAlias = str
"""The name of a tensor in the graph."""


class Builder:
    """Collects inputs, weights and nodes; `model` seals them."""

    def __init__(self, name: str, seed: int) -> None:
        self._name = name
        self._seed = seed
        self._inputs: list[onnx.ValueInfoProto] = []
        self._weights: dict[Value, onnx.TensorProto] = {}
        self._nodes: dict[Value, onnx.NodeProto] = {}

    def input(self, name: Value, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> Value:
        """A graph input of shape [N, *shape]."""
        self._inputs.append(helper.make_tensor_value_info(name, dtype, [BATCH, *shape]))
        return name

    def normal(self, name: Value, shape: Sequence[int], *, mean: float = 0.0, std: float = 1.0) -> Value:
        return self.constant(name, draws.normal(self._stream(name), shape, mean=mean, std=std))

    def uniform(self, name: Value, shape: Sequence[int], low: float, high: float) -> Value:
        return self.constant(name, draws.uniform(self._stream(name), shape, low, high))

    def filters(self, name: Value, shape: Sequence[int], *, gain: float, out_axis: int = 0) -> Value:
        return self.constant(name, draws.filters(self._stream(name), shape, gain=gain, out_axis=out_axis))

    def constant(self, name: Value, array: npt.NDArray[np.generic]) -> Value:
        """An initialiser holding `array`; asking again for the same name returns the first one."""
        if name not in self._weights:
            self._weights[name] = numpy_helper.from_array(array, name)
        return name

    def ints(self, name: Value, values: Sequence[int]) -> Value:
        """An int64 vector, as Reshape and Expand want their shapes."""
        return self.constant(name, np.array(values, dtype=np.int64))

    def scalar(self, name: Value, value: float) -> Value:
        return self.constant(name, np.array(value, dtype=np.float32))

    def node(self, op: str, name: Value, *inputs: Value, **attributes: Any) -> Value:
        """Append one node of ONNX operator `op`; its only output is called `name` as well."""
        if name in self._nodes:
            raise ValueError(f"two nodes are called {name!r}")
        self._nodes[name] = helper.make_node(op, list(inputs), [name], name=name, **attributes)
        return name

    def model(self, output: Value, shape: Sequence[int]) -> onnx.ModelProto:
        """The finished network, whose one output has shape [N, *shape]."""
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, [BATCH, *shape])
        graph = helper.make_graph(list(self._nodes.values()), self._name, self._inputs, [result])
        # Handing the weights over one by one frees each before the next is copied.
        while self._weights:
            graph.initializer.append(self._weights.pop(next(iter(self._weights))))
        imports = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION, producer_name="girih")

    def _stream(self, name: Value) -> np.random.Generator:
        return draws.generator(self._seed, name)
