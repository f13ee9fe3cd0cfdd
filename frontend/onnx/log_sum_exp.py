"""Logarithms of sums of exponentials, of which TVM makes a NaN where all numbers are -inf, or one is inf.

It subtracts the maximum before, and -inf - -inf is no number. What is subtracted here is finite:

    y = ReduceLogSumExp(x)    becomes    m = ReduceMax(x), or 0 if that is infinite; y = ReduceLogSum(Exp(x - m)) + m
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import helper

from ...ir.graph import FLOATS
from ..net.net import Info
from .inline import Node
from .prepare import Network


def subtract_finite_maxima(network: Network) -> None:
    """Rewrite every ReduceLogSumExp of floats in place."""
    network.nodes = [part for node in network.nodes for part in _parts(node, network)]


def _parts(node: Node, network: Network) -> list[Node]:
    info = network.infos.get(node.inputs[0]) if node.op_type == "ReduceLogSumExp" and not node.domain else None
    result = network.infos.get(node.outputs[0])
    if info is None or result is None or info.dtype not in FLOATS:
        return [node]
    parts: list[Node] = []

    def add(op_type: str, name: str, inputs: tuple[str, ...], like: Info | None = None, **changes: object) -> str:
        output = f"{node.outputs[0]}/{name}"
        kept = tuple(a for a in node.attributes if op_type.startswith("Reduce") and a.name not in changes)
        attributes = (*kept, *(helper.make_attribute(key, value) for key, value in changes.items()))
        parts.append(replace(node, op_type=op_type, inputs=inputs, outputs=(output,), attributes=attributes))
        if like is not None:
            network.infos[output] = like
        return output

    infinity, zero = (
        network.add_constant(name, np.array(value, info.dtype)) for name, value in (("infinity", np.inf), ("zero", 0))
    )

    def finite(name: str, value: str, like: Info | None = None) -> str:
        size = add("Abs", f"{name} size", (value,), like)
        infinite = add("Equal", f"{name} is not", (size, infinity), None if like is None else Info(like.shape, "bool"))
        return add("Where", name, (infinite, zero, value), like)

    source, *axes = node.inputs
    most = finite("most", add("ReduceMax", "kept maximum", node.inputs, keepdims=1))
    powers = add("Exp", "powers", (add("Sub", "less", (source, most), info),), info)
    total = add("ReduceLogSum", "logarithm", (powers, *axes), result)
    maximum = finite("finite maximum", add("ReduceMax", "maximum", node.inputs, result), result)
    return [*parts, replace(node, op_type="Add", inputs=(total, maximum), attributes=())]
