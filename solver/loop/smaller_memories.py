"""Plans for less memory, as competitors: so that more memory does not give a worse plan.

Every plan for a machine with less of a memory is one for the machine itself. Yet the loop need not find it there:
estimates and sizes that follow from a capacity (chunks of weights, reserves, splits of segments) are others, and more
room tempts to what only looks better. So the whole loop runs again as if there were less, at capacities that are the
same ones for every machine (:func:`~girih.solver.reduced_machine.smaller_capacities`):

1. less of the shared memory, and less of the local memories;
2. with the capacities of the best so far (of equal ones the smallest), less of each other memory on the chip, in turn.

It begins where a memory has no more than :data:`ROOMY` times what the plan uses, and a plan that is :data:`HOPELESS`
ends a memory's turn. What a machine with less memory would find is so found here too, as far as the timeout pays for
it and there are no more than :data:`MOST_SEARCHES`. It is counted without a clock.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ...ir.errors import InfeasibleError
from ...ir.machine import Machine, Memory
from ...ir.plan import Plan
from ..cpsat.log import Record
from ..options import Planned
from ..reduced_machine import extent, reduced, reducible, smaller_capacities
from ..subproblem.time_budget import counted_seconds
from .incumbent import Incumbent

HOPELESS = 1.1
"""A plan that takes so many times the cycles of the best is no reason to look at still less memory. Chosen: with all
capacities of four memories of `tiny` in turn, for six networks, none that was better came after one."""
ROOMY = 2
"""A memory is not in short supply where a plan uses less than one part in so many of it. Chosen, not measured."""
MOST_SEARCHES = 32
"""Searches for less memory at most; chosen, so that small networks do not use up any timeout."""

Capacities = tuple[tuple[str, int], ...]
"""Memories of which there is less, with their capacities."""


@dataclass(frozen=True)
class WholeMachine:
    """What is planned for: ``solve`` searches for a smaller machine, ``timed`` tells what its plan takes on this one.

    ``ops`` and ``kinds`` are the operators of the network, and how many kinds of them there are; ``timeout`` is that of
    the whole search, in seconds.
    """

    machine: Machine
    ops: int
    kinds: int
    timeout: float
    solve: Callable[[Machine, Record], Planned]
    timed: Callable[[Plan], Plan]


class SmallerMemories:
    """One competition; ``iteration`` is the number of the plans in the log."""

    def __init__(self, whole: WholeMachine, incumbent: Incumbent, iteration: int) -> None:
        self._whole = whole
        self._incumbent = incumbent
        self._iteration = iteration
        self._spent = self._most = self._seconds(incumbent.record)
        self._plans: dict[Capacities, Plan | None] = {}
        self.unpaid = False
        """Whether the timeout did not pay for all of it."""

    def compete(self) -> None:
        """Offer the plans for less memory to the incumbent."""
        machine = self._whole.machine
        if self._incumbent.best is not None:
            self._plans[()] = self._incumbent.best.plan
        memories = reducible(machine)
        for memory in memories:
            if memory in (machine.roles["shared"], machine.roles["local"]):
                self._descend((), memory)
        for memory in memories:
            base = self._best()
            if memory.name not in dict(base):
                self._descend(base, memory)

    def _descend(self, base: Capacities, memory: Memory) -> None:
        """Less and less of a memory, with the capacities of ``base``."""
        plan = self._plans.get(base)
        room = memory.capacity if plan is None else ROOMY * extent(plan, memory.name)
        for capacity in smaller_capacities(memory):
            if capacity < room and not self._promising(self._search((*base, (memory.name, capacity)))):
                return

    def _search(self, capacities: Capacities) -> Plan | None:
        """The plan for these capacities, on the whole machine; ``None`` if there is none, or nothing pays for it."""
        record, whole = self._incumbent.record, self._whole
        if self._incumbent.is_final or self.unpaid or len(self._plans) > MOST_SEARCHES:
            return None
        if self._spent + self._most > whole.timeout:
            self.unpaid = True
            return None
        part = record.part()
        answer: Planned | None = None
        with suppress(InfeasibleError):
            machine = whole.machine
            for memory, capacity in capacities:
                machine = reduced(machine, memory, capacity)
            answer = whole.solve(machine, part)
        record.include(part)
        self._spent += self._seconds(part)
        self._most = max(self._most, self._seconds(part))
        plan = None if answer is None else whole.timed(answer.plan)
        self._plans[capacities] = plan
        if plan is not None:
            self._incumbent.offer(self._iteration, plan, ", ".join(f"{c:,} bytes of {m}" for m, c in capacities))
        return plan

    def _promising(self, plan: Plan | None) -> bool:
        best = self._incumbent.best
        return plan is not None and best is not None and plan.cycles <= HOPELESS * best.plan.cycles

    def _best(self) -> Capacities:
        """Those with the fewest cycles; of equal ones the smallest, which machines with less memory have too."""
        found = {capacities: plan.cycles for capacities, plan in self._plans.items() if plan is not None}
        memory = self._whole.machine.memory

        def size(capacities: Capacities) -> list[int]:
            return [dict(capacities).get(name, memory[name].capacity) for name in memory]

        return min(found, key=lambda capacities: (found[capacities], size(capacities)), default=())

    def _seconds(self, record: Record) -> float:
        return counted_seconds(record.runs, self._whole.ops, self._whole.kinds)
