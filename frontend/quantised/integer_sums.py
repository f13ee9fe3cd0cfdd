"""Sums of products of 8-bit integers without their zeros.

    sum (a - za) (b - zb) = sum a b - za sum b - zb sum a + K za zb

A zero is a number, or a tensor, of one for all elements or of one for each row of the left or column of the right
factor. What is constant of this is one bias.
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
    """A tensor of 8-bit integers, and its zero, or the tensor of its zeros; the values, if it is constant.

    Of integers of more bits there are ``others``, which add up to the values with the first tensor.
    """

    tensor: str
    zero: int | str
    values: np.ndarray | None = None
    others: tuple[str, ...] = ()


def fitting(values: np.ndarray, zero: int | np.ndarray, dtype: str) -> list[np.ndarray]:
    """Integers without their zeros, of an 8-bit dtype that holds them, best their own; or several arrays, which add up.

    There are two of up to nine bits, and three if a number above 254 and one below -128 are among them: an int8 of both
    leaves more than 127 of the one and less than 0 of the other, which no 8-bit type holds.
    """
    shifted = values.astype(np.int64) - zero
    for kind in (dtype, *EIGHT_BITS):
        bounds = np.iinfo(kind)
        if bounds.min <= shifted.min(initial=0) and shifted.max(initial=0) <= bounds.max:
            return [np.ascontiguousarray(shifted.astype(kind))]
    most = np.clip(shifted, -128, 127)
    return [most.astype(np.int8), *fitting(shifted - most, 0, "int8")]


def constant_factor(nodes: NodeList, node: Node, values: np.ndarray, zero: int | np.ndarray) -> Factor:
    """A factor of constant integers from which their zeros are subtracted."""
    first, *others = (nodes.constant(node, "weights", part) for part in fitting(values, zero, values.dtype.name))
    return Factor(first, 0, values.astype(np.int64) - zero, tuple(others))


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
    nodes.append(product(node, "MatMul", a.tensor, b.tensor, sums, padded=False))
    if fixed.any():
        sums = nodes.add("Add", "biased", node, (sums, nodes.constant(node, "bias", fixed.astype(np.int32))), wide)
    if a.zero != 0 and not (b.values is not None and isinstance(a.zero, int)):
        sums = _without(nodes, node, sums, a, _matrix_total(nodes, node, b, -2), wide)
    if b.zero != 0:
        sums = _without(nodes, node, sums, b, _matrix_total(nodes, node, a, -1), wide)
    if (isinstance(a.zero, str) and b.zero != 0) or (isinstance(b.zero, str) and a.zero != 0):
        zeros = (_zero(nodes, node, factor.zero) for factor in (a, b))
        times = nodes.constant(node, "depth", np.array(depth, np.int32))
        part = _times(nodes, node, "part", _times(nodes, node, "zeros", *zeros), times)
        sums = nodes.add("Add", "whole", node, (sums, part), wide)
    return _with_others(nodes, node, sums, "MatMul", a.tensor, b, wide)


def _with_others(
    nodes: NodeList, node: Node, sums: str, op_type: str, x: str, weights: Factor, wide: Info, *, padded: bool = False
) -> str:
    """``sums`` and the products with the other tensors of the weights."""
    for tensor in weights.others:
        others = nodes.value(f"{node.outputs[0]}.others", wide)
        nodes.append(product(node, op_type, x, tensor, others, padded=padded))
        sums = nodes.add("Add", "both", node, (sums, others), wide)
    return sums


def _zero(nodes: NodeList, node: Node, zero: int | str) -> str:
    """A zero as a tensor of 32 bits."""
    if isinstance(zero, int):
        return nodes.constant(node, "zero", np.array(zero, np.int32))
    info = nodes.network.infos[zero]
    return zero if info.dtype == SUMS else nodes.add("Cast", "zero", node, (zero,), Info(info.shape, SUMS), to=6)


def _times(nodes: NodeList, node: Node, name: str, a: str, b: str) -> str:
    """The product of two int32 tensors that broadcast, computed here if both are constant."""
    constants, infos = nodes.network.constants, nodes.network.infos
    if a in constants and b in constants:
        return nodes.constant(node, name, constants[a] * constants[b])
    return nodes.add("Mul", name, node, (a, b), Info(np.broadcast_shapes(infos[a].shape, infos[b].shape), SUMS))


def _matrix_total(nodes: NodeList, node: Node, factor: Factor, axis: int) -> str:
    """The int32 sums of a matrix along ``axis``, which stays with one element."""
    if factor.values is None:
        return totals(nodes, node, factor.tensor, [axis])
    sums = factor.values.astype(np.int64).sum(axis=axis, keepdims=True)
    return nodes.constant(node, "total", sums.astype(np.int32))


def _without(nodes: NodeList, node: Node, sums: str, factor: Factor, total: str, wide: Info) -> str:
    """``sums`` - zero of one factor * ``total``, the sums of the other one."""
    share = _times(nodes, node, "share", total, _zero(nodes, node, factor.zero))
    return nodes.add("Sub", "rest", node, (sums, share), wide)


def totals(nodes: NodeList, node: Node, tensor: str, axes: Sequence[int]) -> str:
    """The int32 sums of 8-bit integers along some axes, of which each stays with one element."""
    shape = nodes.network.infos[tensor].shape
    kept = Info(tuple(1 if d in axes or d - len(shape) in axes else n for d, n in enumerate(shape)), SUMS)
    sums = nodes.value(f"{node.outputs[0]}.total", kept)
    nodes.append(total(node, tensor, [axis % len(shape) for axis in axes], sums))
    return sums


def window_sums(
    nodes: NodeList, node: Node, x: Factor, weights: Factor, info: Info, bias: np.ndarray | None
) -> str | None:
    """The int32 sums of a convolution with weights whose zero is 0; ``bias``: added, for each channel.

    ``None`` if a constant of it is no 32-bit number.
    """
    fixed = np.zeros(info.shape[1], np.int64) if bias is None else bias
    if weights.values is not None and isinstance(x.zero, int):
        fixed = fixed - x.zero * _of_channels(weights.values)
    if np.abs(fixed).max(initial=0) >= LIMIT:
        return None
    wide, tensor = Info(info.shape, SUMS), x.tensor
    sizes, kernel = nodes.network.infos[x.tensor].shape[2:], nodes.network.infos[weights.tensor].shape[2:]
    pads = same_padding(node, sizes, kernel) or node.attribute("pads")
    # ONNX pads by the zero, the product of integers by 0.
    padded = isinstance(pads, list) and any(pads) and x.zero != 0
    if padded and isinstance(pads, list):
        tensor = _padded(nodes, node, x.tensor, x.zero, pads)
    sums = nodes.value(f"{node.outputs[0]}.sums", wide)
    nodes.append(product(node, "Conv", tensor, weights.tensor, sums, padded=padded))
    around = (info.shape[1], *(1 for _ in info.shape[2:]))
    if fixed.any():
        added = nodes.constant(node, "bias", fixed.astype(np.int32).reshape(around))
        sums = nodes.add("Add", "biased", node, (sums, added), wide)
    if weights.values is None and x.zero != 0:
        channels = totals(nodes, node, weights.tensor, range(1, len(info.shape)))
        shape = nodes.constant(node, "shape", np.array(around, np.int64))
        total = nodes.add("Reshape", "channels", node, (channels, shape), Info(around, SUMS))
        sums = _without(nodes, node, sums, x, total, wide)
    elif weights.values is not None and isinstance(x.zero, str):
        total = nodes.constant(node, "total", _of_channels(weights.values).astype(np.int32).reshape(around))
        sums = _without(nodes, node, sums, x, total, wide)
    return _with_others(nodes, node, sums, "Conv", tensor, weights, wide, padded=padded)


def _of_channels(weights: np.ndarray) -> np.ndarray:
    """The sum of the weights of each output channel."""
    return weights.astype(np.int64).sum(axis=tuple(range(1, weights.ndim)))


def _padded(nodes: NodeList, node: Node, tensor: str, zero: int | str, pads: list[int]) -> str:
    """A tensor with its zero around it: one that is computed takes the place of zeros that are padded first."""
    info, half = nodes.network.infos[tensor], len(pads) // 2
    around = np.array([0, 0, *pads[:half], 0, 0, *pads[half:]], np.int64)
    size = tuple(n + int(a + b) for n, a, b in zip(info.shape, around[: half + 2], around[half + 2 :], strict=True))
    fill = nodes.constant(node, "fill", np.array(zero if isinstance(zero, int) else 0, info.dtype))
    wide = Info(size, info.dtype)
    padded = nodes.add("Pad", "padded", node, (tensor, nodes.constant(node, "pads", around), fill), wide)
    if isinstance(zero, int):
        return padded
    inside = tuple(slice(before, before + n) for before, n in zip(pads[:half], info.shape[2:], strict=True))
    border = np.ones(size[2:], np.bool_)
    border[inside] = False
    return nodes.add("Where", "bordered", node, (nodes.constant(node, "border", border), zero, padded), wide)
