"""Casts of floats to integers: a plain conversion, which truncates.

ONNX leaves open what becomes of a number that does not fit. TVM's importer wraps it around, by way of a wider integer
and ten more operators; here it is left to the conversion instruction, which saturates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import onnx
from tvm import relax

from ..net.net import Info
from ..onnx.inline import Node


def truncating_cast(node: Node, infos: Sequence[Info | None]) -> Any | None:
    """The Relax module of a node that casts floats (its input ``in0``) to integers; ``None`` for any other node."""
    to = node.attribute("to")
    if node.op_type != "Cast" or not isinstance(to, int):
        return None
    source, dtype = infos[0], onnx.helper.tensor_dtype_to_np_dtype(to)
    if source is None or np.dtype(source.dtype).kind != "f" or dtype.kind not in "iu":
        return None
    builder = relax.BlockBuilder()
    value = relax.Var("in0", relax.TensorType(cast("Any", source.shape), source.dtype))
    with builder.function("main", [value]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.astype(value, dtype.name))
        builder.emit_func_output(result)
    return builder.get()
