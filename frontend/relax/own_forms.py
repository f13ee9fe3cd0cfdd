"""Nodes of ONNX that become something else than TVM's importer makes of them.

Casts of floats to integers are a plain conversion, which truncates: ONNX leaves open what becomes of a number that does
not fit. TVM's importer wraps it around, by way of a wider integer and ten more operators; here it is left to the
conversion instruction, which saturates. What is not a number has no sign in TVM's importer, and keeps it here, as in
ONNX Runtime. TopK is a kernel that ships with the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import onnx
from tvm import relax

from ...ir.graph import FLOATS
from ..library.shipped_operators import DOMAIN
from ..net.net import Info
from ..onnx.inline import CUSTOM_DOMAIN, Node


def own_module(node: Node, infos: Sequence[Info | None]) -> Any | None:
    """The Relax module of a Cast of floats (its input ``in0``) to integers, or of a Sign of floats; ``None`` for any
    other node."""
    source = infos[0] if infos else None
    if source is None or source.dtype not in FLOATS or node.domain:
        return None
    value = relax.Var("in0", relax.TensorType(cast("Any", source.shape), source.dtype))
    result = _truncated(node, value) if node.op_type == "Cast" else None
    if node.op_type == "Sign":
        result = relax.op.where(relax.op.not_equal(value, value), value, relax.op.sign(value))
    if result is None:
        return None
    builder = relax.BlockBuilder()
    with builder.function("main", [value]):
        with builder.dataflow():
            output = builder.emit_output(builder.normalize(result))
        builder.emit_func_output(output)
    return builder.get()


def _truncated(node: Node, value: Any) -> Any | None:
    to = node.attribute("to")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(to) if isinstance(to, int) else None
    return relax.op.astype(value, dtype.name) if dtype is not None and dtype.kind in "iu" else None


def as_shipped(node: Node, infos: Sequence[Info | None], small: Sequence[np.ndarray | None]) -> Node | None:
    """The node of the domain ``girih`` that computes the same; ``None`` if there is none.

    TopK with a constant k, of which the result is sorted, whether that is asked or not.
    """
    if node.op_type != "TopK" or node.domain or not infos or infos[0] is None or not infos[0].shape:
        return None
    number = small[1] if len(small) > 1 else None
    k = int(np.ravel(number)[0]) if number is not None and number.size == 1 else node.attribute("k")
    if not isinstance(k, int):
        return None
    axis, largest = node.attribute("axis", -1), node.attribute("largest", 1)
    values = {"k": k, "axis": axis, "largest": largest}
    attributes = tuple(onnx.helper.make_attribute(name, value) for name, value in values.items())
    return replace(node, op_type=f"{DOMAIN}::TopK", domain=CUSTOM_DOMAIN, inputs=node.inputs[:1], attributes=attributes)
