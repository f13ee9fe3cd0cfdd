"""Plans for less memory, as competitors: so that more memory does not give a worse plan.

Every plan for a machine with less of a memory is one for the machine itself. Yet the loop need not find it there:
estimates and sizes that follow from a capacity (chunks of weights, reserves, splits of segments) are others, and more
room tempts to what only looks better. So the whole loop runs again as if there were less, at capacities that are the
same ones for every machine (:func:`~girih.solver.reduced_machine.smaller_capacities`):

1. less of the shared memory, and less of the local memories;
2. with the capacities of the best so far (of equal ones the smallest), less of each other memory of a core, in turn;
3. less of both the shared and the local memories.

A capacity with which the plan is :data:`HOPELESS` ends its direction. What a machine with less memory would find is so
found here too, as far as the timeout pays for it and there are no more than :data:`MOST_SEARCHES`. It is counted
without a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from ...ir.errors import InfeasibleError
from ...ir.machine import Machine, Memory
from ...ir.plan import Plan
from ..cpsat.log import Record
from ..options import Planned
from ..reduced_machine import reduced, reducible, smaller_capacities
from ..subproblem.time_budget import counted_seconds
from .incumbent import Incumbent

HOPELESS = 1.1
"""A plan that takes so many times the cycles of the best is no reason to look at still less memory. Chosen: with all
capacities of four memories of `tiny` in turn, for six networks, none that was better came after one."""
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
        self._cycles: dict[Capacities, int | None] = {}
        self.unpaid = False
        """Whether the timeout did not pay for all of it."""

    def compete(self) -> None:
        """Offer the plans for less memory to the incumbent."""
        machine = self._whole.machine
        if self._incumbent.best is not None:
            self._cycles[()] = self._incumbent.best.plan.cycles
        memories = reducible(machine)
        data = [machine.roles[role] for role in ("shared", "local") if machine.roles[role] in memories]
        for memory in data:
            self._descend((), memory)
        for memory in memories:
            if memory not in data:
                self._descend(self._best(), memory)
        for shared, local in pairwise(data):
            for row, column in sorted(_pairs(shared, local), key=lambda pair: (sum(pair), pair)):
                self._both(shared, row, local, column)

    def _descend(self, base: Capacities, memory: Memory) -> None:
        """Less and less of a memory, with those of ``base``."""
        for capacity in smaller_capacities(memory):
            if not self._promising(self._search((*base, (memory.name, capacity)))):
                return

    def _both(self, shared: Memory, row: int, local: Memory, column: int) -> None:
        """The capacities at these places of the two memories, if all that have one step more of either promise much."""
        rows, columns = smaller_capacities(shared), smaller_capacities(local)
        less_shared, less_local = (shared.name, rows[row]), (local.name, columns[column])
        above = (less_local,) if row == 0 else ((shared.name, rows[row - 1]), less_local)
        beside = (less_shared,) if column == 0 else (less_shared, (local.name, columns[column - 1]))
        if all(self._promising(self._cycles.get(capacities)) for capacities in (above, beside)):
            self._search((less_shared, less_local))

    def _search(self, capacities: Capacities) -> int | None:
        """The cycles of the plan for these capacities, on the whole machine; ``None`` if there is none."""
        record, whole = self._incumbent.record, self._whole
        if self._incumbent.is_final or self.unpaid or len(self._cycles) > MOST_SEARCHES:
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
        self._cycles[capacities] = None
        if answer is not None:
            plan = whole.timed(answer.plan)
            self._cycles[capacities] = plan.cycles
            self._incumbent.offer(self._iteration, plan, ", ".join(f"{c:,} bytes of {m}" for m, c in capacities))
        return self._cycles[capacities]

    def _promising(self, cycles: int | None) -> bool:
        best = self._incumbent.best
        return cycles is not None and best is not None and cycles <= HOPELESS * best.plan.cycles

    def _best(self) -> Capacities:
        """Those with the fewest cycles; of equal ones the smallest, which machines with less memory have too."""
        found = {capacities: cycles for capacities, cycles in self._cycles.items() if cycles is not None}
        memory = self._whole.machine.memory

        def size(capacities: Capacities) -> list[int]:
            return [dict(capacities).get(name, memory[name].capacity) for name in memory]

        return min(found, key=lambda capacities: (found[capacities], size(capacities)), default=())

    def _seconds(self, record: Record) -> float:
        return counted_seconds(record.runs, self._whole.ops, self._whole.kinds)


def _pairs(shared: Memory, local: Memory) -> Iterator[tuple[int, int]]:
    for row in range(len(smaller_capacities(shared))):
        for column in range(len(smaller_capacities(local))):
            yield row, column
