"""The least bytes of a memory with which there is still a plan: bisection over machines with less of it.

    proven too small |   unknown   | a plan was found
    0 ............ bound ........ least ........ capacity

What :mod:`..loop.precheck` proves gives *bound*. Each step looks for any plan with half of what is unknown; the bytes
that the plan uses are the new *least*, which may be much less than was allowed. The first is a plan for the fewest
cycles. Where no plan is found, nothing is proven, but smaller capacities are not tried: so *least* is proven if it
meets *bound*, and else the least of this search. With what is left of the timeout, the loop looks for the plan with the
fewest cycles for that capacity.

All plans are plans for the whole machine, and are timed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isqrt

from ...ir.bounds.lower_bound import lower_bound
from ...ir.errors import InfeasibleError, UsageError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan, Solved
from ...ir.semantics.cell import Cells
from ..cost.local_buffers import round_up
from ..cpsat.log import Record
from ..effort import NO_EFFORT
from ..loop.incumbent import Incumbent
from ..loop.precheck import least_bytes
from ..loop.referee import Referee
from ..loop.search import longest_seconds, search_plan
from ..options import Ending, Judge, Listener, ModelRun, Options, Planned
from ..reduced_machine import extent, granule, reduced, reducible
from ..subproblem.plan_builder import PlanBuilder

PROBE_SHARE = 1 / 16
"""Of what a bisection may take, for one step of it: 8 MiB in multiples of 1 KiB are 13 steps. Chosen, not measured."""


@dataclass(frozen=True)
class LeastMemory:
    """``plan`` takes no more than ``bytes`` of the memory; fewer than ``bound`` are proven to be too few."""

    bytes: int
    bound: int
    plan: Plan

    @property
    def is_proven(self) -> bool:
        return self.bytes <= self.bound


class MemoryGoal:
    """Searches of one graph for a machine with less of a memory; what they find is planned for the whole machine.

    Raises :class:`UsageError` if ``memory`` is none of which ``machine`` can have less.
    """

    def __init__(
        self, graph: Graph, machine: Machine, memory: str, options: Options, progress: Listener | None,
        judge: Judge | None,
    ) -> None:  # fmt: skip
        known = ", ".join(m.name for m in reducible(machine))
        if memory not in machine.memory:
            raise UsageError(f"{machine.name} has no memory {memory!r}; choose from {known}")
        if machine.memory[memory] not in reducible(machine):
            raise UsageError(
                f"the peak of {memory} ({machine.use_of(memory)}) cannot be minimised; choose from {known}"
            )
        self.graph, self.machine, self.options = graph, machine, options
        self.memory = machine.memory[memory]
        self.model = f"peak:{memory}"
        self.record = Record(longest_seconds(graph, options.timeout), progress)
        self.judge = judge
        self.step = granule(self.memory)
        self._builder = PlanBuilder(graph, machine, Cells(graph), options.seed, self.record.run)

    def search(self, capacity: int, timeout: float, *, any_plan: bool = False, expendable: bool = True) -> Planned:
        """The best plan with so many bytes of the memory, or any; raises :class:`InfeasibleError` if none is found.

        Where that may be because the clock ended the search, it is ``expendable``. After an interrupt no search begins:
        ``KeyboardInterrupt``.
        """
        if self.record.interrupts.seen:
            raise KeyboardInterrupt
        smaller = reduced(self.machine, self.memory.name, capacity)
        options = replace(self.options, timeout=timeout)
        part = self.record.part()
        try:
            with self.record.interrupts.held(held=False):
                planned = search_plan(
                    self.graph, smaller, options, part, None if any_plan else self.judge,
                    alone=True, any_plan=any_plan, expendable=expendable,
                )  # fmt: skip
        finally:
            self.record.include(part)
        with self.record.interrupts.held():
            return replace(planned, plan=self._builder.timed(planned.plan.unjudged))

    def least(self, timeout: float, plan: Plan) -> LeastMemory:
        """The bisection, from what a ``plan`` takes on. An interrupt ends it with what it has."""
        probe = PROBE_SHARE * timeout
        low = round_up(least_bytes(self.graph, self.machine, self.memory.name), self.step)
        bound = low = max(low, self.step)
        high = self.bytes_of(plan)
        with suppress(KeyboardInterrupt):
            while low < high and not (self.record.interrupts.seen or self.record.over()):
                self.record.tell(self.model, "running", float(high), float(bound), unit="bytes")
                # Capacities are compared by their ratio: plans for very little memory take long to make.
                middle = isqrt(low * high) // self.step * self.step
                try:
                    plan = self.search(middle, probe, any_plan=True).plan
                    high = self.bytes_of(plan)
                except InfeasibleError:
                    low = middle + self.step
        return LeastMemory(high, bound, plan)

    def planned(self, offers: Callable[[Incumbent], None], least: LeastMemory) -> Planned:
        """The best of the plans that ``offers`` makes, with what is known of the least memory."""
        referee = Referee(self.graph, self.options.timeout, self.judge)
        incumbent = Incumbent(self.record, lower_bound(self.graph, self.machine), referee)
        offers(incumbent)
        least = self.with_plans(least, [incumbent.best.plan] if incumbent.best is not None else [])
        status = "optimal" if least.is_proven else "feasible"
        solved = Solved(self.model, status, float(least.bytes), float(least.bound), "bytes")
        with suppress(KeyboardInterrupt):
            note = "" if least.is_proven else "fewer are not proven to be too few"
            self.record.run(ModelRun.from_solved(solved, NO_EFFORT, note))
        ending: Ending = "exhausted" if least.is_proven else "budget"
        done = incumbent.planned(ending, () if least.is_proven else (f"longer searches with less {self.memory.name}",))
        return replace(done, plan=replace(done.plan, solved=(*done.plan.solved, solved)))

    def with_plans(self, least: LeastMemory, plans: Iterable[Plan]) -> LeastMemory:
        """What is known after searches for few cycles, whose plans may take fewer bytes than they are allowed."""
        fewest = min((least.plan, *plans), key=self.bytes_of)
        return LeastMemory(min(least.bytes, self.bytes_of(fewest)), least.bound, fewest)

    def bytes_of(self, plan: Plan) -> int:
        """The bytes of the memory that a plan takes."""
        return max(self.step, round_up(extent(plan, self.memory.name), self.step))


def plan_for_least_memory(
    graph: Graph, machine: Machine, memory: str, options: Options, progress: Listener | None, judge: Judge | None
) -> Planned:
    """The best plan that takes the least bytes of a memory."""
    goal = MemoryGoal(graph, machine, memory, options, progress, judge)
    # What is neither a search nor a simulation is short, and an interrupt of it would lose what the searches have.
    with goal.record.interrupts.watch(), goal.record.interrupts.held():
        # It may take fewer bytes than whatever the bisection finds before the clock ends its searches.
        quickest = goal.search(goal.memory.capacity, options.timeout / 4, expendable=False).plan
        least = goal.least(options.timeout / 4, quickest)

        def offers(incumbent: Incumbent) -> None:
            with suppress(KeyboardInterrupt), goal.record.interrupts.held(held=False):
                incumbent.offer(0, least.plan)
            if incumbent.best is None:
                # The interrupt came before the plan was anywhere.
                incumbent.offer(0, least.plan)
            with suppress(InfeasibleError, KeyboardInterrupt), goal.record.interrupts.held(held=False):
                if not incumbent.is_over:
                    incumbent.offer(1, goal.search(least.bytes, options.timeout / 2).plan)

        return goal.planned(offers, least)
