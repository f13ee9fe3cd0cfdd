"""Constant indices of look-ups and updates, axes and reflecting paddings that no run could follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from ....ir.errors import UsageError
from ..inline import Node

_ALONG_AN_AXIS = frozenset({"Gather", "GatherElements", "ScatterElements"})
_OF_SEVERAL_AXES = frozenset({"GatherND", "ScatterND"})
_REDUCTION = "Reduce"
"""What names of reductions begin with. Where their axes are attributes, :mod:`.operand_shapes` looks at them."""


def check_constant_operands(node: Node, shape: Sequence[int], constants: Mapping[str, np.ndarray]) -> None:
    """Raise :class:`UsageError` if constants of the node do not fit its first input, which has this shape."""
    if node.op_type in _ALONG_AN_AXIS and len(node.inputs) > 1 and node.inputs[1] in constants:
        axis = int(cast("int", node.attribute("axis", 0)))
        if -len(shape) <= axis < len(shape):
            _check_indices(node, shape, axis, constants[node.inputs[1]])
    elif node.op_type in _OF_SEVERAL_AXES and len(node.inputs) > 1 and node.inputs[1] in constants:
        indices, first = constants[node.inputs[1]], int(cast("int", node.attribute("batch_dims", 0)))
        depth = indices.shape[-1] if indices.ndim else 0
        for place in range(min(depth, len(shape) - first)):
            _check_indices(node, shape, first + place, indices[..., place])
    elif node.op_type.startswith(_REDUCTION) and len(node.inputs) > 1 and node.inputs[1] in constants:
        _check_axes(node, shape, np.ravel(constants[node.inputs[1]]).tolist())
    elif node.op_type == "Pad" and node.attribute("mode", b"constant") == b"reflect":
        # Before operator set 11, paddings are an attribute.
        pads = constants.get(node.inputs[1]) if len(node.inputs) > 1 else node.attribute("pads", None)
        axes: object = range(len(shape))
        if len(node.inputs) > 3 and node.inputs[3]:
            axes = constants.get(node.inputs[3])
        if pads is not None and axes is not None:
            _check_reflection(node, shape, np.asarray(axes).tolist(), np.asarray(pads).tolist())


def _check_indices(node: Node, shape: Sequence[int], axis: int, indices: np.ndarray) -> None:
    entries = shape[axis]
    wrong = indices[(indices < -entries) | (indices >= entries)]
    if wrong.size:
        raise UsageError(
            f"node {node.name!r} ({node.op_type}) has the index {int(wrong.flat[0])}, and axis {axis} of "
            f"{node.inputs[0]!r} has {entries} entries: {-entries} to {entries - 1} are allowed"
        )


def _check_axes(node: Node, shape: Sequence[int], axes: Sequence[int]) -> None:
    """Each once. ONNX's inference looks whether they are in range."""
    named = [axis % len(shape) for axis in axes if shape]
    twice = next((axis for axis in named if named.count(axis) > 1), None)
    if twice is not None:
        raise UsageError(f"node {node.name!r} ({node.op_type}) names axis {twice} twice in {list(axes)}")


def _check_reflection(node: Node, shape: Sequence[int], axes: Sequence[int], pads: Sequence[int]) -> None:
    for number, axis in enumerate(axes):
        if not -len(shape) <= axis < len(shape):
            continue
        extent, largest = shape[axis], max(pads[number :: len(axes)], default=0)
        if largest >= extent:
            raise UsageError(
                f"node {node.name!r} (Pad) reflects {largest} elements of axis {axis} of {node.inputs[0]!r}, which "
                f"has {extent}: at most {extent - 1} can be"
            )
