"""Resize and Upsample: which sizes they give to dimensions, and where each result lies among the inputs.

To the nearest input, they are a Gather along each dimension that changes: its indices are exact, where a floating-point
position in the middle of two inputs is rounded to either. What interpolates in another form than the newest Resize (an
Upsample, a Resize before operator set 11, one of some axes) gets this form. Those older ones place their results at
multiples of a distance, from the first on, and take the input before, or behind it where a dimension shrinks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, floor

import numpy as np

from ....ir.errors import UnsupportedError, UsageError
from ...net.net import Info
from ..prepare import Network, Node
from ..replacement import Replacement

_HALF = Fraction(1, 2)

POSITIONS: dict[object, Callable[[int, int, int], Fraction]] = {
    b"half_pixel": lambda o, old, new: (o + _HALF) * old / new - _HALF,
    b"half_pixel_symmetric": lambda o, old, new: (o + _HALF) * old / new - _HALF,
    b"pytorch_half_pixel": lambda o, old, new: (o + _HALF) * old / new - _HALF if new > 1 else Fraction(0),
    b"align_corners": lambda o, old, new: o * Fraction(old - 1, new - 1) if new > 1 else Fraction(0),
    b"asymmetric": lambda o, old, new: o * Fraction(old, new),
}
"""Where an output lies among the inputs, by the ONNX attribute. Sizes are whole, so that two of these are the same."""

_NEAREST: dict[object, Callable[[Fraction], int]] = {
    b"floor": floor,
    b"ceil": ceil,
    b"round_prefer_floor": lambda position: ceil(position - _HALF),
    b"round_prefer_ceil": lambda position: floor(position + _HALF),
}
"""The input that is nearest to a position, by the ONNX attribute."""

MOST_INDICES = 4096
"""The importer does not look at the values of more integers: a Gather by more of them would depend on data."""

_WHOLE = 1e-4
"""How far from a whole number the product of a size and a scale may be: scales are rounded to single precision."""


def resized(node: Node, network: Network) -> list[Node]:
    """The nodes for a Resize or Upsample; itself if its form is right already.

    Raises :class:`UnsupportedError` for scales that give no whole sizes, or, of the older forms, are not constant.
    """
    info = network.infos.get(node.inputs[0])
    older = node.op_type == "Upsample" or network.opset < 11
    sizes = None if info is None else _sizes(node, network, info.shape, older)
    mode = node.attribute("mode", b"nearest")
    where = b"asymmetric" if older else node.attribute("coordinate_transformation_mode", b"half_pixel")
    if info is None or sizes is None or where not in POSITIONS:
        return [node]
    if mode == b"nearest":
        return _nearest(node, network, info, sizes, where, older)
    if not older and node.attribute("axes") is None:
        return [node]
    nodes = Replacement(network, node)
    inputs = node.inputs[0], "", "", nodes.constant("sizes", sizes)
    cubic = node.attribute("cubic_coeff_a", -0.75)
    mode = b"linear" if mode == b"bilinear" else mode
    return nodes.finish("Resize", *inputs, mode=mode, coordinate_transformation_mode=where, cubic_coeff_a=cubic)


def _sizes(node: Node, network: Network, shape: tuple[int, ...], older: bool) -> tuple[int, ...] | None:
    """The size of each dimension of the result, if what determines it is constant."""
    scales = _older_scales(node, network) if older else _constant(node, network, 2)
    sizes = None if older else _constant(node, network, 3)
    factors = scales if sizes is None else sizes
    if factors is None and older:
        raise UnsupportedError(
            f"node {node.name!r}: {node.op_type}: its scales are not constant; export the model with fixed input sizes"
        )
    if factors is None:
        return None
    axes = node.attribute("axes", list(range(len(shape))))
    if not isinstance(axes, list) or len(axes) != len(factors):
        what = "sizes" if sizes is not None else "scales"
        raise UsageError(f"node {node.name!r}: {node.op_type}: it has {len(factors)} {what} for axes {axes}")
    result = list(shape)
    for axis, factor in zip(axes, factors, strict=True):
        result[axis] = int(factor) if sizes is not None else _scaled(node, shape[axis], float(factor))
    return tuple(result)


def _constant(node: Node, network: Network, position: int) -> np.ndarray | None:
    """The value of an input, if it is there and constant."""
    name = node.inputs[position] if position < len(node.inputs) else ""
    return network.constants.get(name)


def _older_scales(node: Node, network: Network) -> Sequence[float] | np.ndarray | None:
    """They were an input from operator set 9 on, an attribute before, and in the beginning two."""
    if len(node.inputs) > 1:
        return _constant(node, network, 1)
    height, width = node.attribute("height_scale"), node.attribute("width_scale")
    if isinstance(height, float) and isinstance(width, float):
        return 1.0, 1.0, height, width
    scales = node.attribute("scales")
    return scales if isinstance(scales, list) else None


def _scaled(node: Node, size: int, scale: float) -> int:
    whole = round(size * scale)
    if abs(whole - size * scale) > _WHOLE:
        raise UnsupportedError(
            f"node {node.name!r}: {node.op_type}: scales that give no whole sizes are not supported: "
            f"{size} times {scale:g}; give sizes, or other scales"
        )
    return whole


def _nearest(
    node: Node, network: Network, info: Info, sizes: tuple[int, ...], where: object, older: bool
) -> list[Node]:
    """A Gather for each dimension that changes, or a Resize of it alone where the indices would be too many."""
    rounding = node.attribute("nearest_mode", b"round_prefer_floor")
    if rounding not in _NEAREST:
        raise UsageError(f"node {node.name!r}: {node.op_type}: its nearest_mode is unknown: {rounding!r}")
    nodes = Replacement(network, node)
    source = node.inputs[0]
    for axis, (old, new) in enumerate(zip(info.shape, sizes, strict=True)):
        if old == new:
            continue
        if older:
            rounding = b"floor" if new > old else b"ceil"
        info = Info((*info.shape[:axis], new, *info.shape[axis + 1 :]), info.dtype)
        if new > MOST_INDICES:
            modes = {"mode": b"nearest", "coordinate_transformation_mode": where, "nearest_mode": rounding}
            source = nodes.add("Resize", source, "", "", nodes.constant("sizes", info.shape), info=info, **modes)
            continue
        chosen = (_NEAREST[rounding](POSITIONS[where](output, old, new)) for output in range(new))
        indices = nodes.constant(f"axis{axis}", [min(max(place, 0), old - 1) for place in chosen])
        source = nodes.add("Gather", source, indices, info=info, axis=axis)
    return nodes.done()
