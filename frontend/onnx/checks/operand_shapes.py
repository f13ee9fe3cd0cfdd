"""Shapes and attributes of single operators that do not fit each other, which ONNX's inference lets through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from ....ir.errors import UsageError
from ...net.net import Info
from ..inline import Node
from .quantisation import Shapes, scales, zeros_of_matrices, zeros_of_windows


def check_operand_shapes(node: Node, infos: Mapping[str, Info]) -> None:
    """Raise :class:`UsageError` if shapes of operands, or attributes, do not fit the first operand's shape."""
    shapes = [infos[name].shape if name in infos else None for name in node.inputs]
    check = _CHECKS.get(node.op_type)
    if check is not None and not node.domain and shapes and shapes[0] is not None:
        problem = check(node, shapes[0], shapes)
        if problem is not None:
            raise UsageError(f"node {node.name!r} ({node.op_type}): {problem}")


def _number(node: Node, name: str, default: int) -> int:
    return int(cast("int", node.attribute(name, default)))


def _convolution(node: Node, data: tuple[int, ...], shapes: Shapes) -> str | None:
    filters = shapes[1] if len(shapes) > 1 else None
    if filters is None or len(data) < 3:
        return None
    groups, transposed = _number(node, "group", 1), node.op_type == "ConvTranspose"
    if groups < 1:
        return f"group is {groups}; give 1 or more"
    if len(filters) != len(data):
        return f"{node.inputs[0]!r} has {len(data)} dimensions and its filters {node.inputs[1]!r} have {len(filters)}"
    channels = filters[0] if transposed else filters[1] * groups
    if data[1] != channels:
        return (
            f"{node.inputs[0]!r} has {data[1]} channels, and its filters {node.inputs[1]!r} of shape {list(filters)}"
            f"{f' in {groups} groups' if groups > 1 else ''} take {channels}"
        )
    if filters[0] % groups:
        return f"the {filters[0]} filters of {node.inputs[1]!r} are no multiple of its {groups} groups"
    kernel = node.attribute("kernel_shape", None)
    if kernel is not None and tuple(cast("Sequence[int]", kernel)) != filters[2:]:
        return f"kernel_shape is {list(cast('Sequence[int]', kernel))}, and {node.inputs[1]!r} has {list(filters[2:])}"
    results = filters[1] * groups if transposed else filters[0]
    bias = shapes[2] if node.op_type in ("Conv", "ConvTranspose") and len(shapes) > 2 else None
    if bias is not None and bias != (results,):
        return f"the bias {node.inputs[2]!r} has shape {list(bias)}, but the filters give [{results}]"
    return None


def _integer_convolution(node: Node, data: tuple[int, ...], shapes: Shapes) -> str | None:
    return _convolution(node, data, shapes) or zeros_of_windows(node, data, shapes)


def _blocks(node: Node, data: tuple[int, ...], shapes: Shapes) -> str | None:
    """Of a DepthToSpace, which divides channels into blocks, or a SpaceToDepth, which divides positions."""
    block = _number(node, "blocksize", 1)
    if block < 1:
        return f"blocksize is {block}; give 1 or more"
    if len(data) != 4:
        return None
    if node.op_type == "DepthToSpace" and data[1] % block**2:
        return f"{node.inputs[0]!r} has {data[1]} channels, no multiple of blocksize squared, {block**2}"
    if node.op_type == "SpaceToDepth" and (data[2] % block or data[3] % block):
        return f"{node.inputs[0]!r} has {data[2]} x {data[3]} positions, no multiples of blocksize, {block}"
    return None


def _permutation(node: Node, data: tuple[int, ...], shapes: Shapes) -> str | None:
    order = node.attribute("perm", None)
    if order is not None and sorted(cast("Sequence[int]", order)) != list(range(len(data))):
        return (
            f"perm is {list(cast('Sequence[int]', order))}, and {node.inputs[0]!r} has {len(data)} dimensions: give "
            f"each of {', '.join(map(str, range(len(data))))} once"
        )
    return None


def _letters(node: Node, data: tuple[int, ...], shapes: Shapes) -> str | None:
    """Of an Einsum: a letter that stands for two sizes, neither of which is 1."""
    text = cast("bytes", node.attribute("equation", b"")).decode().replace(" ", "")
    terms = text.partition("->")[0].split(",")
    if "." in text or len(terms) != len(shapes):
        return None
    sizes: dict[str, tuple[int, str]] = {}
    for operand, term, shape in zip(node.inputs, terms, shapes, strict=True):
        if shape is None or len(shape) != len(term):
            continue
        for letter, size in zip(term, shape, strict=True):
            known, first = sizes.setdefault(letter, (size, operand))
            if known == 1:
                sizes[letter] = size, operand
            elif size not in (1, known):
                return f"{letter!r} of {text!r} is {known} in {first!r} and {size} in {operand!r}"
    return None


def _axes(node: Node, data: tuple[int, ...], shapes: Shapes) -> str | None:
    """Of a reduction, where they are an attribute."""
    axes = cast("Sequence[int]", node.attribute("axes", ()))
    named = [axis % len(data) for axis in axes if -len(data) <= axis < len(data)]
    twice = next((axis for axis in named if named.count(axis) > 1), None)
    return None if twice is None else f"axis {twice} of {node.inputs[0]!r} is named twice in axes, {list(axes)}"


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_CHECKS: dict[str, Callable[[Node, tuple[int, ...], Shapes], str | None]] = {
    "Conv": _convolution,
    "ConvInteger": _integer_convolution,
    "ConvTranspose": _convolution,
    "DepthToSpace": _blocks,
    "DequantizeLinear": scales,
    "Einsum": _letters,
    "MatMulInteger": zeros_of_matrices,
    "QuantizeLinear": scales,
    "SpaceToDepth": _blocks,
    "Transpose": _permutation,
    **{f"Reduce{name}": _axes for name in _REDUCTIONS},
}
