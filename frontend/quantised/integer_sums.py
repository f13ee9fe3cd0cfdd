"""Sums of products of 8-bit integers without their zeros.

    sum (a - za) (b - zb) = sum a b - za sum b - zb sum a + K za zb

A zero is a number, or a tensor of one element that the network computes. What is constant of this is one bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..net.net import Info
from ..onnx.forms.auto_pad import same_padding
from ..onnx.inline import Node
from .integer_nodes import product, total
from .node_list import NodeList
from .parameters import EIGHT_BITS

SUMS = "int32"
LIMIT = 2.0**31
"""Sums are of 32 bits."""


@dataclass(frozen=True)
class Factor:
    """A tensor of 8-bit integers, and its zero; the values, if it is constant."""

    tensor: str
    zero: int | str
    values: np.ndarray | None = None


def fitting(values: np.ndarray, zero: int, dtype: str) -> list[np.ndarray]:
    """Integers without their zero, of an 8-bit dtype that holds them, best their own; or two arrays, which add up."""
    shifted = values.astype(np.int64) - zero
    for kind in (dtype, *EIGHT_BITS):
        bounds = np.iinfo(kind)
        if bounds.min <= shifted.min(initial=0) and shifted.max(initial=0) <= bounds.max:
            return [np.ascontiguousarray(shifted.astype(kind))]
    most = np.clip(shifted, -128, 127)
    return [most.astype(np.int8), *fitting(shifted - most, 0, "int8")]


def matrix_sums(nodes: NodeList, node: Node, a: Factor, b: Factor, info: Info, bias: np.ndarray | None) -> str | None:
    """The int32 sums of a matrix product; ``bias``: for each column, added to them.

    ``None`` if a constant of it is no 32-bit number.
    """
    depth = nodes.network.infos[a.tensor].shape[-1]
    fixed = np.zeros(1, np.int64) if bias is None else bias
    if b.values is not None and isinstance(a.zero, int):
        fixed = fixed - a.zero * b.values.astype(np.int64).sum(axis=-2, keepdims=b.values.ndim > 2)
    if isinstance(a.zero, int) and isinstance(b.zero, int):
        fixed = fixed + depth * a.zero * b.zero
    if np.abs(fixed).max(initial=0) >= LIMIT:
        return None
    wide = Info(info.shape, SUMS)
    sums = nodes.value(f"{node.outputs[0]}.sums", wide)
    nodes.nodes.append(product(node, "MatMul", a.tensor, b.tensor, sums, padded=False))
    if fixed.any():
        sums = nodes.add("Add", "biased", node, (sums, nodes.constant(node, "bias", fixed.astype(np.int32))), wide)
    if a.zero != 0 and not (b.values is not None and isinstance(a.zero, int)):
        sums = _without(nodes, node, sums, a, b, -2, wide)
    if b.zero != 0:
        sums = _without(nodes, node, sums, b, a, -1, wide)
    if (isinstance(a.zero, str) and b.zero != 0) or (isinstance(b.zero, str) and a.zero != 0):
        zeros = [_zero(nodes, node, factor.zero) for factor in (a, b)]
        both = nodes.add("Mul", "zeros", node, zeros, Info((), SUMS))
        times = nodes.constant(node, "depth", np.array(depth, np.int32))
        sums = nodes.add(
            "Add", "whole", node, (sums, nodes.add("Mul", "part", node, (both, times), Info((), SUMS))), wide
        )
    return sums


def _zero(nodes: NodeList, node: Node, zero: int | str) -> str:
    """A zero as a tensor of 32 bits."""
    if isinstance(zero, int):
        return nodes.constant(node, "zero", np.array(zero, np.int32))
    return nodes.add("Cast", "zero", node, (zero,), Info(nodes.network.infos[zero].shape, SUMS), to=6)


def _without(nodes: NodeList, node: Node, sums: str, of: Factor, other: Factor, axis: int, wide: Info) -> str:
    """``sums - zero of one factor * sum of the other one``, the latter along ``axis``."""
    if other.values is not None:
        total = other.values.astype(np.int64).sum(axis=axis, keepdims=True).astype(np.int32)
        summed, kept = nodes.constant(node, "total", total), total.shape
    else:
        summed = totals(nodes, node, other.tensor, [axis])
        kept = nodes.network.infos[summed].shape
    zero = _zero(nodes, node, of.zero)
    return nodes.add(
        "Sub", "rest", node, (sums, nodes.add("Mul", "share", node, (summed, zero), Info(kept, SUMS))), wide
    )


def totals(nodes: NodeList, node: Node, tensor: str, axes: Sequence[int]) -> str:
    """The int32 sums of 8-bit integers along some axes, of which each stays with one element."""
    shape = nodes.network.infos[tensor].shape
    kept = Info(tuple(1 if d in axes or d - len(shape) in axes else n for d, n in enumerate(shape)), SUMS)
    sums = nodes.value(f"{node.outputs[0]}.total", kept)
    nodes.nodes.append(total(node, tensor, [axis % len(shape) for axis in axes], sums))
    return sums


def window_sums(
    nodes: NodeList, node: Node, x: Factor, weights: Factor, info: Info, bias: np.ndarray | None
) -> str | None:
    """The int32 sums of a convolution with constant weights whose zero is 0; ``bias``: added, for each channel.

    ``None`` if a constant of it is no 32-bit number, or its padding is by a zero that is not known.
    """
    assert weights.values is not None
    totals = weights.values.astype(np.int64).sum(axis=tuple(range(1, weights.values.ndim)))
    fixed = np.zeros(info.shape[1], np.int64) if bias is None else bias
    wide, tensor = Info(info.shape, SUMS), x.tensor
    sizes, kernel = nodes.network.infos[x.tensor].shape[2:], weights.values.shape[2:]
    pads = same_padding(node, sizes, kernel) or node.attribute("pads")
    is_padded = isinstance(pads, list) and any(pads)
    if is_padded and isinstance(x.zero, str):
        return None
    made_before = is_padded and x.zero != 0
    if isinstance(x.zero, int):
        fixed = fixed - x.zero * totals
        if made_before and isinstance(pads, list):
            tensor = _padded(nodes, node, x.tensor, x.zero, pads)
    if np.abs(fixed).max(initial=0) >= LIMIT:
        return None
    sums = nodes.value(f"{node.outputs[0]}.sums", wide)
    nodes.nodes.append(product(node, "Conv", tensor, weights.tensor, sums, padded=made_before))
    around = (-1, *(1 for _ in info.shape[2:]))
    if fixed.any():
        added = nodes.constant(node, "bias", fixed.astype(np.int32).reshape(around))
        sums = nodes.add("Add", "biased", node, (sums, added), wide)
    if isinstance(x.zero, str):
        total = nodes.constant(node, "total", totals.astype(np.int32).reshape(around))
        share = nodes.add(
            "Mul", "share", node, (total, _zero(nodes, node, x.zero)), Info((1, *info.shape[1:2], *around[2:]), SUMS)
        )
        sums = nodes.add("Sub", "rest", node, (sums, share), wide)
    return sums


def _padded(nodes: NodeList, node: Node, tensor: str, zero: int, pads: list[int]) -> str:
    info, half = nodes.network.infos[tensor], len(pads) // 2
    around = np.array([0, 0, *pads[:half], 0, 0, *pads[half:]], np.int64)
    size = tuple(n + int(a + b) for n, a, b in zip(info.shape, around[: half + 2], around[half + 2 :], strict=True))
    inputs = (
        tensor, nodes.constant(node, "pads", around), nodes.constant(node, "zero", np.array(zero, info.dtype))
    )  # fmt: skip
    return nodes.add("Pad", "padded", node, inputs, Info(size, info.dtype))
