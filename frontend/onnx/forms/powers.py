"""Pow whose base and exponent differ in type, or whose base is an integer: TVM takes floats of one type."""

from __future__ import annotations

import numpy as np
from onnx import helper

from ....ir.errors import UnsupportedError
from ....ir.graph import FLOATS
from ...net.net import Info
from ..prepare import Network, Node
from ..replacement import Replacement

LARGEST = 8
"""The largest exponent of an integer: as many factors have its product."""


def of_one_type(node: Node, network: Network) -> list[Node]:
    """The nodes for a Pow of two types, or of integers; any other itself.

    An exponent gets the type of a base that is a float. A power of integers is a product, for which its exponent has to
    be constant; raises :class:`UnsupportedError` for any other.
    """
    base, exponent = node.inputs
    info, other = network.infos.get(base), network.infos.get(exponent)
    if info is None or other is None or (info.dtype in FLOATS and info.dtype == other.dtype):
        return [node]
    nodes = Replacement(network, node)
    if info.dtype not in FLOATS:
        factors = _whole_exponent(node, network.constants.get(exponent), info)
        result = base
        for _ in range(factors - 2):
            result = nodes.add("Mul", result, base, info=info)
        return nodes.finish("Mul", result, base) if factors > 1 else nodes.finish("Identity", base)
    if exponent in network.constants:
        cast = nodes.constant("exponent", network.constants[exponent].astype(info.dtype))
    else:
        to = helper.np_dtype_to_tensor_dtype(np.dtype(info.dtype))
        cast = nodes.add("Cast", exponent, info=Info(other.shape, info.dtype), to=to)
    return nodes.finish("Pow", base, cast)


def _whole_exponent(node: Node, exponent: np.ndarray | None, info: Info) -> int:
    """The exponent of an integer, if it is one of those that are products."""
    if exponent is not None and exponent.size == 1 and exponent.ndim <= len(info.shape):
        number = float(exponent.reshape(()))
        if number in range(1, LARGEST + 1):
            return int(number)
    raise UnsupportedError(
        f"node {node.name!r}: Pow of {info.dtype} is supported for a constant exponent that is one of the whole "
        f"numbers from 1 to {LARGEST}, of no higher rank than the base; give such an exponent, or cast the base to "
        "float32"
    )
