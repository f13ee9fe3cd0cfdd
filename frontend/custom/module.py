"""A node of a custom operator as a Relax module of its own, and the shapes and dtypes of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import onnx
from tvm import relax

from ...ir.custom_operators import CustomOperator
from ...ir.errors import UsageError
from ..net.net import Info
from ..onnx.inline import Node
from .call import emit_call, info_of_type, wrong


def node_module(node: Node, infos: Sequence[Info | None], small: Sequence[np.ndarray | None]) -> Any:
    """The module of ``node``, whose inputs have ``infos`` (``None``: left out) and, if small constants, values.

    The parameters of ``main`` are called by position: ``in0`` and so on; its result is a tuple. Raises
    :class:`UsageError` for whatever is wrong with the operator.
    """
    operator = cast("CustomOperator", node.custom)
    builder = relax.BlockBuilder()
    inputs: list[Any] = []
    for position, (info, value) in enumerate(zip(infos, small, strict=True)):
        if info is None:
            inputs.append(None)
        elif value is not None:
            inputs.append(relax.const(cast("Any", value), info.dtype))
        else:
            kind = relax.TensorType(cast("Any", info.shape), info.dtype)
            inputs.append(relax.Var(f"in{position}", kind))
    results: list[Any] = []
    failure: UsageError | None = None
    with builder.function("main", [i for i in inputs if isinstance(i, relax.Var)]):
        with builder.dataflow():
            try:
                results = emit_call(operator, builder, inputs, keywords(node.name, node.attributes), node.name)
            except UsageError as error:
                failure = error  # A builder that is left within a function complains on standard error.
            output = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(output)
    if failure is not None:
        raise failure
    if len(results) < len(node.outputs):
        raise wrong(operator, node.name, f"it returns {len(results)} results, the node has {len(node.outputs)}")
    return builder.get()


def custom_results(node: Node, infos: Sequence[Info | None], small: Sequence[np.ndarray | None]) -> dict[str, Info]:
    """Shapes and dtypes of the node's outputs, by name."""
    body = node_module(node, infos, small)["main"].ret_ty
    results = [info_of_type(field) for field in body.fields]
    return {name: info for name, info in zip(node.outputs, results, strict=False) if name and info is not None}


def keywords(node: str, attributes: Sequence[onnx.AttributeProto]) -> dict[str, object]:
    """The attributes of a node as Python values: texts are decoded, tensors are arrays."""
    return {a.name: _value(node, a) for a in attributes}


def _value(node: str, attribute: onnx.AttributeProto) -> object:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if attribute.type in (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT):
        return value
    if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return list(value)
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [text.decode() for text in value]
    kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
    raise UsageError(f"node {node!r}: the attribute {attribute.name} is of type {kind}, which no custom operator takes")
