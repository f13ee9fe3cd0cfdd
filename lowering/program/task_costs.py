"""The tasks of a plan with what each takes, for whoever decides their order."""

from __future__ import annotations

from ...ir.graph import Graph
from ...ir.isa.timing import Cost, instruction_cost
from ...ir.machine import Machine
from ...ir.semantics.kernel_engine import kernel_work
from ...ir.semantics.task_graph import TaskGraph
from .program_builder import ProgramBuilder


def task_graph(graph: Graph, machine: Machine, build: ProgramBuilder) -> TaskGraph:
    """The tasks of a plan that was walked, priced; instructions of one pattern take equally long."""
    queues = build.queues.all
    engines = [machine.engine[queue.engine] for queue in queues]
    kernels = [kernel_work(graph, op) for op in graph.ops if op.host is not None]
    priced: dict[int, Cost] = {}
    costs: list[Cost] = []
    tasks = build.dependences.tasks
    for task in tasks:
        cost = priced.get(id(task.pattern)) if task.pattern is not None else None
        if cost is None:
            cost = instruction_cost(machine, engines[task.queue], task.instruction, kernels)
            if task.pattern is not None:
                priced[id(task.pattern)] = cost
        costs.append(cost)
    return TaskGraph(
        queues=tuple(map(str, queues)),
        computes=tuple(bool({"matrix", "vector", "host", "scalar"} & set(engine.classes)) for engine in engines),
        link_rates=tuple(float(link.bytes_per_cycle) for link in machine.links),
        queue=tuple(task.queue for task in tasks),
        cost=tuple(costs),
        after=tuple(task.after for task in tasks),
        slot=tuple(task.slot for task in tasks),
    )
