"""Scales and zero points that do not fit what they quantise.

Each check of shapes takes a node, the shape of its first operand and those of all operands, and returns what is wrong,
if anything is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import cast

import numpy as np

from ....ir.errors import UsageError
from ..inline import Node

Shapes = Sequence[tuple[int, ...] | None]
"""Of each operand, as far as it is known."""

WRITTEN_AS = "written_as"
"""The attribute of a DequantizeLinear that stands for an operand of another operator: its type in the file."""

_MATRICES = ("MatMulInteger", "QLinearMatMul")
_CONVOLUTIONS = ("ConvInteger", "QLinearConv")


def written_as(node: Node) -> str:
    """The operator that a user wrote for the node."""
    return cast("bytes", node.attribute(WRITTEN_AS, node.op_type.encode())).decode()


def scales(node: Node, data: tuple[int, ...], shapes: Shapes) -> str | None:
    """Of a QuantizeLinear or DequantizeLinear: one for everything, or one for each index of its axis.

    Where blocks have scales, nothing is checked. Raises :class:`UsageError` for an operand of another operator.
    """
    scale, zero = (*shapes[1:], None, None)[:2]
    if scale is None or node.attribute("block_size", 0):
        return None
    x, name, count = node.inputs[0], node.inputs[1], prod(scale)
    whole, axis, problem = written_as(node), cast("int | None", node.attribute("axis")), None
    if whole != node.op_type:
        problem = misfit(whole, f"the scale {name!r}", scale, axis, x, data)
    if problem is None and zero is not None and prod(zero) != count:
        problem = (
            f"the zero point {node.inputs[2]!r} has {numbers(prod(zero))}, and the scale {name!r} has {count}: "
            "give as many"
        )
    if problem is not None and whole != node.op_type:
        raise UsageError(f"node {node.name!r} ({whole}): {problem}")
    if problem is not None:
        return problem
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


def check_scale_values(node: Node, constants: Mapping[str, np.ndarray]) -> None:
    """Raise :class:`UsageError` if a QuantizeLinear or DequantizeLinear has a constant scale that is not finite.

    One of 0 is fine: quantisers write it for tensors that are 0 throughout.
    """
    if node.domain or node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
        return
    scale = constants.get(node.inputs[1])
    if scale is not None and not np.isfinite(scale).all():
        wrong = scale[~np.isfinite(scale)].flat[0]
        raise UsageError(
            f"node {node.name!r} ({written_as(node)}): the scale {node.inputs[1]!r} is {wrong}: give finite numbers"
        )


def zeros_of_matrices(node: Node, data: tuple[int, ...], shapes: Shapes) -> str | None:
    """Of a MatMulInteger: one, or one for each row of the left factor or column of the right one, in each matrix."""
    factors = (data, *shapes[1:2])
    for side, (factor, zero) in enumerate(zip(factors, shapes[2:], strict=False)):
        what, x = f"the zero point {node.inputs[2 + side]!r}", node.inputs[side]
        if zero is not None and (problem := misfit(node.op_type, what, zero, side - 2, x, factor)) is not None:
            return problem
    return None


def zeros_of_windows(node: Node, data: tuple[int, ...], shapes: Shapes) -> str | None:
    """Of a ConvInteger: one of the activations, and of the weights one or one for each filter."""
    x, weights = (*shapes[2:], None, None)[:2]
    if x is not None and prod(x) != 1:
        return f"the zero point {node.inputs[2]!r} has shape {list(x)}; ONNX allows one number"
    if weights is None:
        return None
    return misfit(node.op_type, f"the zero point {node.inputs[3]!r}", weights, 0, node.inputs[1], shapes[1])


def misfit(
    op_type: str, what: str, shape: tuple[int, ...], axis: int | None, x: str, operand: tuple[int, ...] | None
) -> str | None:
    """How scales or zeros of ``shape``, which ``what`` names, do not fit an operand ``x`` of a product, if they do not.

    ``axis``: the dimension of the operand of which each index may have its own; ``None``: there may be one only.
    ``operand``: its shape, if it is known.
    """
    if prod(shape) == 1:
        return None
    if axis is None:
        return f"{what} has {numbers(prod(shape))}; ONNX allows one here"
    matrices = op_type in _MATRICES
    if len(shape) > 1 and not (matrices and shape[-3 - axis] == 1):
        allowed = "a vector" if not matrices else "[..., rows, 1]" if axis == -2 else "[..., 1, columns]"
        return f"{what} has shape {list(shape)}; give one number, or {allowed}"
    if operand is None:
        return None
    if len(shape) > 1:
        # They broadcast to the operand: each matrix may have its own.
        most = (*operand[:-2], 1, 1)[: len(operand)]
        most = tuple(operand[d] if d == len(operand) + axis else n for d, n in enumerate(most))
        # Those of a QLinearMatMul that are of one dimension become a vector.
        flat = op_type == "QLinearMatMul" and len(operand) > 1 and prod(shape) == shape[axis]
        if (flat or len(shape) <= len(most)) and all(
            n in (1, m) for n, m in zip(shape[::-1], most[::-1], strict=False)
        ):
            return None
        other = f", or shape {list(most)}" if prod(most) > 1 and len(most) > 1 else ""
        return f"{what} has shape {list(shape)}, and {x!r} {list(operand)}: give one number{other}"
    # A vector has no rows or columns.
    size = operand[axis] if len(operand) > 1 else 1
    rows = "filters" if op_type in _CONVOLUTIONS else "rows"
    has = f"{size} {'columns' if axis == -1 else rows}" if len(operand) > 1 else f"shape {list(operand)}"
    return (
        None
        if shape == (size,)
        else (
            f"{what} has shape {list(shape)}, and {x!r} has {has}: give one number{f', or {size}' if size > 1 else ''}"
        )
    )


def numbers(count: int) -> str:
    """How many numbers an operand has, in words."""
    return f"{count} number{'' if count == 1 else 's'}"
