"""A notebook for writing an ONNX graph: values are strings, nodes are appended in execution order.

Contract: a node has one output, and the output carries the node's name, so that `layer1.0.conv2` names the
same thing in the file, in the plan and in a trace. Every weight is drawn (see `draws`) from a stream of its own,
seeded by the model's seed and the weight's name; a layer's weights therefore do not change when another layer is
added before it. Weights are drawn when the network is finished, so that one that is too large costs no memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..ir.errors import UsageError
from . import draws

OPSET = 17
IR_VERSION = 8
BATCH = "N"
"""The symbolic dimension that comes first in every input and output."""
MOST_BYTES = 2_000_000_000
"""Of all weights of a network. An ONNX file ends at 2 GiB, and has names and nodes as well."""
LARGEST = 2**31 - 1
"""The largest extent of an input, as when networks are imported."""

Value: TypeAlias = str
"""The name of a tensor in the graph."""


class Builder:
    """Collects inputs, weights and nodes; `model` seals them.

    Raises `UsageError` for an input with an extent of more than `LARGEST`, and as soon as weights take more than
    `MOST_BYTES`.
    """

    def __init__(self, name: str, seed: int) -> None:
        self._name = name
        self._seed = seed
        self._inputs: list[onnx.ValueInfoProto] = []
        self._weights: dict[Value, Callable[[], npt.NDArray[np.generic]]] = {}
        self._bytes = 0
        self._nodes: dict[Value, onnx.NodeProto] = {}

    def input(self, name: Value, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> Value:
        """A graph input of shape [N, *shape]."""
        if max(shape, default=0) > LARGEST:
            raise UsageError(
                f"input {name!r} of {self._name} would have an extent of {max(shape):,}, and at most {LARGEST:,} can "
                "be compiled; give smaller parameters"
            )
        self._inputs.append(helper.make_tensor_value_info(name, dtype, [BATCH, *shape]))
        return name

    def normal(self, name: Value, shape: Sequence[int], *, mean: float = 0.0, std: float = 1.0) -> Value:
        return self.drawn(name, shape, 4, lambda: draws.normal(self._stream(name), shape, mean=mean, std=std))

    def uniform(self, name: Value, shape: Sequence[int], low: float, high: float) -> Value:
        return self.drawn(name, shape, 4, lambda: draws.uniform(self._stream(name), shape, low, high))

    def filters(self, name: Value, shape: Sequence[int], *, gain: float, out_axis: int = 0) -> Value:
        return self.drawn(
            name, shape, 4, lambda: draws.filters(self._stream(name), shape, gain=gain, out_axis=out_axis)
        )

    def constant(self, name: Value, array: npt.NDArray[np.generic]) -> Value:
        """An initialiser holding `array`; asking again for the same name returns the first one."""
        return self.drawn(name, array.shape, array.itemsize, lambda: array)

    def drawn(
        self, name: Value, shape: Sequence[int], itemsize: int, draw: Callable[[], npt.NDArray[np.generic]]
    ) -> Value:
        """An initialiser that `draw` makes, with elements of `itemsize` bytes, unless there is one of this name."""
        if name not in self._weights:
            self._bytes += math.prod(shape) * itemsize
            if self._bytes > MOST_BYTES:
                raise UsageError(
                    f"{self._name} would have weights of at least {self._bytes:,} bytes, {name!r} with them, and an "
                    f"ONNX file can have {MOST_BYTES:,}; give smaller parameters"
                )
            self._weights[name] = draw
        return name

    def ints(self, name: Value, values: Sequence[int]) -> Value:
        """An int64 vector, as Reshape and Expand want their shapes."""
        return self.drawn(name, [len(values)], 8, lambda: np.array(values, dtype=np.int64))

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
        # One by one: each is freed before the next is drawn.
        for name, draw in self._weights.items():
            graph.initializer.append(numpy_helper.from_array(draw(), name))
        imports = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION, producer_name="girih")

    def _stream(self, name: Value) -> np.random.Generator:
        return draws.generator(self._seed, name)
