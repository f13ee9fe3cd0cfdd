"""Plans for less memory, as competitors: so that more memory does not give a worse plan.

Every plan for a machine with less of a memory is one for the machine itself. Yet the loop need not find it there:
estimates and sizes that follow from a capacity (chunks of weights, reserves, splits of segments) are others, and more
room tempts to what only looks better. So the whole loop runs again as if there were less, at capacities that are the
same ones for every machine (:func:`~girih.solver.reduced_machine.smaller_capacities`):

1. less of the shared memory, which misleads most;
2. less of each other memory on the chip, a step of each before the next one of any;
3. with the capacities of the best so far (of equal ones the smallest), less of each other memory, in the same order;
   and again, until none is better.

It begins where a memory has no more than :data:`ROOMY` times what the plan uses, and a plan that is :data:`HOPELESS`
ends a memory's turn. What a machine with less memory would find is so found here too, as far as the timeout pays for
it and there are no more than :data:`MOST_SEARCHES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...ir.machine import Machine, Memory
from ...ir.plan import Plan
from ..reduced_machine import extent, reduced, reducible, smaller_capacities
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
    """What is planned for.

    ``solve`` searches for a smaller machine, or answers ``None`` if nothing pays for that or there is no plan;
    ``timed`` tells what a plan for one takes on this machine, ``offer`` lets it compete, as one from where a text says.
    """

    machine: Machine
    solve: Callable[[Machine], Plan | None]
    timed: Callable[[Plan], Plan]
    offer: Callable[[Plan, str], None]


class SmallerMemories:
    """One competition."""

    def __init__(self, whole: WholeMachine, incumbent: Incumbent) -> None:
        self._whole = whole
        self._incumbent = incumbent
        self._plans: dict[Capacities, Plan | None] = {}

    def compete(self) -> None:
        """Offer the plans for less memory to the incumbent."""
        machine = self._whole.machine
        if self._incumbent.best is not None:
            self._plans[()] = self._incumbent.best.plan
        # In less memory for homes, these share addresses, which makes no plan better.
        memories = [memory for memory in reducible(machine) if memory.name not in machine.levels.homes]
        shared = [memory for memory in memories if memory.name == machine.levels.exchange.name]
        self._descend((), shared)
        self._descend((), [memory for memory in memories if memory not in shared])
        base: Capacities = ()
        while base != (best := self._best()):
            self._descend(best, [memory for memory in memories if memory.name not in dict(best)])
            base = best

    def _descend(self, base: Capacities, memories: Sequence[Memory]) -> None:
        """Less and less of each memory, with the capacities of ``base``: a step of each, and then the next one."""
        plan = self._plans.get(base)
        steps: dict[str, Iterator[int]] = {}
        for memory in memories:
            room = memory.capacity if plan is None else ROOMY * extent(plan, memory.name)
            steps[memory.name] = iter([capacity for capacity in smaller_capacities(memory) if capacity < room])
        while steps:
            for name, capacities in list(steps.items()):
                capacity = next(capacities, None)
                if capacity is None or not self._promising(self._search((*base, (name, capacity)))):
                    del steps[name]

    def _search(self, capacities: Capacities) -> Plan | None:
        """The plan for these capacities, on the whole machine; ``None`` if there is none, or nothing pays for it."""
        if self._incumbent.is_final or len(self._plans) > MOST_SEARCHES:
            return None
        machine = self._whole.machine
        for memory, capacity in capacities:
            machine = reduced(machine, memory, capacity)
        reduced_plan = self._whole.solve(machine)
        plan = None if reduced_plan is None else self._whole.timed(reduced_plan)
        self._plans[capacities] = plan
        if plan is not None:
            self._whole.offer(plan, ", ".join(f"{c:,} bytes of {m}" for m, c in capacities))
        return plan

    def _promising(self, plan: Plan | None) -> bool:
        best = self._incumbent.best
        return plan is not None and best is not None and plan.cycles <= HOPELESS * best.plan.cycles

    def _best(self) -> Capacities:
        """Those with the fewest cycles; of equal ones the smallest, which machines with less memory have too."""
        cycles = {capacities: plan.cycles for capacities, plan in self._plans.items() if plan is not None}
        memory = self._whole.machine.memory

        def size(capacities: Capacities) -> list[int]:
            return [dict(capacities).get(name, memory[name].capacity) for name in memory]

        return min(cycles, key=lambda capacities: (cycles[capacities], size(capacities)), default=())
