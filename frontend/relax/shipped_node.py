"""Nodes of ONNX's own operators that a kernel which ships with the compiler computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx

from ..library.shipped_operators import DOMAIN
from ..net.net import Info
from ..onnx.inline import CUSTOM_DOMAIN, Node


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
    given = {"k": k, "axis": axis, "largest": largest}
    attributes = tuple(onnx.helper.make_attribute(name, value) for name, value in given.items())
    return replace(node, op_type=f"{DOMAIN}::TopK", domain=CUSTOM_DOMAIN, inputs=node.inputs[:1], attributes=attributes)
