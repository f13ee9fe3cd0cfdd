"""How numbers are quantised: real = (integer - zero) * scale, by QuantizeLinear and DequantizeLinear of constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..onnx.inline import Node
from ..onnx.prepare import Network

EIGHT_BITS = ("int8", "uint8")


@dataclass(frozen=True)
class Quantised:
    """A tensor of integers that stands for one of real numbers.

    ``scale`` (float32) is of rank 0, or has one number for each index of dimension ``axis``; one ``zero`` is of all.
    """

    tensor: str
    dtype: str
    scale: np.ndarray
    zero: int
    axis: int

    @property
    def whole(self) -> bool:
        """Whether one scale is of all elements."""
        return self.scale.ndim == 0

    @property
    def ordered(self) -> bool:
        """Whether larger integers stand for larger numbers."""
        return bool((self.scale > 0).all())

    def same(self, other: Quantised) -> bool:
        """Whether equal integers stand for equal numbers."""
        return (self.dtype, self.zero) == (other.dtype, other.zero) and np.array_equal(self.scale, other.scale)


def parameters(network: Network, node: Node) -> Quantised | None:
    """What a QuantizeLinear makes, or a DequantizeLinear reads; ``None`` where it is not known, or not one zero."""
    name = (node.outputs if node.op_type == "QuantizeLinear" else node.inputs)[0]
    info, scale = network.infos.get(name), network.constants.get(node.inputs[1])
    zero_point = node.inputs[2] if len(node.inputs) > 2 else ""
    zeros = network.constants.get(zero_point) if zero_point else np.zeros(1, np.int64)
    if info is None or scale is None or zeros is None or info.dtype not in (*EIGHT_BITS, "int32"):
        return None
    axis = node.attribute("axis", 1)
    blocked = node.attribute("block_size", 0) or node.attribute("output_dtype", 0) or node.attribute("precision", 0)
    if scale.dtype.name != "float32" or not isinstance(axis, int) or blocked or not (zeros == zeros.flat[0]).all():
        return None
    if scale.size == 1:
        scale = scale.reshape(())
    elif scale.ndim != 1:
        return None
    rank = len(info.shape)
    return Quantised(name, info.dtype, scale, int(zeros.flat[0]), axis % rank if rank else 0)


def dequantised_constants(network: Network) -> None:
    """Compute DequantizeLinear of constants, of which nothing else is left than real numbers."""
    kept: list[Node] = []
    for node in network.nodes:
        known = parameters(network, node) if node.op_type == "DequantizeLinear" and not node.domain else None
        values = network.constants.get(node.inputs[0]) if known is not None else None
        if known is None or values is None or node.outputs[0] in network.outputs:
            kept.append(node)
            continue
        shape = [n if d == known.axis and not known.whole else 1 for d, n in enumerate(values.shape)]
        real = (values.astype(np.float32) - np.float32(known.zero)) * known.scale.reshape(shape or ())
        network.constants[node.outputs[0]] = real.astype(np.float32)
    network.nodes = kept
    used = {name for node in network.nodes for name in node.inputs} | set(network.outputs)
    network.constants = {name: array for name, array in network.constants.items() if name in used}
