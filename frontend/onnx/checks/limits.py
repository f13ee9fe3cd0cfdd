"""Forms of operators that TVM would import as something else: refused, with the reason.

Each limit is a predicate on the attributes of a node; its docstring is the user's message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import onnx

from ....ir.errors import UnsupportedError, UsageError

Attribute: TypeAlias = Callable[[str, object], object]
"""Looks up an attribute, with a default."""
Limit: TypeAlias = Callable[[Attribute], bool]


def antialias(attribute: Attribute) -> bool:
    """antialias is not supported"""
    return bool(attribute("antialias", 0))


def aspect_ratio(attribute: Attribute) -> bool:
    """keep_aspect_ratio_policy other than stretch is not supported"""
    return attribute("keep_aspect_ratio_policy", b"stretch") != b"stretch"


def exclude_outside(attribute: Attribute) -> bool:
    """exclude_outside is not supported"""
    return bool(attribute("exclude_outside", 0))


def depth_column_row(attribute: Attribute) -> bool:
    """mode other than DCR is not supported"""
    return attribute("mode", b"DCR") != b"DCR"


def maximum(attribute: Attribute) -> bool:
    """mode other than avg is not supported"""
    return attribute("mode", b"avg") != b"avg"


def output_shape(attribute: Attribute) -> bool:
    """the attribute output_shape is not supported; give pads and output_padding"""
    return attribute("output_shape", None) is not None


def one_sign(attribute: Attribute) -> bool:
    """detect_negative and detect_positive other than 1 are not supported"""
    return attribute("detect_negative", 1) != 1 or attribute("detect_positive", 1) != 1


LIMITS: dict[str, tuple[Limit, ...]] = {
    "ConvTranspose": (output_shape,),
    "IsInf": (one_sign,),
    "Resize": (antialias, aspect_ratio, exclude_outside),
    "RoiAlign": (maximum,),
    "SpaceToDepth": (depth_column_row,),
}


FLAGS = frozenset(
    {
        *("ceil_mode", "center_point_box", "channels_last", "count_include_pad", "exclusive", "fmod", "hardmax"),
        *("is_causal", "keepdims", "largest", "linear_before_reset", "noop_with_empty_axes", "reverse"),
        *("select_last_index", "sorted", "storage_order", "training_mode", "transA", "transB", "upper"),
    }
)
"""Attributes that are 0 or 1; of other numbers, importers make different things."""


def refuse_flags(name: str, op_type: str, attributes: Sequence[onnx.AttributeProto]) -> None:
    """Raise :class:`UsageError` if an attribute that is a flag is neither 0 nor 1."""
    for attribute in attributes:
        if attribute.name in FLAGS and attribute.type == onnx.AttributeProto.INT and attribute.i not in (0, 1):
            raise UsageError(f"node {name!r}: {op_type}: {attribute.name} is {attribute.i}; give 0 or 1")


def refuse(name: str, op_type: str, attribute: Attribute) -> None:
    """Raise :class:`UnsupportedError` if the node breaks a limit of its operator."""
    for limit in LIMITS.get(op_type, ()):
        if limit(attribute):
            raise UnsupportedError(f"node {name!r}: {op_type}: {limit.__doc__}")


def refuse_shape(name: str, op_type: str, shape: Sequence[int]) -> None:
    """Raise :class:`UsageError` if a result has a negative size, or that of a convolution no elements."""
    if min(shape, default=1) < (op_type in ("Conv", "ConvTranspose")):
        raise UsageError(
            f"node {name!r}: {op_type}: its result has shape {list(shape)}; "
            "give it a larger input, or change its padding, window or strides"
        )
