"""Element types of operands that ONNX's schemas rule out.

ONNX's inference looks at the first operand of most operators and takes the others for right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from ....ir.errors import UsageError
from ....ir.graph import DTYPES
from ...net.net import Info
from ..inline import Node

_NAMES = {"float": "float32", "double": "float64"}
"""Types that ONNX's schemas call otherwise."""


def check_operand_types(node: Node, opset: int, infos: Mapping[str, Info]) -> None:
    """Raise :class:`UsageError` if an operand has a type that its operator does not take, or not beside another's.

    Operands whose type is not known, or none that a tensor can have here, are not judged, nor are nodes of other
    domains than ONNX's own.
    """
    if node.domain or not onnx.defs.has(node.op_type, opset):
        return
    schema = onnx.defs.get_schema(node.op_type, opset)
    allowed = {c.type_param_str: _dtypes(c.allowed_type_strs) for c in schema.type_constraints}
    bound: dict[str, tuple[str, str]] = {}
    for place, operand in enumerate(node.inputs if schema.inputs else ()):
        parameter = schema.inputs[min(place, len(schema.inputs) - 1)]
        if operand not in infos or infos[operand].dtype not in DTYPES:
            continue
        dtype, kind = infos[operand].dtype, parameter.type_str
        choices = allowed.get(kind, _dtypes([kind]))
        if choices and dtype not in choices:
            raise UsageError(
                f"node {node.name!r} ({node.op_type}): its operand {operand!r} is of type {dtype}, "
                f"and ONNX allows {', '.join(choices)} for {parameter.name}"
            )
        if kind not in allowed or not parameter.is_homogeneous:
            continue
        first, other = bound.setdefault(kind, (operand, dtype))
        if other != dtype:
            raise UsageError(
                f"node {node.name!r} ({node.op_type}): its operands {first!r} and {operand!r} must have the same type; "
                f"they have {other} and {dtype}: cast one of them"
            )


def _dtypes(names: Sequence[str]) -> list[str]:
    """The dtypes of the tensors among types as schemas write them, such as ``tensor(int8)``."""
    inner = [n.removeprefix("tensor(").removesuffix(")") for n in names if n.startswith("tensor(")]
    return [_NAMES.get(name, name) for name in inner]
