"""Types and attributes of a QuantizeLinear or DequantizeLinear that cannot be imported: refused, with what to change.

They are looked at when the rest of the network has become integers: what is computed at import may be of other types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import onnx

from ....ir.errors import UnsupportedError
from ...net.net import Info
from ..inline import Node
from .quantisation import written_as

_REALS = ("float32", "float16")
_QUANTISED = ("int8", "uint8")
_DEQUANTISED = (*_QUANTISED, "int32")
"""Sums of products are int32."""
_WEIGHTS = (*_DEQUANTISED, "int16", "uint16")
"""Constants, of which real numbers are left."""


def check_quantised_types(node: Node, infos: Sequence[Info | None], is_weight: bool) -> None:
    """Raise :class:`UnsupportedError` if the node is a QuantizeLinear or DequantizeLinear that cannot be imported.

    ``infos``: of its inputs. ``is_weight``: the first of them is a constant.
    """
    if node.domain or node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
        return
    dtypes = [None if info is None else info.dtype for info in infos]
    if node.op_type == "QuantizeLinear":
        problem = _attributes(node) or _quantising(node, dtypes)
    else:
        problem = _attributes(node) or _dequantising(node, dtypes, _WEIGHTS if is_weight else _DEQUANTISED)
    if problem is not None:
        raise UnsupportedError(f"node {node.name!r} ({written_as(node)}): {problem}")


def _attributes(node: Node) -> str | None:
    block, precision = node.attribute("block_size", 0), int(cast("int", node.attribute("precision", 0)))
    if block:
        return (
            f"scales of blocks are not supported, and block_size is {block}: quantise with one scale, or with one for "
            "each channel"
        )
    if precision:
        return f"precision is {_name(precision)}, and the attribute is not supported: leave it out"
    return None


def _quantising(node: Node, dtypes: Sequence[str | None]) -> str | None:
    if dtypes[0] not in _REALS:
        return f"{node.inputs[0]!r} is of type {dtypes[0]}, which is not supported: cast it to float32 before"
    return _scale(node, dtypes) or _result(node, dtypes)


def _result(node: Node, dtypes: Sequence[str | None]) -> str | None:
    """Its type is that of the zero point or, without one, an attribute; else uint8."""
    zero, code = (*dtypes[2:], None)[0], int(cast("int", node.attribute("output_dtype", 0)))
    dtype = zero or (_name(code) if code else "uint8")
    if dtype in _QUANTISED:
        return None
    source = f"the zero point {node.inputs[2]!r} is of type" if zero else "output_dtype is"
    return f"{source} {dtype}, which is not supported: quantise activations to 8 bits, int8 or uint8"


def _dequantising(node: Node, dtypes: Sequence[str | None], allowed: Sequence[str]) -> str | None:
    if dtypes[0] not in allowed:
        return f"{node.inputs[0]!r} is of type {dtypes[0]}, which is not supported: quantise it to int8 or uint8"
    code = int(cast("int", node.attribute("output_dtype", 0)))
    if code and _name(code) not in _REALS:
        return f"output_dtype is {_name(code)}, which is not supported: give float32 or float16, and cast the result"
    return _scale(node, dtypes)


def _scale(node: Node, dtypes: Sequence[str | None]) -> str | None:
    if dtypes[1] in _REALS:
        return None
    return f"the scale {node.inputs[1]!r} is of type {dtypes[1]}, which is not supported: give float32 or float16"


def _name(element: int) -> str:
    """Of an element type of ONNX, as numpy calls it."""
    try:
        return onnx.helper.tensor_dtype_to_np_dtype(element).name
    except KeyError:
        return str(element)
