"""Additions and means of dequantised tensors become additions and sums of integers.

q = Quantise(Dequantise(a) + Dequantise(b))     becomes     q = Addition(a, b)
q = Quantise(mean of Dequantise(x))             becomes     q = Quantise(Total(x) - count * zero)
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..onnx.inline import Node
from .integer_nodes import addition
from .integer_sums import totals
from .parameters import EIGHT_BITS
from .quantised_network import QuantisedNetwork
from .quantised_results import clip, convert_sums, target_of, unclipped

_MOST_POSITIONS = 1 << 16
"""Of a mean: its sum is a float32 without rounding then."""


def rewrite_sum(quantised: QuantisedNetwork, node: Node) -> bool:
    """Rewrite an addition of two dequantised tensors of one shape, of which the result is quantised."""
    if node.op_type != "Add":
        return False
    constants, infos = quantised.network.constants, quantised.network.infos
    first, second = (quantised.source(name) for name in node.inputs)
    target = target_of(quantised, node)
    if first is None or second is None or target is None:
        return False
    if len({infos[t.tensor].shape for t in (first, second, target.integers)}) > 1:
        return False
    if not all(t.ordered for t in (first, second, target.integers)):
        return False
    if not all(t.whole and t.dtype in EIGHT_BITS and t.tensor not in constants for t in (first, second)):
        return False
    # Ratios of scales are factors and divisors of float32.
    if not all(0 < float(t.scale / target.integers.scale) < np.inf for t in (first, second)):
        return False
    integers = unclipped(quantised, target)
    quantised.nodes.append(addition(node, first, second, target.integers, integers))
    clip(quantised, node, target, integers)
    return True


def rewrite_mean(quantised: QuantisedNetwork, node: Node) -> bool:
    """Rewrite a mean over all positions of a dequantised tensor: a sum, of which the count is part of the factor."""
    source = quantised.source(node.inputs[0]) if node.op_type == "GlobalAveragePool" else None
    if source is None or not source.whole or source.dtype not in EIGHT_BITS:
        return False
    if source.tensor in quantised.network.constants:
        return False
    shape = quantised.network.infos[source.tensor].shape
    count = prod(shape[2:])
    if count > _MOST_POSITIONS:
        return False
    nodes = quantised.nodes
    sums = totals(nodes, node, source.tensor, range(2, len(shape)))
    if source.zero:
        zeros = nodes.constant(node, "zeros", np.array(-count * source.zero, np.int32))
        sums = nodes.add("Add", "shifted", node, (sums, zeros), quantised.network.infos[sums])
    convert_sums(quantised, node, sums, np.asarray(source.scale.astype(np.float64) / count), 1)
    return True
