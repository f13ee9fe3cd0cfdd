"""Choices by the position along a dimension: OneHot, ArgMax, ArgMin and Hardmax.

OneHot is a choice between its two values: whether an index, or an index from the end, is that of the place.

    y[i, d] = on if x[i] == d or x[i] == d - depth else off

Indices of all types count as int64, in which no place wraps around. TVM gives the result the dtype of a Python number,
and takes a depth of rank 0 alone.

ArgMax is the first position (or the last) that is not less than the maximum:

    y[i] = min over d of (x[i, d] < max over e of x[i, e] ? size : d)

TVM starts from position -1 and the lowest number, and stays there if there is nothing larger. Where there is a NaN, it
is the first position (or the last).
"""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import TensorProto, helper

from ....ir.errors import UnsupportedError
from ...net.net import Info
from ..prepare import Network, Node
from ..replacement import Replacement


def chosen(node: Node, network: Network) -> list[Node]:
    """The nodes for a OneHot of constant depth and values; raises :class:`UnsupportedError` for any other."""
    indices, depth, values = node.inputs
    info, axis = network.infos.get(indices), node.attribute("axis", -1)
    if depth not in network.constants or values not in network.constants:
        raise UnsupportedError(
            f"node {node.name!r}: OneHot: its depth or values are not constant; give both as weights"
        )
    if info is None or not isinstance(axis, int):
        return [node]
    places = int(network.constants[depth].reshape(-1)[0])
    off, on = network.constants[values]
    rank = len(info.shape) + 1
    axis %= rank
    nodes = Replacement(network, node)

    def equal(numbers: np.ndarray) -> str:
        """Whether each index is that of each place, of which there are as many as ``numbers``."""
        along = numbers.astype(np.int64).reshape([-1 if d == axis else 1 for d in range(rank)])
        return nodes.add("Equal", apart, nodes.constant("places", along), info=Info(shape, "bool"))

    shape = (*info.shape[:axis], places, *info.shape[axis:])
    whole = (*info.shape[:axis], 1, *info.shape[axis:])
    if info.dtype != "int64":
        indices = nodes.add("Cast", indices, info=Info(info.shape, "int64"), to=TensorProto.INT64)
    apart = nodes.add("Reshape", indices, nodes.constant("shape", whole), info=Info(whole, "int64"))
    same = nodes.add("Or", equal(np.arange(places)), equal(np.arange(-places, 0)), info=Info(shape, "bool"))
    return nodes.finish("Where", same, nodes.constant("on", np.asarray(on)), nodes.constant("off", np.asarray(off)))


def extreme(node: Node, network: Network) -> list[Node]:
    """The nodes for an ArgMax or ArgMin."""
    info = network.infos.get(node.inputs[0])
    axis, last = node.attribute("axis", 0), bool(node.attribute("select_last_index", 0))
    if info is None or not info.shape or not isinstance(axis, int):
        return [node]
    nodes = Replacement(network, node)
    axis %= len(info.shape)
    kept = _extreme(nodes, node.inputs[0], info, axis, largest=node.op_type == "ArgMax", last=last)
    shape = tuple(1 if d == axis else size for d, size in enumerate(info.shape))
    index = nodes.add("Cast", kept, info=Info(shape, "int64"), to=TensorProto.INT64)
    if not node.attribute("keepdims", 1):
        shape = (*shape[:axis], *shape[axis + 1 :])
        nodes.add("Reshape", index, nodes.constant("shape", list(shape)), info=Info(shape, "int64"))
    return nodes.done()


def hardmax(node: Node, network: Network) -> list[Node]:
    """The nodes for a Hardmax; before operator set 13, all dimensions from the axis on count as one."""
    info = network.infos.get(node.inputs[0])
    older = network.opset < 13
    axis = node.attribute("axis", 1 if older else -1)
    if info is None or not info.shape or not isinstance(axis, int):
        return [node]
    nodes = Replacement(network, node)
    source, axis, flat = node.inputs[0], axis % len(info.shape), info
    if older:
        flat = Info((prod(info.shape[:axis]), prod(info.shape[axis:])), info.dtype)
        source, axis = nodes.add("Reshape", source, nodes.constant("flat", list(flat.shape)), info=flat), 1
    index = _extreme(nodes, source, flat, axis, largest=True, last=False)
    places = _places(nodes, flat.shape, axis)
    same = nodes.add("Equal", places, index, info=Info(flat.shape, "bool"))
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(info.dtype))
    result = nodes.add("Cast", same, info=flat, to=dtype)
    if older:
        nodes.add("Reshape", result, nodes.constant("whole", list(info.shape)), info=info)
    return nodes.done()


def _extreme(nodes: Replacement, source: str, info: Info, axis: int, *, largest: bool, last: bool) -> str:
    """The position of an extreme of each row along the axis, which is kept, as int32."""
    shape = tuple(1 if d == axis else size for d, size in enumerate(info.shape))
    best = _reduced(nodes, "ReduceMax" if largest else "ReduceMin", source, Info(shape, info.dtype), axis)
    worse = nodes.add("Less" if largest else "Greater", source, best, info=Info(info.shape, "bool"))
    nowhere = nodes.constant("nowhere", np.array(-1 if last else info.shape[axis], np.int32))
    places = _places(nodes, info.shape, axis)
    position = nodes.add("Where", worse, nowhere, places, info=Info(info.shape, "int32"))
    return _reduced(nodes, "ReduceMax" if last else "ReduceMin", position, Info(shape, "int32"), axis)


def _places(nodes: Replacement, shape: tuple[int, ...], axis: int) -> str:
    """0, 1, 2, ... along the axis, as int32."""
    along = np.arange(shape[axis], dtype=np.int32)
    return nodes.constant("places", along.reshape([-1 if d == axis else 1 for d in range(len(shape))]))


def _reduced(nodes: Replacement, op_type: str, source: str, info: Info, axis: int) -> str:
    """From operator set 18 on, the axes of these are an input."""
    if nodes.network.opset < 18:
        return nodes.add(op_type, source, info=info, axes=[axis], keepdims=1)
    return nodes.add(op_type, source, nodes.constant("axes", [axis]), info=info, keepdims=1)
