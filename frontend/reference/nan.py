"""Maxima and minima that keep a NaN, as those of the instruction set do (IEEE 754-2019, ``maximum``).

TVM compiles ``max(a, b)`` to ``a if a > b else b``, which drops a NaN in ``a``: a rectifier makes 0 of it. Here it
becomes ``a if a > b or isnan(a) else b``. (Not ``a != a``, which TVM simplifies to false.) TVM's sign of a NaN is 0;
here it is the NaN.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...ir.graph import FLOATS
from ..net.net import Info
from ..onnx.inline import Node
from ..onnx.prepare import Network
from .stored_kernels import Nodes, rewrite_kernels

_BETTER = {"prim.Max": "prim.GT", "prim.Min": "prim.LT"}
"""TVM's JSON: the node of a choice, and that of the comparison which decides it."""


def keep_nans(module: Any) -> Any:
    """Rewrite every float maximum and minimum in the module's kernels."""
    return rewrite_kernels(module, _keep)


def keep_nans_of_signs(network: Network) -> None:
    """Rewrite every Sign of floats in place."""
    network.nodes = [part for node in network.nodes for part in _sign(node, network)]


def _sign(node: Node, network: Network) -> list[Node]:
    info = network.infos.get(node.inputs[0]) if node.op_type == "Sign" and not node.domain else None
    if info is None or info.dtype not in FLOATS:
        return [node]
    strange, sign = f"{node.outputs[0]}/is NaN", f"{node.outputs[0]}/sign"
    network.infos |= {strange: Info(info.shape, "bool"), sign: info}
    return [
        replace(node, op_type="IsNaN", outputs=(strange,)),
        replace(node, outputs=(sign,)),
        replace(node, op_type="Where", inputs=(strange, node.inputs[0], sign)),
    ]


def _keep(nodes: Nodes) -> bool:
    choices = [node for node in nodes if node["type"] in _BETTER and _is_float(nodes, node)]
    if not choices:
        return False

    def put(node: dict[str, Any]) -> int:
        nodes.append(node)
        return len(nodes) - 1

    def add(kind: str, **data: object) -> int:
        return put({"type": kind, "data": data})

    nothing = put({"type": "None"})
    isnan = put({"type": "ir.Op", "data": "tirx.isnan"})
    truth = add("ir.PrimType", span=nothing, dtype="bool")
    no_types = put({"type": "ffi.Array", "data": []})
    for node in choices:
        data = node["data"]
        a, b = data["a"], data["b"]
        better = add(_BETTER[node["type"]], span=nothing, ty=truth, a=a, b=b)
        arguments = put({"type": "ffi.Array", "data": [a]})
        strange = add("ir.Call", span=nothing, ty=truth, op=isnan, args=arguments, attrs=nothing, ty_args=no_types)
        either = add("prim.Or", span=nothing, ty=truth, a=better, b=strange)
        node["type"] = "prim.Select"
        node["data"] = {"span": nothing, "ty": data["ty"], "condition": either, "true_value": a, "false_value": b}
    return True


def _is_float(nodes: Nodes, node: dict[str, Any]) -> bool:
    return str(nodes[node["data"]["ty"]]["data"]["dtype"]).startswith("float")
