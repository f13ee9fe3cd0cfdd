"""How long each operator keeps each engine and link busy, if nothing else ran: read off its instructions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from operator import itemgetter

from ..ir.graph import Graph, Tensor
from ..ir.isa.table import ROWS
from ..ir.isa.timing import Cost, instruction_cost
from ..ir.machine import Machine
from ..ir.plan import Plan
from ..ir.program import Program
from .fetches import fetched

Loads = Mapping[str, Mapping[str, float]]
"""By operator, by engine or link: cycles."""

_KEPT = {
    row.mnemonic: itemgetter(*(i for i, f in enumerate(row.fields) if not f.name.endswith(".base")))
    for row in ROWS.values()
}
"""Takes all fields but addresses of an instruction's values."""


def loads(graph: Graph, plan: Plan, program: Program, machine: Machine) -> Loads:
    """For an engine that every core has, the load of the busiest core counts; a fetch counts for who needs it."""
    what = fetched(graph, plan, program, machine)
    bytes_of_kernel = [_bytes_moved(program, i) for i in range(len(program.kernels))]
    busy: dict[tuple[str, str], float] = defaultdict(float)
    crossed: dict[tuple[str, str], float] = defaultdict(float)
    # Most instructions differ from another in addresses alone, which cost nothing.
    costs: dict[tuple[object, ...], Cost] = {}
    for queue, stream in zip(program.queues, program.streams, strict=True):
        engine = machine.engine[queue.engine]
        mine: dict[int, int] = defaultdict(int)
        for instruction in stream:
            if instruction.row.kind == "sync":
                continue
            key = engine.name, instruction.mnemonic, _KEPT[instruction.mnemonic](instruction.values)
            cost = costs.get(key)
            if cost is None:
                cost = costs[key] = instruction_cost(machine, engine, instruction, bytes_of_kernel)
            op, _ = what(instruction)
            mine[op] += cost.busy
            for link, count in cost.links:
                crossed[program.ops[op].name, machine.links[link].name] += count
        for op, cycles in mine.items():
            key = program.ops[op].name, engine.name
            busy[key] = max(busy[key], cycles)
    found: dict[str, dict[str, float]] = {op.name: {} for op in program.ops}
    for (op, name), cycles in busy.items():
        found[op][name] = float(cycles)
    rates = {link.name: link.bytes_per_cycle for link in machine.links}
    for (op, name), count in crossed.items():
        found[op][name] = count / rates[name]
    return found


def busiest(loads_of: Mapping[str, float]) -> str:
    """The engine or link with the highest load; ``""`` if there is no load at all."""
    return max(loads_of, key=lambda name: (loads_of[name], name), default="")


def _bytes_moved(program: Program, kernel: int) -> int:
    placed = (*program.kernels[kernel].inputs, *program.kernels[kernel].outputs)
    return sum(Tensor(p.tensor, p.shape, p.dtype).bytes for p in placed)
