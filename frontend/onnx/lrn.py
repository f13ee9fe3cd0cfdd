"""Local response normalisation over an even number of channels, which TVM's importer lacks.

    y[c] = x[c] / (bias + alpha/size · Σ x[i]²) ** beta     over c - ⌊(size-1)/2⌋ ≤ i ≤ c + ⌈(size-1)/2⌉

(Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", NeurIPS 2012, section 3.3; ONNX).
The sum is a pool of squares, whose first dimension is that of the channels.
"""

from __future__ import annotations

import numpy as np
from onnx import helper

from ...ir.errors import UsageError
from ..net.net import Info, fresh
from .prepare import Network, Node


def expand_even_lrn(network: Network) -> None:
    """Replace, in place, each LRN of even size by the operators that define it."""
    nodes: list[Node] = []
    for node in network.nodes:
        even = node.op_type == "LRN" and _number(node, "size", 1) % 2 == 0
        nodes += _expanded(node, network) if even and node.inputs[0] in network.infos else [node]
    network.nodes = nodes


def _number(node: Node, name: str, default: float) -> float:
    value = node.attribute(name, default)
    if not isinstance(value, int | float):
        raise UsageError(f"node {node.name!r}: the attribute {name} is no number")
    return value


def _expanded(node: Node, network: Network) -> list[Node]:
    nodes: list[Node] = []

    def add(
        op_type: str, *inputs: str, shape: tuple[int, ...] | None = None, last: bool = False, **attributes: object
    ) -> str:
        result = node.outputs[0] if last else fresh(f"{node.outputs[0]}.{op_type.lower()}", network.infos)
        network.infos.setdefault(result, info if shape is None else Info(shape, info.dtype))
        protos = tuple(helper.make_attribute(key, value) for key, value in attributes.items())
        nodes.append(Node(node.name, op_type, inputs, (result,), protos, origin=node.origin))
        return result

    def constant(name: str, value: np.ndarray) -> str:
        return network.add_constant(f"{node.name}.{name}", value)

    def number(name: str, default: float) -> str:
        return constant(name, np.array(_number(node, name, default), info.dtype))

    source, size = node.inputs[0], int(_number(node, "size", 1))
    info = network.infos[source]
    batch, *others = info.shape
    rows = batch, 1, *others
    squares = add("Reshape", add("Mul", source, source), constant("rows", np.array(rows)), shape=rows)
    flat = [0] * (len(others) - 1)
    pads = [(size - 1) // 2, *flat, size // 2, *flat]
    kernel = [size, *(1 for _ in flat)]
    mean = add("AveragePool", squares, shape=rows, kernel_shape=kernel, pads=pads, count_include_pad=1)
    mean = add("Reshape", mean, constant("shape", np.array(info.shape)))
    scale = add("Add", add("Mul", mean, number("alpha", 1e-4)), number("bias", 1.0))
    add("Div", source, add("Pow", scale, number("beta", 0.75)), last=True)
    return nodes
