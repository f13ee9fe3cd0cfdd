"""The roofline, with every operator on it: Williams et al., CACM 52, 2009."""

from __future__ import annotations

from ....ir.graph import Graph
from ....ir.machine import Machine
from ...compilation import Compilation
from ...report import Report
from ..view import View

OPS_PER_MAC = 2
"""A multiplication and an addition."""


def roofline_view(report: Report, compilation: Compilation) -> View:
    """A point for each operator, the peaks of the engines, and a slope for each link."""
    machine = compilation.machine
    points = [
        {"name": o.name, "ops": OPS_PER_MAC * o.macs + o.elements, "cycles": o.run_cycles, "bytes": dict(o.link_bytes)}
        for o in report.operators
        if o.macs + o.elements and o.run_cycles
    ]
    data = {
        "points": points,
        "peaks": _peaks(machine, _dtype(compilation.graph)),
        "links": [{"name": link.name, "memory": link.memory, "rate": link.bytes_per_cycle} for link in machine.links],
    }
    caption = (
        "Each dot is an operator: to the right, more operations for each byte that it moves over the link; "
        "upwards, more operations a cycle. The lines are what engines and link can do at most, in one "
        "cluster; a multiply-accumulate is two operations, and both scales are logarithmic. A dot far below "
        "the lines loses cycles."
    )
    return View("roofline", "Roofline", caption, data)


def _dtype(graph: Graph) -> str:
    """The type of the first contraction's operand, or else of the first input."""
    for op in graph.ops:
        if op.contraction is not None and op.inputs:
            return graph.tensor[op.inputs[0]].dtype
    return graph.tensors[0].dtype


def _peaks(machine: Machine, dtype: str) -> list[dict[str, object]]:
    """Operations a cycle of all matrix and of all vector engines of a cluster."""
    matrix, vector = machine.engine_for("matrix"), machine.engine_for("vector")
    rate = matrix.rate_of(dtype)
    lanes = (vector.lanes or {}).get(dtype)
    peaks: list[dict[str, object]] = []
    if rate:
        count = OPS_PER_MAC * matrix.rows * matrix.columns * rate * machine.cores
        peaks.append({"name": matrix.name, "ops": count})
    if lanes:
        peaks.append({"name": vector.name, "ops": lanes * machine.cores})
    return peaks
