"""What the result of a node is quantised as, and how it is computed from sums of integers.

q = Quantise(Clip(factor * sums))     becomes     q = Min(Max(Quantise(sums), least), most)
y = factor * sums                     becomes     y = Dequantise(sums)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..onnx.inline import Node
from .integer_nodes import dequantise, quantise
from .parameters import EIGHT_BITS, Quantised, parameters
from .quantised_network import QuantisedNetwork, real_attribute


@dataclass(frozen=True)
class Target:
    """The integers that a result is quantised to, and the limits of a ReLU or Clip in front of the QuantizeLinear.

    A limit is in the integers' unit, and ``None`` where it is not tighter than their dtype.
    """

    integers: Quantised
    least: int | None
    most: int | None


def target_of(quantised: QuantisedNetwork, node: Node) -> Target | None:
    """What a QuantizeLinear makes of the result of a node, if nothing else reads that but ReLUs and Clips between them.

    ``None``: the result is read as real numbers, or quantised with several scales or to other than 8 bits.
    """
    real, low, high = node.outputs[0], -np.inf, np.inf
    while (reader := quantised.only_reader(real)) is not None and (limits := _limits(quantised, reader)) is not None:
        # The last one decides, where they exclude each other.
        low, high = (min(max(v, limits[0]), limits[1]) for v in (low, high))
        real = reader.outputs[0]
    last = quantised.only_reader(real)
    known = parameters(quantised.network, last) if last is not None and last.op_type == "QuantizeLinear" else None
    if known is None or not known.whole or known.dtype not in EIGHT_BITS or not known.scale:
        return None
    bounds = np.iinfo(known.dtype)
    # A negative scale turns their order round.
    ends = sorted(v / float(known.scale) for v in (low, high))
    least, most = (np.clip(np.rint(v) + known.zero, bounds.min, bounds.max) for v in ends)
    return Target(known, int(least) if least > bounds.min else None, int(most) if most < bounds.max else None)


def _limits(quantised: QuantisedNetwork, node: Node) -> tuple[float, float] | None:
    """The least and the largest result of a ReLU, or of a Clip whose limits are constant; ``None`` for other nodes."""
    if node.op_type == "Relu":
        return 0.0, np.inf
    if node.op_type != "Clip":
        return None
    values = [quantised.network.constants.get(i) if i else None for i in (*node.inputs[1:], "", "")[:2]]
    if any(i and v is None for i, v in zip(node.inputs[1:], values, strict=False)):
        return None
    # Before operator set 11, they are attributes.
    named = real_attribute(node, "min", -np.inf), real_attribute(node, "max", np.inf)
    low, high = (n if v is None else float(v.reshape(-1)[0]) for n, v in zip(named, values, strict=True))
    return low, high


def unclipped(quantised: QuantisedNetwork, target: Target) -> str:
    """The tensor to compute before :func:`clip`: that of the target, or a new one if the target has limits."""
    name = target.integers.tensor
    has_limits = target.least is not None or target.most is not None
    return quantised.nodes.value(f"{name}.unclipped", quantised.network.infos[name]) if has_limits else name


def clip(quantised: QuantisedNetwork, node: Node, target: Target, integers: str) -> None:
    """Apply the limits of the target to a tensor of integers, which has the result of the QuantizeLinear then."""
    nodes, info = quantised.nodes, quantised.network.infos[target.integers.tensor]
    for op_type, limit in (("Max", target.least), ("Min", target.most)):
        if limit is not None:
            value = nodes.constant(node, op_type.lower(), np.array(limit, target.integers.dtype))
            integers = nodes.add(op_type, op_type.lower(), node, (integers, value), info)
    quantised.computed[target.integers.tensor] = integers


def convert_sums(
    quantised: QuantisedNetwork, node: Node, sums: str, factor: np.ndarray, columns: int, bias: np.ndarray | None = None
) -> None:
    """Compute the result of a node from sums of integers: quantise them if it has a target, or dequantise them.

    ``factor``: the real number that a sum of 1 stands for, or one for each index of dimension ``columns``. ``bias``:
    real numbers, one for each index of that dimension, which are added to what is dequantised.
    """
    target = target_of(quantised, node)
    if target is None:
        _dequantise(quantised, node, sums, factor, columns, bias)
        return
    known = target.integers
    scale = quantised.nodes.constant(node, "factor", (factor.astype(np.float32) / known.scale).astype(np.float32))
    integers = unclipped(quantised, target)
    quantised.nodes.append(quantise(node.name, node.origin, sums, scale, integers, known.zero, known.dtype, columns))
    clip(quantised, node, target, integers)


def _dequantise(
    quantised: QuantisedNetwork, node: Node, sums: str, factor: np.ndarray, columns: int, bias: np.ndarray | None
) -> None:
    """Compute the result of a node as real numbers: the sums times the factor, and the bias added to that."""
    nodes, result = quantised.nodes, node.outputs[0]
    scale, info = nodes.constant(node, "factor", factor.astype(np.float32)), quantised.network.infos[result]
    real = result if bias is None else nodes.value(f"{result}.product", info)
    nodes.append(dequantise(node.name, node.origin, sums, scale, real, 0, columns))
    if bias is not None:
        around = bias.astype(np.float32).reshape(-1, *(1 for _ in info.shape[columns + 1 :]))
        term = nodes.constant(node, "bias", around)
        nodes.append(Node(f"{node.name}.biased", "Add", (real, term), (result,), origin=node.origin))
