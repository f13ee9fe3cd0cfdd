"""Where a kernel runs that no engine of tiles can run: on the host, or on the scalar engine of a cluster."""

from __future__ import annotations

from typing import Literal

from ..errors import UsageError
from ..graph import Graph, Op
from ..isa.timing import Cost, KernelWork, kernel_cost
from ..machine import Engine, Machine


def kernel_work(graph: Graph, op: Op) -> KernelWork:
    """What an operator with a kernel reads and writes in main memory, and its operations."""
    assert op.host is not None
    read, written = (sum(graph.tensor[n].bytes for n in dict.fromkeys(names)) for names in (op.inputs, op.outputs))
    return KernelWork(read, written, op.host.operations, op.host.special)


def kernel_engine(graph: Graph, op: Op, machine: Machine) -> tuple[Literal["host", "scalar"], Engine, Cost]:
    """The class and the engine that run an operator with a kernel, and its cost there.

    A kernel that is written for a scalar engine runs there if the machine has one; another one runs where it takes
    fewer cycles, and on the host if its operations are unknown.
    """
    assert op.host is not None
    work, host, scalar = kernel_work(graph, op), machine.host, machine.scalar
    on_host = kernel_cost(machine, host, "host", work) if host is not None else None
    if scalar is not None and work.operations:
        on_scalar = kernel_cost(machine, scalar, "scalar", work)
        sooner = on_host is None or on_scalar.busy + on_scalar.latency < on_host.busy + on_host.latency
        if op.host.engine == "scalar" or sooner:
            return "scalar", scalar, on_scalar
    if host is None or on_host is None:
        unknown = " (its operations cannot be counted)" if scalar is not None else ""
        raise UsageError(
            f"operator {op.name}: no engine of tiles of {machine.name} runs it, {op.host.reason}; and the machine has "
            f"no host{'' if scalar is not None else ' and no scalar engine'} that can{unknown}: "
            f"{_cure(machine, counted=bool(work.operations))}, or replace the operator"
        )
    return "host", host, on_host


def _cure(machine: Machine, *, counted: bool) -> str:
    """What to change of a machine without a host or scalar engine that fits; ``counted``: a scalar engine would do."""
    main = machine.levels.home.name
    for kind in ("host", "scalar") if counted else ("host",):
        for engine in (e for e in machine.engines if kind in e.classes):
            if engine.scope != "cluster":
                return f'{engine.name}, of class "{kind}", has scope "{engine.scope}"; give it scope "cluster"'
            if not {main} <= {*engine.reads} & {*engine.writes}:
                return f'let {engine.name}, of class "{kind}", read and write {main}, the main memory'
    return 'add an engine of class "host" and scope "cluster" that reads and writes its main memory'
