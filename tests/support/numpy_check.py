"""A plan, lowered and simulated, against the graph's own meaning in numpy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.ir.graph import Graph
from girih.ir.machine import Machine
from girih.ir.plan import Plan
from girih.ir.program import Program
from girih.ir.trace import Trace
from girih.lowering import lower
from girih.lowering.host import HostKernels
from girih.simulator import simulate

Arrays = Mapping[str, np.ndarray]


def inputs_of(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Normal floats and small whole numbers, by port."""
    random = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for port in graph.inputs:
        if np.dtype(port.dtype).kind == "f":
            found[port.name] = random.standard_normal(port.shape).astype(port.dtype)
        else:
            found[port.name] = random.integers(0, 2, port.shape).astype(port.dtype)
    return found


def run(graph: Graph, machine: Machine, program: Program, inputs: Arrays) -> Trace:
    return simulate(program, machine, graph.data, inputs, host=HostKernels().run)


def error(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest expected number; equal infinities and NaNs are equal."""
    assert got.shape == expected.shape and got.dtype == expected.dtype
    a, b = got.astype(np.float64), expected.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    with np.errstate(invalid="ignore"):
        gap = np.nan_to_num(np.where(same, 0.0, np.abs(a - b)), nan=np.inf)
    return float(gap.max() / max(1e-30, float(np.abs(b[np.isfinite(b)]).max(initial=0.0))))


def expected_of(graph: Graph, inputs: Arrays) -> dict[str, np.ndarray]:
    """The outputs by port, as numpy computes them; host operators as TVM does."""
    from tests.support.onnx_models import run_on_host  # brings ONNX Runtime along

    return evaluate_graph(graph, inputs, run_on_host)


def check(graph: Graph, machine: Machine, plan: Plan, inputs: Arrays, tolerance: float) -> None:
    """No violations, and every output as near to the reference as ``tolerance`` says."""
    trace = run(graph, machine, lower(graph, plan, machine), inputs)
    assert trace.violations == ()
    for name, expected in expected_of(graph, inputs).items():
        found = error(np.asarray(trace.outputs[name]), expected)
        assert found <= tolerance, f"{name}: {found:.2e}\n{graph}\n{plan}"
