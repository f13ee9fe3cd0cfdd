"""What can be selected on a page, with all that its panel tells: operators, tensors, segments and memories."""

from __future__ import annotations

from collections.abc import Mapping

from ..compilation import Compilation
from ..cycles.losses import losses
from ..memory_use import kind_of
from ..report import Report

_LOSSES = 4
"""Losses of an operator that its panel tells at most."""

Row = Mapping[str, object]


def operators(report: Report, compilation: Compilation) -> list[Row]:
    """One row for each operator, in the order in which the plan runs them."""
    graph = compilation.graph
    breakdown = {row.op: row for row in report.breakdown.operators}
    hosts = {row.name: row.reason for row in report.hosts}
    rows: list[Row] = []
    for o in report.operators:
        cycles = breakdown.get(o.name)
        rows.append(
            {
                "name": o.name,
                "origin": list(o.origin),
                "segment": o.segment,
                "engine": o.engine,
                "shape": list(o.shape),
                "tile": list(o.tile),
                "reduce": list(o.reduce),
                "depth": o.depth,
                "weight_depth": o.weight_depth,
                "macs": o.macs,
                "elements": o.elements,
                "predicted": o.cycles,
                "cycles": o.run_cycles,
                "lost": o.lost,
                "limit": o.limit,
                "inputs": list(dict.fromkeys(graph.op[o.name].inputs)),
                "outputs": list(graph.op[o.name].outputs),
                "links": dict(o.link_bytes),
                "host": hosts.get(o.name, ""),
                "losses": losses(cycles, compilation.machine, _LOSSES) if cycles else "",
                "waits": [[r.cause, r.op, r.engine, r.cycles] for r in cycles.reasons] if cycles else [],
            }
        )
    return rows


def tensors(report: Report, compilation: Compilation) -> list[Row]:
    """One row for each tensor of the graph."""
    graph = compilation.graph
    traffic = {row.tensor: row for row in report.traffic}
    rows: list[Row] = []
    for tensor in graph.tensors:
        moved = traffic.get(tensor.name)
        producer = graph.producer.get(tensor.name)
        rows.append(
            {
                "name": tensor.name,
                "kind": kind_of(graph, tensor.name),
                "shape": list(tensor.shape),
                "dtype": tensor.dtype,
                "bytes": tensor.bytes,
                "producer": producer.name if producer else "",
                "readers": [op.name for op in graph.consumers[tensor.name]],
                "fetched": moved.fetched if moved else 0,
                "stored": moved.stored if moved else 0,
                "by_host": moved.host if moved else 0,
                "reason": moved.reason if moved else "",
            }
        )
    return rows


def segments(report: Report) -> list[Row]:
    """One row for each segment."""
    return [
        {
            "name": str(s.index),
            "first": s.first,
            "last": s.last,
            "operators": s.operators,
            "instances": s.instances,
            "cores": s.cores,
            "cores_used": s.cores_used,
            "cycles": s.cycles,
            "share": s.share,
            "waits": s.waits,
            "limit": s.limit,
            "limit_cycles": s.limit_cycles,
        }
        for s in report.segments
    ]


def memories(report: Report) -> list[Row]:
    """One row for each memory."""
    return [
        {
            "name": m.memory,
            "role": m.role,
            "capacity": m.capacity,
            "peak": m.peak,
            "extent": m.extent,
            "activations": m.activations,
            "constants": m.constants,
            "buffers": m.buffers,
            "at": m.at,
        }
        for m in report.memories
    ]
