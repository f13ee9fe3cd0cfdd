"""LayerNormalization whose scale or bias is broadcast becomes one with a scale of ones, a product and a sum.

TVM takes the dimensions that it normalises from the rank of the scale, so that it normalises too few of them.

ONNX Runtime's SkipLayerNormalization is a LayerNormalization of a sum; TVM imports one form of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....ir.errors import UnsupportedError, UsageError
from ...net.net import Info
from ..prepare import Network, Node
from ..replacement import Replacement


def scaled_apart(node: Node, network: Network) -> list[Node]:
    """The nodes for a LayerNormalization whose scale or bias is broadcast; any other itself."""
    source, *parameters = node.inputs
    info, axis = network.infos.get(source), node.attribute("axis", -1)
    shapes = {name: network.infos[name].shape for name in parameters if name in network.infos}
    if info is None or not isinstance(axis, int) or any(name and name not in shapes for name in parameters):
        return [node]
    normalised = info.shape[axis:]
    if all(shape == normalised for shape in shapes.values()):
        return [node]
    for name, shape in shapes.items():
        _refuse_unfit(node, name, shape, info)
    nodes = Replacement(network, node)
    attributes = {a.name: node.attribute(a.name) for a in node.attributes}
    ones = nodes.constant("ones", np.ones(normalised, info.dtype))
    result = nodes.add("LayerNormalization", source, ones, info=info, **attributes)
    scale, *bias = (name for name in parameters if name)
    if not bias:
        return nodes.finish("Mul", result, scale)
    return nodes.finish("Add", nodes.add("Mul", result, scale, info=info), bias[0])


def of_sum(node: Node, network: Network) -> list[Node]:
    """The nodes for a SkipLayerNormalization: of input, skip, scale and, if they are there, shift and bias.

    Raises :class:`UnsupportedError` for its second and third result, which are for training; the fourth is the sum.
    """
    source, skip, scale, shift, bias, *_ = (*node.inputs, "", "")
    info = network.infos.get(source)
    if info is None or any(node.outputs[1:3]):
        raise UnsupportedError(
            f"node {node.name!r}: SkipLayerNormalization: its mean and variance are not supported, nor inputs of "
            "unknown shapes; compile a model that does not read them"
        )
    nodes = Replacement(network, node)
    total = nodes.add("Add", source, skip, info=info)
    if bias:
        total = nodes.add("Add", total, bias, info=info)
    if any(node.outputs[3:]):
        nodes.nodes[-1] = replace(nodes.nodes[-1], outputs=(node.outputs[3],))
        total = node.outputs[3]
    parameters = [name for name in (scale, shift) if name]
    epsilon = node.attribute("epsilon", 1e-12)
    return nodes.finish("LayerNormalization", total, *parameters, axis=-1, epsilon=epsilon)


def _refuse_unfit(node: Node, name: str, shape: tuple[int, ...], info: Info) -> None:
    """Raise :class:`UsageError` unless a parameter can be broadcast to the input."""
    padded = (1,) * (len(info.shape) - len(shape)) + shape
    if len(padded) != len(info.shape) or any(p not in (1, n) for p, n in zip(padded, info.shape, strict=True)):
        raise UsageError(
            f"node {node.name!r}: LayerNormalization: {name!r} has shape {list(shape)}, which cannot be broadcast to "
            f"that of the input, {list(info.shape)}"
        )
