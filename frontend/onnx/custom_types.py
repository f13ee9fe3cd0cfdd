"""Shapes and dtypes of what custom operators make, which ONNX's inference knows nothing of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import onnx
from onnx import shape_inference

from ...ir.custom_operators import find_operator
from ..net.net import Info
from .inline import SMALL, Node, record

CustomResults: TypeAlias = Callable[[Node, Sequence[Info | None], Sequence[np.ndarray | None]], dict[str, Info]]
"""Shapes and dtypes of the outputs of a node, by those of its inputs (``None``: left out) and values of small ones."""


def info_of(kind: onnx.TypeProto) -> Info | None:
    """The static shape and dtype that a type says, if it does."""
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    tensor = kind.tensor_type
    if any(not d.HasField("dim_value") for d in tensor.shape.dim):
        return None
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    except KeyError:
        return None
    return Info(tuple(d.dim_value for d in tensor.shape.dim), dtype)


def custom_infos(
    node: Node, infos: Mapping[str, Info], constants: Mapping[str, np.ndarray], results: CustomResults
) -> dict[str, Info]:
    """Of the outputs of a node of a custom operator; nothing while something is unknown of an input."""
    known = [infos.get(name) if name else None for name in node.inputs]
    if any(info is None for info, name in zip(known, node.inputs, strict=True) if name):
        return {}
    values = [constants.get(name) for name in node.inputs]
    return results(node, known, [v if v is not None and v.size <= SMALL else None for v in values])


def with_custom_types(
    model: onnx.ModelProto, weights: Mapping[str, np.ndarray], results: CustomResults | None
) -> onnx.ModelProto:
    """The model with the types of all values that can be inferred, behind custom operators as well."""
    work = onnx.ModelProto()
    work.CopyFrom(model)
    sizes = {name: Info(array.shape, array.dtype.name) for name, array in weights.items()}
    while True:
        typed = shape_inference.infer_shapes(work, data_prop=True)
        if results is None:
            return typed
        types = {value.name: info_of(value.type) for value in (*typed.graph.input, *typed.graph.value_info)}
        known = {name: info for name, info in types.items() if info is not None} | sizes
        custom = [record(n, n.name) for n in typed.graph.node if find_operator(n.domain, n.op_type) is not None]
        pending = (node for node in custom if any(o and o not in known for o in node.outputs))
        infos = {name: info for node in pending for name, info in custom_infos(node, known, weights, results).items()}
        if known.keys() >= infos.keys():
            return typed
        work.graph.value_info.extend(value_info(name, info) for name, info in infos.items() if name not in known)


def value_info(name: str, info: Info) -> onnx.ValueInfoProto:
    """A value of ONNX with a static type."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(info.dtype))
    return onnx.helper.make_tensor_value_info(name, kind, info.shape)
