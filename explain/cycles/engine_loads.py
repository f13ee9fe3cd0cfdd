"""How long each operator keeps each engine and link busy, if nothing else ran: read off its instructions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan
from ...ir.program import Program
from .fetched_tensors import fetched_tensors
from .instruction_costs import InstructionCosts

Loads = Mapping[str, Mapping[str, float]]
"""By operator, by engine or link: cycles."""


def engine_loads(graph: Graph, plan: Plan, program: Program, machine: Machine) -> Loads:
    """Loads of all operators: of engines, that of the busiest core; a fetch counts for the operator that reads it."""
    tensor_of = fetched_tensors(graph, plan, program, machine)
    costs = InstructionCosts(program, machine)
    busy: dict[tuple[str, str], float] = defaultdict(float)
    crossed: dict[tuple[str, str], float] = defaultdict(float)
    for queue, stream in zip(program.queues, program.streams, strict=True):
        engine = machine.engine[queue.engine]
        queue_busy: dict[int, int] = defaultdict(int)
        for instruction in stream:
            if instruction.row.kind == "sync":
                continue
            cost = costs.cost(engine, instruction).cost
            op, _ = tensor_of(instruction)
            queue_busy[op] += cost.busy
            for link, count in cost.links:
                crossed[program.ops[op].name, machine.links[link].name] += count
        for op, cycles in queue_busy.items():
            key = program.ops[op].name, engine.name
            busy[key] = max(busy[key], cycles)
    loads: dict[str, dict[str, float]] = {op.name: {} for op in program.ops}
    for (op, name), cycles in busy.items():
        loads[op][name] = float(cycles)
    rates = {link.name: link.bytes_per_cycle for link in machine.links}
    for (op, name), count in crossed.items():
        loads[op][name] = count / rates[name]
    return loads


def busiest(loads: Mapping[str, float]) -> str:
    """The engine or link with the highest load; ``""`` if there is no load at all."""
    return max(loads, key=lambda name: (loads[name], name), default="")
