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
    engines = [machine.engine_for(kind).name for kind in ("matrix", "vector")]
    points: list[dict[str, object]] = []
    for o in report.operators:
        # An operator that runs beside others has few cycles of the run to itself, but its engine takes its time.
        busy = max((compilation.loads.get(o.name, {}).get(engine, 0.0) for engine in engines), default=0.0)
        cycles = max(o.run_cycles, busy)
        ops = OPS_PER_MAC * o.macs + o.elements
        if ops and cycles and o.engine != "host":
            points.append({"name": o.name, "ops": ops, "cycles": cycles, "bytes": dict(o.link_bytes)})
    data = {
        "points": points,
        "peaks": _peaks(machine, _dtype(compilation.graph)),
        "links": [
            {"name": link.name, "memory": ", ".join(link.memories), "rate": link.bytes_per_cycle}
            for link in machine.links
        ],
    }
    caption = (
        "Each dot is an operator: to the right, more operations for each byte that it moves over the link; upwards,"
        " more operations a cycle; a larger dot takes more cycles. The lines are what engines and link can do at most,"
        " in one cluster; a multiply-accumulate is two operations, and both scales are logarithmic. A dot far below the"
        " lines loses cycles; one above the slope was fetched ahead, while others ran; what moves nothing over the link"
        " is at the right edge."
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
        count = OPS_PER_MAC * matrix.rows * matrix.columns * matrix.depth * rate * machine.cores
        peaks.append({"name": matrix.name, "ops": count})
    if lanes:
        peaks.append({"name": vector.name, "ops": lanes * machine.cores})
    return peaks
