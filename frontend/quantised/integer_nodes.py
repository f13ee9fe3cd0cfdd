"""Nodes between ONNX and loops that compute on quantised numbers; ONNX has no operator for most of them.

Product     int32 sums of products of 8-bit integers; the attributes are those of Conv, or there are none (MatMul)
Total       int32 sums of 8-bit integers along ``axes``, of which each stays with one element
Quantise    y = saturate(round((x - source_zero) * factor) + zero), of 8 bits; the nearest even of two integers
Dequantise  y = (x - zero) * factor, of float32
Addition    y = saturate(round(a * its factor + (b - zero) * its factor)), of 8 bits
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from ..onnx.inline import Node
from .parameters import Quantised

DOMAIN = "girih.quantised"
"""The domain of the nodes; no file has it, since a domain that is not known is refused."""


def product(like: Node, op_type: str, x: str, weights: str, result: str, padded: bool) -> Node:
    """``op_type``: "Conv" or "MatMul". ``padded``: the padding of the convolution has been made before."""
    skipped = {"pads", "auto_pad"} if padded else set[str]()
    kept = tuple(a for a in like.attributes if op_type == "Conv" and a.name not in skipped)
    kind = onnx.helper.make_attribute("of", op_type)
    return Node(like.name, "Product", (x, weights), (result,), (*kept, kind), DOMAIN, like.origin)


def total(node: Node, x: str, axes: Sequence[int], result: str) -> Node:
    """``axes`` count from the front."""
    attributes = (onnx.helper.make_attribute("axes", list(axes)),)
    return Node(node.name, "Total", (x,), (result,), attributes, DOMAIN, node.origin)


def quantise(
    name: str, origin: Sequence[str], x: str, factor: str, result: str, zero: int, dtype: str, axis: int,
    source_zero: int = 0,
) -> Node:  # fmt: skip
    """``factor`` is a number, or has one for each index of dimension ``axis`` of ``x``."""
    values = {"zero": zero, "dtype": dtype, "axis": axis, "source_zero": source_zero}
    attributes = tuple(onnx.helper.make_attribute(key, value) for key, value in values.items())
    return Node(name, "Quantise", (x, factor), (result,), attributes, DOMAIN, tuple(origin))


def dequantise(name: str, origin: Sequence[str], x: str, factor: str, result: str, zero: int, axis: int) -> Node:
    """``factor`` as of :func:`quantise`."""
    values = {"zero": zero, "axis": axis}
    attributes = tuple(onnx.helper.make_attribute(key, value) for key, value in values.items())
    return Node(name, "Dequantise", (x, factor), (result,), attributes, DOMAIN, tuple(origin))


def addition(node: Node, a: Quantised, b: Quantised, result: Quantised, name: str) -> Node:
    """The sum of two quantised tensors, quantised as ``result``: all zeros become part of that of ``b``."""
    first, second = (float(np.float32(t.scale) / np.float32(result.scale)) for t in (a, b))
    zero = b.zero + (a.zero * first - result.zero) / second
    values = {"first": first, "second": second, "zero": zero, "dtype": result.dtype}
    attributes = tuple(onnx.helper.make_attribute(key, value) for key, value in values.items())
    return Node(node.name, "Addition", (a.tensor, b.tensor), (name,), attributes, DOMAIN, node.origin)
