"""A program from a plan: streams, ports, placed constants, kernels."""

from __future__ import annotations

from ...ir.box import full
from ...ir.codec import sha256
from ...ir.graph import Graph, Op, Port
from ...ir.machine import Machine
from ...ir.plan import Plan
from ...ir.program import HostKernel, Placed, Program, ProgramOp, ProgramPort
from ...ir.semantics.kernel_engine import kernel_engine
from ...ir.semantics.region import op_boxes, work
from ...ir.semantics.task_graph import sequence
from .program_builder import ProgramBuilder
from .queues import arrange


def assemble(graph: Graph, plan: Plan, machine: Machine, build: ProgramBuilder) -> Program:
    """The program of a plan that was walked, in the plan's order of queues."""
    tasks = build.dependences.tasks
    order = sequence(
        [str(q) for q in build.queues.all], [t.queue for t in tasks], [t.after for t in tasks], plan.order
    )  # fmt: skip
    streams, slots = arrange(tasks, order, len(build.queues.all))
    homes = build.layout.homes
    digests = {c.tensor: c.sha256 for c in graph.constants}

    def placed(name: str) -> Placed:
        tensor = graph.tensor[name]
        return Placed(name, homes[name].address, tensor.dtype, tensor.shape, digests.get(name, ""))

    def port(p: Port) -> ProgramPort:
        tensor = graph.tensor[p.tensor]
        return ProgramPort(p.name, p.shape, p.dtype, p.batch_axis, homes[p.tensor].address, tensor.dtype, tensor.shape)

    return Program(
        machine=machine.name,
        machine_sha256=sha256(machine),
        graph_sha256=plan.graph_sha256,
        plan_sha256=sha256(plan),
        replicas=graph.replicas,
        queues=build.queues.all,
        streams=tuple(tuple(stream) for stream in streams),
        ops=tuple(_op(graph, op, machine) for op in graph.ops),
        constants=tuple(placed(c.tensor) for c in graph.constants if c.tensor in homes),
        inputs=tuple(port(p) for p in graph.inputs if p.tensor in homes),
        outputs=tuple(port(p) for p in graph.outputs),
        kernels=tuple(
            HostKernel(
                op.name, op.host.tir, op.host.reason,
                tuple(placed(n) for n in op.inputs), tuple(placed(n) for n in op.outputs),
                op.host.operations, op.host.special,
            )
            for op in graph.ops
            if op.host is not None
        ),
        lower_bound_cycles=plan.lower_bound_cycles,
        batch=graph.batch,
        slots=tuple(tuple(runs) for runs in slots),
    )  # fmt: skip


def _op(graph: Graph, op: Op, machine: Machine) -> ProgramOp:
    """An operator for counters. Of one with a kernel each output element counts as one, whatever it computes."""
    if op.host is not None:
        elements = sum(graph.tensor[n].elements for n in op.outputs)
        return ProgramOp(op.name, op.origin, 0, elements, kernel_engine(graph, op, machine)[0] == "host")
    done = work(op, op_boxes(op, graph.tensor, full(graph.tensor[op.output].shape)).points)
    return ProgramOp(op.name, op.origin, done.macs, done.elements, False)
