"""Maxima and minima of nothing but infinities, which TVM takes for the lowest or largest finite number.

It starts a maximum from the lowest finite number, and pads what it pools with it. Here, both are the infinity that
leaves every number what it is.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from ...ir.graph import FLOATS
from .stored_kernels import Nodes, rewrite_kernels


def start_from_infinities(module: Any) -> Any:
    """Rewrite every maximum and minimum of floats over axes, and the padding of pools, in the module's kernels."""
    return rewrite_kernels(module, _start)


def _start(nodes: Nodes) -> bool:
    blocks = [node["data"] for node in nodes if node["type"] == "s_tir.SBlock"]
    reductions = [block for block in blocks if _kind(nodes, block) == "maximum"]
    for store in [nodes[block["init"]]["data"] for block in reductions]:
        store["value"] = _infinite(nodes, store["value"])
    # Only a pool has padding in its own kernel, of the number that it starts from.
    for block in blocks if reductions else []:
        if _kind(nodes, block) == "padding":
            arguments = nodes[nodes[nodes[block["body"]]["data"]["value"]]["data"]["args"]]["data"]
            arguments[2] = _infinite(nodes, arguments[2])
    return bool(reductions)


def _kind(nodes: Nodes, block: dict[str, Any]) -> str:
    """What a block computes, as far as it matters: "maximum" (or minimum) over axes, "padding", or ""."""
    body, start = nodes[block["body"]], nodes[block["init"]]
    if body["type"] != "tirx.BufferStore":
        return ""
    value = nodes[body["data"]["value"]]
    if value["type"] in ("prim.Max", "prim.Min") and start["type"] == "tirx.BufferStore":
        return "maximum"
    name = str(nodes[block["name_hint"]]["data"])
    return "padding" if value["type"] == "ir.Call" and name.startswith("pad_temp") else ""


def _infinite(nodes: Nodes, index: int) -> int:
    """The node of an infinity if ``index`` is that of the lowest or largest finite number of its type; else itself."""
    node = nodes[index]
    if node["type"] != "ir.FloatImm":
        return index
    dtype = str(nodes[node["data"]["ty"]]["data"]["dtype"])
    if dtype not in FLOATS or abs(node["data"]["value"]) != float(ml_dtypes.finfo(np.dtype(dtype)).max):
        return index
    value = math.copysign(math.inf, node["data"]["value"])
    nodes.append({"type": "ir.FloatImm", "data": {**node["data"], "value": value}})
    return len(nodes) - 1
