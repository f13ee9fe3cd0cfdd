"""Pools whose padding follows from their shapes get it in numbers: TVM's is negative where a stride exceeds its kernel.

Under ``SAME_UPPER`` and ``SAME_LOWER``, a dimension of ``n`` elements has ``ceil(n / stride)`` results, and as much
padding as their windows need; the odd one of it comes last, or first.

An LpPool with ``ceil_mode`` gets zeros behind its input for a last window that reaches past it: TVM makes it of an
average, which it takes over fewer elements there than it multiplies by afterwards.

Before operator set 22, ONNX counts windows of a pool with ``ceil_mode`` that begin behind its input, in the padding
there; ONNX Runtime, PyTorch and TVM have none of these, as ONNX has it since, and their shapes are inferred so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from onnx import helper

from ...net.net import Info
from ..inline import Node

_POOLS = frozenset({"MaxPool", "AveragePool", "LpPool"})


def pad_pools(nodes: Sequence[Node], infos: Mapping[str, Info]) -> list[Node]:
    """The nodes with ``pads`` for ``auto_pad`` of pools, and for ``ceil_mode`` of LpPool."""
    return [_padded(node, infos) if node.op_type in _POOLS else node for node in nodes]


def _padded(node: Node, infos: Mapping[str, Info]) -> Node:
    info = infos.get(node.inputs[0])
    kernel = cast("list[int]", node.attribute("kernel_shape", []))
    pads = None if info is None else same_padding(node, info.shape[2:], kernel)
    if info is not None and pads is None and node.op_type == "LpPool" and node.attribute("ceil_mode", 0):
        pads = ceil_padding(node, info.shape[2:], kernel)
    return node if pads is None else _with_pads(node, pads)


def _with_pads(node: Node, pads: list[int]) -> Node:
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


def rounds_up(node: Node) -> bool:
    """Whether the node is a pool of ONNX with ``ceil_mode``, and padding in numbers if any."""
    mode = node.attribute("auto_pad", b"NOTSET")
    return node.op_type in _POOLS and not node.domain and bool(node.attribute("ceil_mode", 0)) and mode == b"NOTSET"


def within_input(node: Node, infos: Mapping[str, Info]) -> Node:
    """For a pool that :func:`rounds_up`, one without ``ceil_mode``, and without windows that begin behind its input.

    The shapes of its results are the right ones; values are if padding does not count. Any other node is itself, as is
    a pool whose attributes do not fit its input.
    """
    info = infos.get(node.inputs[0]) if rounds_up(node) else None
    if info is None:
        return node
    rank = len(info.shape) - 2
    kernel, strides, dilations = (
        cast("list[int]", node.attribute(name, [1] * rank)) for name in ("kernel_shape", "strides", "dilations")
    )
    pads = cast("list[int]", node.attribute("pads", [0] * (2 * rank)))
    fits = {len(kernel), len(strides), len(dilations), len(pads) / 2} == {rank} and min(strides, default=0) > 0
    return _with_pads(node, ceil_padding(node, info.shape[2:], kernel)) if fits else node
