"""Which nodes of a model are of custom operators."""

from __future__ import annotations

from ...ir.custom_operators import CustomOperator, find_operator
from ..onnx.inline import node_name
from ..onnx.load import ModelSource, load_model


def custom_nodes(source: ModelSource) -> dict[str, CustomOperator]:
    """The operator of each such node, by the name that operators of the graph have it in their origin."""
    nodes = enumerate(load_model(source).graph.node)
    pairs = ((node_name(node, number), find_operator(node.domain, node.op_type)) for number, node in nodes)
    return {name: operator for name, operator in pairs if operator is not None}
