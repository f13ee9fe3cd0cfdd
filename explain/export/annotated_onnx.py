"""The ONNX network as it was given, with what became of each node in its metadata, for Netron and others.

Each node has ``girih.operator``, ``girih.segment``, ``girih.engine`` and so on. A node of which several operators were
made has the values of all of them, in the same order, separated by semicolons. A node of which none was made, because
it was folded into constants or into index arithmetic, has ``girih.folded_into``: the operators that it leads to, or
else those that it comes from.

``metadata_props`` of nodes are from IR version 10 on (ONNX 1.16), so that the file says that version if it had an
older one; nothing else in it changes, and neither do its outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ...ir.errors import UsageError
from ...ir.graph import OnnxNode, node_name
from ..report import Report
from .operator_facts import operator_facts

IR_VERSION = 10
"""The first with metadata of nodes."""


class _Node(OnnxNode, Protocol):
    """What is read of an ``onnx.NodeProto``."""

    @property
    def input(self) -> Iterable[str]: ...


def annotated_onnx(report: Report, model: bytes) -> bytes:
    """The network with metadata; :class:`UsageError` where it is not there, as after a partial read."""
    import onnx

    if not model:
        raise UsageError("the ONNX network was not read; load the .girih file with its data")
    network = onnx.load_model_from_string(model)
    network.ir_version = max(network.ir_version, IR_VERSION)
    nodes = list(network.graph.node)
    summary, facts = report.summary, operator_facts(report)
    operators = operators_of_nodes(nodes, {row.name: row.origin for row in report.operators})
    folded = folded_into(nodes, operators)
    for index, node in enumerate(nodes):
        rows = [facts[op] for op in operators[index]]
        keys = dict.fromkeys(key for row in rows for key in row)
        values = {key: "; ".join(row.get(key, "-") for row in rows) for key in keys}
        if not rows and folded[index]:
            values["folded_into"] = "; ".join(folded[index])
        _add(node.metadata_props, values)
    _add(
        network.metadata_props,
        {
            "machine": summary.machine,
            "strategy": summary.strategy,
            "cycles_predicted": str(summary.cycles_predicted),
            "cycles_simulated": str(summary.cycles),
            "cycles_lower_bound": str(summary.lower_bound_cycles),
            "limited_by": summary.lower_bound_reason,
            "segments": str(summary.segments),
            "operators": str(summary.operators),
            **{f"option.{name}": value for name, value in report.provenance.options.items()},
            **{f"version.{name}": value for name, value in report.provenance.versions.items()},
        },
    )
    return network.SerializeToString(deterministic=True)


def operators_of_nodes(nodes: Sequence[_Node], origins: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """For each node, the operators that were made from it, in the order of the plan."""
    ops_of_node: dict[str, list[str]] = {}
    for op, names in origins.items():
        for name in names:
            ops_of_node.setdefault(name, []).append(op)
    return [tuple(ops_of_node.get(node_name(node, index), ())) for index, node in enumerate(nodes)]


def folded_into(nodes: Sequence[_Node], operators: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """For each node, the operators of the nearest nodes with operators behind it, or else before it."""
    producers = {output: index for index, node in enumerate(nodes) for output in node.output if output}
    behind: list[list[int]] = [[] for _ in nodes]
    before: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        for name in node.input:
            if name in producers:
                behind[producers[name]].append(index)
                before[index].append(producers[name])
    # ONNX lists nodes in an order in which they can run.
    forward = _nearest(range(len(nodes) - 1, -1, -1), behind, operators)
    backward = _nearest(range(len(nodes)), before, operators)
    return [a or b for a, b in zip(forward, backward, strict=True)]


def _nearest(
    order: Iterable[int], neighbours: Sequence[Sequence[int]], operators: Sequence[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    nearest: list[tuple[str, ...]] = [()] * len(operators)
    for index in order:
        reached = (op for other in neighbours[index] for op in (operators[other] or nearest[other]))
        nearest[index] = tuple(dict.fromkeys(reached))
    return nearest


class _Entry(Protocol):
    """An ``onnx.StringStringEntryProto``."""

    key: str
    value: str


class _Entries(Protocol):
    def add(self, *, key: str, value: str) -> _Entry: ...


def _add(entries: _Entries, values: Mapping[str, str]) -> None:
    for key, value in values.items():
        entries.add(key=f"girih.{key}", value=value)
