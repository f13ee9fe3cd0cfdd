"""Pools whose padding follows from their shapes get it in numbers: TVM's is negative where a stride exceeds its kernel.

Under ``SAME_UPPER`` and ``SAME_LOWER``, a dimension of ``n`` elements has ``ceil(n / stride)`` results, and as much
padding as their windows need; the odd one of it comes last, or first.

An LpPool with ``ceil_mode`` gets zeros behind its input for a last window that reaches past it: TVM makes it of an
average, which it takes over fewer elements there than it multiplies by afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from onnx import helper

from ..prepare import Network, Node

_POOLS = frozenset({"MaxPool", "AveragePool", "LpPool"})


def pad_pools(network: Network) -> None:
    """Replace, in place, ``auto_pad`` of pools by ``pads``, and so ``ceil_mode`` of LpPool."""
    network.nodes = [_padded(node, network) if node.op_type in _POOLS else node for node in network.nodes]


def _padded(node: Node, network: Network) -> Node:
    info = network.infos.get(node.inputs[0])
    kernel = cast("list[int]", node.attribute("kernel_shape", []))
    pads = None if info is None else same_padding(node, info.shape[2:], kernel)
    if info is not None and pads is None and node.op_type == "LpPool" and node.attribute("ceil_mode", 0):
        pads = ceil_padding(node, info.shape[2:], kernel)
    if pads is None:
        return node
    kept = [a for a in node.attributes if a.name not in ("auto_pad", "pads", "ceil_mode")]
    return replace(node, attributes=(*kept, helper.make_attribute("pads", pads)))


def same_padding(node: Node, sizes: Sequence[int], kernel: Sequence[int]) -> list[int] | None:
    """The padding of a node whose ``auto_pad`` is one of the two, as in ``pads``; ``None`` for any other node.

    ``sizes`` are those of the input, and ``kernel`` those of the windows.
    """
    mode = node.attribute("auto_pad", b"NOTSET")
    if mode not in (b"SAME_UPPER", b"SAME_LOWER"):
        return None
    strides, dilations = (
        cast("list[int]", node.attribute(name, [1] * len(sizes))) for name in ("strides", "dilations")
    )
    totals = [
        max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n)
        for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    fewer, more = [t // 2 for t in totals], [-(-t // 2) for t in totals]
    return fewer + more if mode == b"SAME_UPPER" else more + fewer


def ceil_padding(node: Node, sizes: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """The padding of a node with ``ceil_mode``, as in ``pads``, that gives as many windows without it.

    No window begins behind the input and the padding before it.
    """
    rank = len(sizes)
    strides, dilations = (cast("list[int]", node.attribute(name, [1] * rank)) for name in ("strides", "dilations"))
    pads = cast("list[int]", node.attribute("pads", [0] * (2 * rank)))
    before, after = pads[:rank], pads[rank:]
    for axis, (n, k, s, d) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        reach, start = d * (k - 1) + 1, before[axis] + n
        last = min(-(-(start + after[axis] - reach) // s), (start - 1) // s)
        after[axis] = max(0, last * s + reach - start)
    return before + after
