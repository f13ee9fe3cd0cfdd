"""Scales and zero points that do not fit what they quantise.

Each check takes a node, the shape of its first operand and those of all operands, and returns what is wrong, if
anything is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from ..inline import Node

Shapes = Sequence[tuple[int, ...] | None]
"""Of each operand, as far as it is known."""


def scales(node: Node, data: tuple[int, ...], shapes: Shapes) -> str | None:
    """Of a QuantizeLinear or DequantizeLinear: one for everything, or one for each index of its axis.

    Where blocks have scales, nothing is checked.
    """
    scale, zero = (*shapes[1:], None, None)[:2]
    if scale is None or node.attribute("block_size", 0):
        return None
    x, name, count = node.inputs[0], node.inputs[1], prod(scale)
    if zero is not None and prod(zero) != count:
        return (
            f"the zero point {node.inputs[2]!r} has {numbers(prod(zero))}, and the scale {name!r} has {count}: "
            "give as many"
        )
    if count == 1:
        return None
    if len(scale) != 1:
        return f"the scale {name!r} has shape {list(scale)}; give one number, or a vector of one for each index of axis"
    rank, axis = len(data), int(cast("int", node.attribute("axis", 1)))
    if not -rank <= axis < rank:
        return (
            f"axis is {axis}, and {x!r}, of which the scale {name!r} has {numbers(count)}, has {rank} dimensions: "
            f"{f'give {-rank} to {rank - 1}, or' if rank else 'give'} one scale"
        )
    if data[axis] != count:
        return (
            f"the scale {name!r} has {numbers(count)}, and axis {axis % rank} of {x!r} has {data[axis]}: "
            f"give one, or {data[axis]}, or change axis"
        )
    return None


def zeros_of_matrices(node: Node, data: tuple[int, ...], shapes: Shapes) -> str | None:
    """Of a MatMulInteger: a vector of them is of the rows of the left factor, or the columns of the right one."""
    left, right = (*shapes[2:], None, None)[:2]
    rows = data[-2] if len(data) > 1 else 1
    columns = 1 if shapes[1] is None or len(shapes[1]) < 2 else shapes[1][-1]
    for side, zero, size, what in ((0, left, rows, "rows"), (1, right, columns, "columns")):
        if zero is not None and shapes[side] is not None and len(zero) == 1 and zero[0] not in (1, size):
            return _unfit(node, side, zero, size, what)
    return None


def zeros_of_windows(node: Node, data: tuple[int, ...], shapes: Shapes) -> str | None:
    """Of a ConvInteger: one of the activations, and of the weights one or one for each filter."""
    x, weights = (*shapes[2:], None, None)[:2]
    if x is not None and prod(x) != 1:
        return f"the zero point {node.inputs[2]!r} has shape {list(x)}; ONNX allows one number"
    if weights is not None and shapes[1] and prod(weights) != 1 and weights != shapes[1][:1]:
        return _unfit(node, 1, weights, shapes[1][0], "filters")
    return None


def _unfit(node: Node, side: int, zero: tuple[int, ...], size: int, what: str) -> str:
    return (
        f"the zero point {node.inputs[2 + side]!r} has shape {list(zero)}, and {node.inputs[side]!r} has {size} "
        f"{what}: give one number, or {size}"
    )


def numbers(count: int) -> str:
    """How many numbers an operand has, in words."""
    return f"{count} number{'' if count == 1 else 's'}"
