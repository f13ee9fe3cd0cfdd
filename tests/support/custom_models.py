"""Networks with nodes of custom operators, and registries that are forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

DOMAIN = "my.ops"


def custom_node(name: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(name, inputs, outputs, name=f"my {name}", domain=DOMAIN, **attributes)


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int] | None],
    weights: Sequence[onnx.TensorProto] = (),
    kind: int = TensorProto.FLOAT,
    result: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "custom",
        [helper.make_tensor_value_info(n, kind, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, result, s) for n, s in outputs.items()],
        weights,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
