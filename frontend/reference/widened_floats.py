"""A network of 16-bit floats in float32: TVM would keep the sums in 16 bits, too, and lose most of their digits.

    y = MatMul(x, w)  of float16      becomes      the same of float32

What rounding to 16 bits between operators may change is part of what a check allows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import TensorProto, helper

from ..net.net import Info
from ..onnx.inline import Node
from ..onnx.prepare import Network

NARROW = ("float16", "bfloat16")
_KINDS = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_NAMES = ("to", "dtype", "output_dtype")
"""Attributes that say of which type a result is."""


def to_single_precision(network: Network) -> None:
    """Rewrite the network in place; its inputs become float32 as well.

    One with operators of the user stays as it is: their functions take the types that they are written for.
    """
    if any(node.custom is not None for node in network.nodes):
        return
    network.infos = {name: _widened(info) for name, info in network.infos.items()}
    network.constants = {name: _single(array) for name, array in network.constants.items()}
    network.nodes = [_of_single(node) for node in network.nodes]


def _widened(info: Info) -> Info:
    return replace(info, dtype="float32") if info.dtype in NARROW else info


def _single(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype.name in NARROW else array


def _of_single(node: Node) -> Node:
    attributes = tuple(
        helper.make_attribute(a.name, TensorProto.FLOAT) if a.name in _NAMES and a.i in _KINDS else a
        for a in node.attributes
    )
    return replace(node, attributes=attributes)
