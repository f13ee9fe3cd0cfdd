"""Transposed convolutions with a stride or a dilation become convolutions whose channels are the phases of the result.

In each dimension, ``y[o] = Σ x[i] · w[k]`` over all ``o + pad = stride·i + dilation·k``. With the filter spread out
over its dilation, and ``o + pad = stride·q + r``, that is a convolution for each phase ``r`` below the stride:

    z[r, q] = Σ x[q-j] · w[stride·j + r]   over j         y[o] = z[(o + pad) mod stride, (o + pad) div stride]

One convolution computes all phases, as channels (of each group: phases, then the group's own channels); a transposition
interleaves them (Shi et al., "Real-time single image and video super-resolution using an efficient sub-pixel
convolutional neural network", CVPR 2016, section 3.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from onnx import helper

from ...ir.errors import UsageError
from ..net.net import fresh
from .prepare import Network, Node


def phases_to_channels(network: Network) -> None:
    """Rewrite, in place, transposed convolutions by constant filters with a stride or dilation above one."""
    nodes: list[Node] = []
    for node in network.nodes:
        geometry = _geometry(node, network)
        nodes += [node] if geometry is None else _rewritten(node, network, geometry)
    network.nodes = nodes


@dataclass(frozen=True)
class _Dimension:
    """One spatial dimension: of each phase, the convolution computes ``count`` places, from ``q = first`` on."""

    size: int
    result: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    @property
    def taps(self) -> int:
        """Filter elements of a phase; some are zero where the stride does not divide the filter."""
        return -(-(self.dilation * (self.kernel - 1) + 1) // self.stride)

    @property
    def first(self) -> int:
        # No later than without padding: a convolution cannot be padded by less than nothing.
        return min(self.pad // self.stride, self.taps - 1)

    @property
    def pads(self) -> tuple[int, int]:
        last = (self.result - 1 + self.pad) // self.stride
        return self.taps - 1 - self.first, max(0, last - (self.size - 1))

    @property
    def count(self) -> int:
        return self.size + sum(self.pads) - self.taps + 1


def _geometry(node: Node, network: Network) -> tuple[_Dimension, ...] | None:
    """The dimensions of a transposed convolution that can be rewritten."""
    if node.op_type != "ConvTranspose" or any(i and i not in network.constants for i in node.inputs[1:]):
        return None
    known = network.infos.get(node.inputs[0]), network.infos.get(node.outputs[0])
    strides = _list(node, "strides")
    kernel = network.constants[node.inputs[1]].shape[2:]
    rank = len(kernel)
    strides, dilations = strides or (1,) * rank, _list(node, "dilations") or (1,) * rank
    if known[0] is None or known[1] is None or max(*strides, *dilations) == 1:
        return None
    results = known[1].shape[2:]
    extra = _list(node, "output_padding") or (0,) * rank
    pads = _list(node, "pads")[:rank] or (0,) * rank
    mode = node.attribute("auto_pad", b"NOTSET")
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = tuple(
            (total + (mode == b"SAME_LOWER")) // 2
            for k, d, s, e in zip(kernel, dilations, strides, extra, strict=True)
            for total in [max(0, d * (k - 1) + 1 + e - s)]
        )
    sizes = known[0].shape[2:]
    return tuple(map(_Dimension, sizes, results, kernel, strides, dilations, pads))


def _list(node: Node, name: str) -> tuple[int, ...]:
    value = node.attribute(name, ())
    if not isinstance(value, list | tuple):
        raise UsageError(f"node {node.name!r}: the attribute {name} is no list")
    return tuple(int(v) for v in value)


def _rewritten(node: Node, network: Network, geometry: tuple[_Dimension, ...]) -> list[Node]:
    """Convolution, interleaving, crop."""
    group = node.attribute("group", 1)
    if not isinstance(group, int):
        raise UsageError(f"node {node.name!r}: the attribute group is no whole number")
    rank, phases = len(geometry), prod(d.stride for d in geometry)
    weight = network.constants[node.inputs[1]]
    batch, channels = network.infos[node.inputs[0]].shape[0], weight.shape[1]
    filters = [network.add_constant(f"{node.inputs[1]}.phases", _filters(weight, group, geometry))]
    if any(node.inputs[2:]):
        bias = network.constants[node.inputs[2]].reshape(group, 1, channels)
        bias = np.broadcast_to(bias, (group, phases, channels)).reshape(-1)
        filters.append(network.add_constant(f"{node.inputs[2]}.phases", bias))
    before, after = zip(*(d.pads for d in geometry), strict=True)
    convolution = {"group": group, "pads": [*before, *after], "kernel_shape": [d.taps for d in geometry]}

    # [N, group, strides..., channels, counts...] becomes [N, group, channels, (count, stride)...].
    apart = (batch, group, *(d.stride for d in geometry), channels, *(d.count for d in geometry))
    order = [0, 1, 2 + rank, *(axis for d in range(rank) for axis in (3 + rank + d, 2 + d))]
    whole = (batch, group * channels, *(d.stride * d.count for d in geometry))
    steps: list[tuple[str, list[str], dict[str, Any]]] = [
        ("Conv", filters, convolution),
        ("Reshape", [network.add_constant(f"{node.name}.apart", _integers(apart))], {}),
        ("Transpose", [], {"perm": order}),
        ("Reshape", [network.add_constant(f"{node.name}.whole", _integers(whole))], {}),
    ]
    start = [d.pad - d.stride * d.first for d in geometry]
    end = [s + d.result for s, d in zip(start, geometry, strict=True)]
    if any(start) or tuple(end) != whole[2:]:
        crop = {"start": start, "end": end, "axes": range(2, 2 + rank)}
        steps.append(("Slice", [network.add_constant(f"{node.name}.{n}", _integers(v)) for n, v in crop.items()], {}))

    nodes: list[Node] = []
    source = node.inputs[0]
    for number, (op_type, others, attributes) in enumerate(steps):
        last = number == len(steps) - 1
        result = node.outputs[0] if last else fresh(f"{node.outputs[0]}.{op_type.lower()}{number}", network.infos)
        protos = tuple(helper.make_attribute(k, v) for k, v in attributes.items())
        nodes.append(Node(node.name, op_type, (source, *others), (result,), protos, origin=node.origin))
        source = result
    return nodes


def _filters(weight: np.ndarray, group: int, geometry: tuple[_Dimension, ...]) -> np.ndarray:
    """[in, out / group, kernel...] → [group · strides... · out / group, in / group, taps...], the taps backwards."""
    spread = np.zeros((*weight.shape[:2], *(d.taps * d.stride for d in geometry)), weight.dtype)
    spread[(..., *(slice(0, d.dilation * (d.kernel - 1) + 1, d.dilation) for d in geometry))] = weight
    inputs, channels, rank = weight.shape[0] // group, weight.shape[1], len(geometry)
    parts = spread.reshape(group, inputs, channels, *(n for d in geometry for n in (d.taps, d.stride)))
    taps, strides = [3 + 2 * d for d in range(rank)], [4 + 2 * d for d in range(rank)]
    parts = np.flip(parts, tuple(taps)).transpose(0, *strides, 2, 1, *taps)
    return np.ascontiguousarray(parts).reshape(-1, inputs, *(d.taps for d in geometry))


def _integers(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), np.int64)
