"""Maxima and minima of nothing but infinities, which TVM takes for the lowest or largest finite number.

It starts a maximum from the lowest finite number, and pads what it pools with it. Here, both are the infinity that
leaves every number what it is.
"""

from __future__ import annotations

import json
import math
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from tvm import tirx

from ...ir.graph import FLOATS


def start_from_infinities(module: Any) -> Any:
    """Rewrite every maximum and minimum of floats over axes, and the padding of pools, in the module's kernels."""
    for gvar, func in list(module.functions.items()):
        if isinstance(func, tirx.PrimFunc):
            module.update_func(gvar, _started(func))
    return module


def _started(func: Any) -> Any:
    # As in :mod:`.nan`, a node is replaced where it is stored.
    text = tvm.ir.save_json(func)
    if "prim.Max" not in text and "prim.Min" not in text:
        return func
    stored = json.loads(text)
    nodes: list[dict[str, Any]] = stored["nodes"]
    reductions = [n["data"] for n in nodes if n["type"] == "s_tir.SBlock" and _kind(nodes, n["data"]) == "maximum"]
    if not reductions:
        return func
    stores = [nodes[block["init"]]["data"] for block in reductions]
    for store in stores:
        store["value"] = _infinite(nodes, store["value"])
    # Only a pool has padding in its own kernel, of the number that it starts from.
    for block in (n["data"] for n in nodes if n["type"] == "s_tir.SBlock" and _kind(nodes, n["data"]) == "padding"):
        arguments = nodes[nodes[nodes[block["body"]]["data"]["value"]]["data"]["args"]]["data"]
        arguments[2] = _infinite(nodes, arguments[2])
    return tvm.ir.load_json(json.dumps(stored))


def _kind(nodes: list[dict[str, Any]], block: dict[str, Any]) -> str:
    """What a block computes, as far as it matters: "maximum" (or minimum) over axes, "padding", or ""."""
    body, start = nodes[block["body"]], nodes[block["init"]]
    if body["type"] != "tirx.BufferStore":
        return ""
    value = nodes[body["data"]["value"]]
    if value["type"] in ("prim.Max", "prim.Min") and start["type"] == "tirx.BufferStore":
        return "maximum"
    name = str(nodes[block["name_hint"]]["data"])
    return "padding" if value["type"] == "ir.Call" and name.startswith("pad_temp") else ""


def _infinite(nodes: list[dict[str, Any]], index: int) -> int:
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
