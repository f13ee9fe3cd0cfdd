"""Operators that only move dequantised numbers move the integers instead.

q = Quantise(Reshape(Dequantise(x)))     becomes     q = Reshape(x), if both have the same parameters
y = Reshape(Dequantise(x))               becomes     y = Dequantise(Reshape(x))
"""

from __future__ import annotations

from dataclasses import replace

from ..net.net import Info
from ..onnx.inline import Node
from .conversions import requantise, rewrite_conversion
from .parameters import EIGHT_BITS, Quantised, parameters
from .quantised_network import QuantisedNetwork

_MOVEMENTS = frozenset(
    {"MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Identity", "Expand", "Tile",
     "DepthToSpace", "SpaceToDepth", "Gather", "Split"}
)  # fmt: skip
"""Operators whose results are some of the elements of their first input."""


def rewrite_movement(quantised: QuantisedNetwork, node: Node) -> bool:
    """Rewrite an operator of one result whose elements are all elements of dequantised tensors."""
    concat = node.op_type == "Concat"
    if not concat and (node.op_type not in _MOVEMENTS or any(node.outputs[1:])):
        return False
    sources = [quantised.source(name) for name in (node.inputs if concat else node.inputs[:1])]
    # Which number is the largest, integers tell only where they are in the order of the numbers.
    picks = node.op_type == "MaxPool"
    if picks and not all(s is None or s.ordered for s in sources):
        return False
    if not concat and _move_before_dequantising(quantised, node, sources[0]):
        return True
    return _move_without_dequantising(quantised, node, sources, picks=picks)


def _move_before_dequantising(quantised: QuantisedNetwork, node: Node, source: Quantised | None) -> bool:
    """Move the integers of the first input and dequantise what was moved, unless a QuantizeLinear reads the result.

    Returns whether the node could be rewritten so.
    """
    network, result = quantised.network, node.outputs[0]
    if source is None or not source.whole or source.dtype not in EIGHT_BITS:
        return False
    if source.tensor in network.constants or result not in network.infos:
        return False
    readers = quantised.readers.get(result, [])
    if result not in network.outputs and any(r.op_type == "QuantizeLinear" for r in readers):
        return False
    moved = quantised.nodes.value(f"{result}.moved", Info(network.infos[result].shape, source.dtype))
    quantised.nodes.append(replace(node, inputs=(source.tensor, *node.inputs[1:]), outputs=(moved,)))
    before = quantised.writers[node.inputs[0]]
    after = replace(before, inputs=(moved, *before.inputs[1:]), outputs=(result,))
    quantised.writers[result] = after
    rewrite_conversion(quantised, after)
    return True


def _move_without_dequantising(
    quantised: QuantisedNetwork, node: Node, sources: list[Quantised | None], *, picks: bool
) -> bool:
    """Move integers and dequantise nothing, if only QuantizeLinears of the same parameters read the result.

    Inputs of other parameters are quantised by these first. ``picks``: the node compares the numbers that it moves.
    Returns whether the node could be rewritten so.
    """
    readers = quantised.readers.get(node.outputs[0], [])
    targets = [parameters(quantised.network, r) if r.op_type == "QuantizeLinear" else None for r in readers]
    target = targets[0] if targets else None
    if target is None or node.outputs[0] in quantised.network.outputs:
        return False
    if any(s is None or not s.whole or s.dtype not in EIGHT_BITS for s in sources):
        return False
    if any(t is None or not t.whole or not t.same(target) for t in targets) or (picks and not target.ordered):
        return False
    names = [_by_parameters(quantised, node, s, target) for s in sources if s is not None]
    result = readers[0].outputs[0]
    quantised.nodes.append(replace(node, inputs=(*names, *node.inputs[len(names) :]), outputs=(result,)))
    quantised.computed.update((reader.outputs[0], result) for reader in readers)
    return True


def _by_parameters(quantised: QuantisedNetwork, node: Node, source: Quantised, target: Quantised) -> str:
    """The tensor of integers that stand for the numbers of ``source`` by the parameters of ``target``."""
    if source.same(target):
        return source.tensor
    info = Info(quantised.network.infos[source.tensor].shape, target.dtype)
    result = quantised.nodes.value(f"{node.outputs[0]}.{source.tensor}.as", info)
    requantise(quantised, node, source, target, result)
    return result
