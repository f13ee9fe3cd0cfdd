"""Sums of a matrix product of which a factor may be a vector.

A vector on the left is a matrix of one row, one on the right a matrix of one column; the result has no dimension for
these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..net.net import Info
from ..onnx.inline import Node
from .integer_sums import SUMS, Factor, matrix_sums
from .node_list import NodeList


def product_sums(nodes: NodeList, node: Node, a: Factor, b: Factor, info: Info, bias: np.ndarray | None) -> str | None:
    """The int32 sums of ``info``'s shape, as :func:`.integer_sums.matrix_sums` makes them of matrices."""
    sizes = [nodes.network.infos[factor.tensor].shape for factor in (a, b)]
    row, column = (len(size) == 1 for size in sizes)
    shape = info.shape
    if column:
        b, shape = _as_matrix(nodes, node, b, (*sizes[1], 1)), (*shape, 1)
    if row:
        a, shape = _as_matrix(nodes, node, a, (1, *sizes[0])), (*shape[:-1], 1, shape[-1])
    sums = matrix_sums(nodes, node, a, b, Info(shape, SUMS), bias)
    return sums if sums is None or shape == info.shape else _reshaped(nodes, node, sums, info.shape)


def _as_matrix(nodes: NodeList, node: Node, factor: Factor, shape: Sequence[int]) -> Factor:
    values = None if factor.values is None else factor.values.reshape(shape)
    first, *others = (_reshaped(nodes, node, tensor, shape) for tensor in (factor.tensor, *factor.others))
    return replace(factor, tensor=first, values=values, others=tuple(others))


def _reshaped(nodes: NodeList, node: Node, tensor: str, shape: Sequence[int]) -> str:
    constants, dtype = nodes.network.constants, nodes.network.infos[tensor].dtype
    if tensor in constants:
        return nodes.constant(node, "reshaped", constants[tensor].reshape(shape))
    target = nodes.constant(node, "shape", np.array(shape, np.int64))
    return nodes.add("Reshape", "reshaped", node, (tensor, target), Info(tuple(shape), dtype))
