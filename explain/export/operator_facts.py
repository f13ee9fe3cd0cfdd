"""What other tools are told of each operator: texts by key, and the memories of its results."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan
from ..plan_tables import OperatorRow
from ..report import Report


def output_memories(graph: Graph, plan: Plan, machine: Machine) -> dict[str, str]:
    """By operator, the memories in which its results have buffers, in the machine's order."""
    places: dict[str, set[str]] = {}
    for buffer in plan.shared:
        places.setdefault(buffer.tensor, set()).add(buffer.memory)
    for local in plan.local:
        if local.use == "data":
            places.setdefault(local.name, set()).add(local.memory)
    order = [memory.name for memory in machine.memories]
    return {
        op.name: ", ".join(m for m in order if any(m in places.get(output, ()) for output in op.outputs))
        for op in graph.ops
    }


def operator_facts(report: Report) -> dict[str, dict[str, str]]:
    """By operator: segment, engine, tile, cycles and the like, by keys that other tools show."""
    c = report.compilation
    memories = output_memories(c.graph, c.plan, c.machine)
    return {row.name: _facts(row, memories) for row in report.operators}


def _facts(row: OperatorRow, memories: Mapping[str, str]) -> dict[str, str]:
    facts = {
        "operator": row.name,
        "segment": str(row.segment),
        "engine": row.engine,
        "tile": "x".join(map(str, row.tile)),
        "tile_reduce": "x".join(map(str, row.reduce)),
        "cycles_predicted": str(row.cycles),
        "cycles_simulated": str(round(row.run_cycles)),
        "cycles_lost": str(round(row.lost)),
        "limited_by": row.limit,
        "output_memory": memories[row.name],
    }
    return {key: value for key, value in facts.items() if value}
