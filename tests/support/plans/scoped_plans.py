"""Plans in which it is given where each tensor is between its operators: on the core, in shared or in main memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from girih.ir.box import full
from girih.ir.checks.check_plan import check_plan
from girih.ir.graph import Graph
from girih.ir.machine import Machine
from girih.ir.plan import Plan, SharedBuffer
from girih.ir.semantics.cell import Cells
from girih.solver.cost.local_buffers import round_up
from girih.solver.subproblem.operand_movement import with_movement
from tests.support.plans.rough_plans import in_order, placed_locals, rough_segment

Scope = Literal["local", "shared", "main"]


def scoped_plan(graph: Graph, machine: Machine, groups: Sequence[tuple[str, ...]], scopes: Mapping[str, Scope]) -> Plan:
    """A plan with one segment for each of the ``groups`` of operators, and each tensor where ``scopes`` says.

    What is ``shared`` stays there from the slot that makes it to the last that reads it; what is in ``main`` memory is
    stored when it is made, and fetched for each slot that reads it. Every buffer of the shared memory has an address of
    its own. The plan has passed :func:`check_plan`.
    """
    cells = Cells(graph)
    segments = tuple(rough_segment(graph, machine, group) for group in groups)
    steps = in_order(segments)
    slots = [op for segment in segments for op in segment.ops]
    reads = {n: [s for s, op in enumerate(slots) if n in graph.op[op].inputs] for n in graph.tensor}
    made = {graph.op[op].output: slot for slot, op in enumerate(slots)}
    main, llb = machine.levels.home.memory, machine.levels.exchange.memory
    shared: list[SharedBuffer] = []
    homes: list[SharedBuffer] = []
    top = {main.name: 0, llb.name: 0}

    def room(
        memory: str, tensor: str, live: tuple[int, int], *, fetch: bool = False, store: bool = False
    ) -> SharedBuffer:
        size = graph.tensor[tensor].bytes
        address = top[memory]
        top[memory] += round_up(size, machine.memory[memory].alignment)
        return SharedBuffer(tensor, full(graph.tensor[tensor].shape), memory, address, size, live, fetch, store)

    for name, scope in scopes.items():
        if scope == "shared":
            shared.append(room(llb.name, name, (made[name], max(reads[name]) + 1)))
        elif scope == "main":
            homes.append(room(main.name, name, (0, len(slots))))
            if name in made:
                shared.append(room(llb.name, name, (made[name], made[name] + 1), store=True))
            shared += [room(llb.name, name, (slot, slot + 1), fetch=True) for slot in reads[name]]
    plan = Plan(
        "scoped", machine.name, graph.digest, 0, segments, (), steps, tuple(placed_locals(graph, cells, machine, segments)),
        (*homes, *shared), (), (), False, 0, 0, "", (), (),
    )  # fmt: skip
    plan = with_movement(plan, graph, cells, machine)
    check_plan(plan, graph, machine)
    return plan
