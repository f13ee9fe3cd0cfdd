"""The operators as a graph for Google's Model Explorer, and its node data: cycles, lost cycles and segments.

Both follow the data classes of the package ai-edge-model-explorer (``graph_builder``, ``node_data_builder``). A segment
is a namespace, and so a layer that opens; inputs, constants and outputs lie outside of them. Node data are files of
their own there, one for each overlay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...ir.graph import Graph, Op
from ..report import Report
from .operator_facts import operator_facts

Json = dict[str, Any]

_GRADIENT = [{"stop": 0, "bgColor": "#fff7ec"}, {"stop": 0.5, "bgColor": "#fdbb84"}, {"stop": 1, "bgColor": "#d7301f"}]


def model_explorer(report: Report) -> dict[str, bytes]:
    """The collection of one graph (``""``), and node data by the name of the overlay."""
    name, rows = report.summary.network, report.operators
    overlays: dict[str, tuple[str, dict[str, float]]] = {
        "cycles": ("simulated cycles", {_op(row.name): round(row.run_cycles) for row in rows}),
        "lost": ("lost cycles", {_op(row.name): round(row.lost) for row in rows}),
        "segment": ("segment", {_op(row.name): row.segment for row in rows}),
    }
    graph = {"id": name, "nodes": _nodes(report)}
    files: dict[str, Json] = {"": {"label": f"{name} on {report.summary.machine}", "graphs": [graph]}}
    for key, (title, values) in overlays.items():
        results = {node: {"value": value} for node, value in values.items()}
        files[key] = {name: {"name": title, "results": results, "gradient": _GRADIENT}}
    return {key: json.dumps(value, indent=1).encode() for key, value in files.items()}


def _nodes(report: Report) -> list[Json]:
    graph, facts = report.compilation.graph, operator_facts(report)
    nodes = [
        _node(f"input:{port.name}", port.name, "inputs", {"shape": _extents(port.shape)}, {}, (port.tensor,), graph)
        for port in graph.inputs
    ]
    sources = {port.tensor: (f"input:{port.name}", 0) for port in graph.inputs}
    for name in sorted(graph.constant_names):
        used = bool(graph.consumers.get(name))
        if used and name not in sources:
            nodes.append(_node(f"constant:{name}", name, "constants", {}, {}, (name,), graph))
            sources[name] = f"constant:{name}", 0
    sources |= {output: (_op(op.name), number) for op in graph.ops for number, output in enumerate(op.outputs)}
    segments = {row.name: row.segment for row in report.operators}
    for op in graph.ops:
        space = f"segment {segments[op.name]}"
        attributes = {**facts[op.name], "onnx_nodes": " ".join(op.origin)}
        nodes.append(_node(_op(op.name), op.name, space, attributes, _edges(op, sources), op.outputs, graph))
    for port in graph.outputs:
        edges = {0: sources[port.tensor]} if port.tensor in sources else {}
        nodes.append(
            _node(f"output:{port.name}", port.name, "outputs", {"shape": _extents(port.shape)}, edges, (), graph)
        )
    return nodes


def _edges(op: Op, sources: Mapping[str, tuple[str, int]]) -> dict[int, tuple[str, int]]:
    """By number of the operand, the node and the number of its result."""
    return {number: sources[name] for number, name in enumerate(op.inputs) if name in sources}


def _node(
    identity: str,
    label: str,
    namespace: str,
    attributes: Mapping[str, str],
    edges: Mapping[int, tuple[str, int]],
    outputs: tuple[str, ...],
    graph: Graph,
) -> Json:
    return {
        "id": identity,
        "label": label,
        "namespace": namespace,
        "attrs": [{"key": key, "value": value} for key, value in attributes.items()],
        "incomingEdges": [
            {"sourceNodeId": source, "sourceNodeOutputId": str(output), "targetNodeInputId": str(number)}
            for number, (source, output) in edges.items()
        ],
        "outputsMetadata": [
            {
                "id": str(number),
                "attrs": [
                    {"key": "tensor_name", "value": name},
                    {"key": "shape", "value": f"{graph.tensor[name].dtype} {_extents(graph.tensor[name].shape)}"},
                ],
            }
            for number, name in enumerate(outputs)
        ],
    }


def _op(name: str) -> str:
    """The node of an operator: names of tensors, ports and operators may be equal."""
    return f"operator:{name}"


def _extents(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
